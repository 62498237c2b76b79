"""``nanobot inspect``: what the model saw in each iteration of a Turn, and why something is missing."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from nanobot.agent.inspect import View, views
from nanobot.agent.passes import Boundaries
from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.mcp.names import CHATTY
from nanobot.channels.terminal.text import printable
from nanobot.cli.sessions import read_log
from nanobot.cli.streams import is_shown, write_out
from nanobot.config.environment import environment
from nanobot.config.settings import Settings, load
from nanobot.errors import MisuseError
from nanobot.messages import ImagePart, Message, TextPart, ToolMessage, UserMessage
from nanobot.session.entries import Head
from nanobot.values import frozen

Which: TypeAlias = Literal["session", "history", "initial", "model"]


@frozen
class HeadText:
    """What every request of a head begins with."""

    system: str
    tools: Sequence[str]


def inspect_session(config: Path | None, key: str, *, turn: str | None, which: Which) -> int:
    """Print one of the four message lists of one Turn (the last one without ``turn``)."""
    settings = load(config)
    entries, blobs = asyncio.run(read_log(settings, key))
    chosen = choose(list(views(entries, Boundaries(chatty=chatty_tools(settings)))), turn)
    heads = {
        entry.id: HeadText(blobs[entry.system].decode(), _names(blobs[entry.tools]))
        for entry in entries
        if isinstance(entry, Head) and entry.system in blobs and entry.tools in blobs
    }
    text = render(chosen, which, heads)
    write_out(printable(text) if is_shown() else text)
    return 0


def choose(found: Sequence[View], turn: str | None) -> list[View]:
    """Return the iterations of one Turn: ``t3``, ``3``, or the last one.

    Raises:
        MisuseError: there is no such Turn, or no model was asked yet.
    """
    turns = list(dict.fromkeys(view.turn for view in found))
    if not turns:
        raise MisuseError("no model was asked in this session yet")
    wanted = turns[-1] if turn is None else turn if turn.startswith("t") else f"t{turn}"
    if wanted not in turns:
        raise MisuseError(f"there is no Turn {wanted!r} with a model's answer; there are {', '.join(turns)}")
    return [view for view in found if view.turn == wanted]


def render(chosen: Sequence[View], which: Which, heads: dict[str, HeadText]) -> str:
    """Return a Turn's lists for reading.

    Only the messages for the model differ from iteration to iteration; of the others one is shown.
    """
    if which == "model":
        return "\n".join(_request(view, heads.get(view.head or "")) for view in chosen)
    view = chosen[-1] if which == "session" else chosen[0]
    messages = {"session": view.session, "history": view.history, "initial": view.initial}[which]
    return f"=== {view.turn} · {which}: {len(messages)} messages\n\n{_messages(messages)}"


def _request(view: View, head: HeadText | None) -> str:
    title = f"=== {view.turn} · iteration {view.iteration} · {len(view.model)} messages · answered by {view.answer}\n"
    notes = "".join(f"    {note}\n" for note in view.notes)
    if notes:
        notes = f"--- why it is not the whole session\n{notes}"
    begin = f"--- system ({view.head})\n{head.system}\n--- tools: {', '.join(head.tools)}\n" if head else ""
    return f"{title}{notes}{begin}{_messages(view.model)}"


def _messages(messages: Sequence[Message]) -> str:
    return "".join(f"--- {_title(message)}\n{_body(message)}\n" for message in messages)


def _title(message: Message) -> str:
    match message:
        case UserMessage():
            words = ("user", message.entry, "" if message.origin == "user" else f"({message.origin})")
        case ToolMessage():
            words = ("tool", message.entry, message.name, f"for {message.call_id}", "error" if message.is_error else "")
        case _:
            words = ("assistant", message.entry, "(cut off)" if message.cut_off else "")
    return " ".join(filter(None, words))


def _body(message: Message) -> str:
    match message:
        case UserMessage():
            return "\n".join(_part(part) for part in message.parts)
        case ToolMessage():
            return "\n".join([message.text, *map(_part, message.shown)])
        case _:
            calls = [f"-> {call.id} {call.name} {_arguments(call.arguments)}" for call in message.tool_calls]
            return "\n".join([*([message.text] if message.text else []), *calls])


def _arguments(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _part(part: TextPart | ImagePart) -> str:
    return part.text if isinstance(part, TextPart) else f"[image {part.media_type} {part.path}]"


def _names(tools: bytes) -> list[str]:
    rows = cast("list[dict[str, Any]]", json.loads(tools))  # Any: written by ``agent.head``; only the names are shown
    return [str(row["name"]) for row in rows]


def chatty_tools(settings: Settings) -> frozenset[str]:
    """Return the tools whose old results may become one line."""
    tools = builtin_tools(settings.tools, environ=environment())
    return frozenset(tool.name for tool in tools if tool.chatty) | {CHATTY}
