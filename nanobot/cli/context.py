"""``nanobot context``: where a session's window goes, what its Turns cost, and where governance bent the curve."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanobot.agent.govern import answer_room
from nanobot.agent.inspect import views
from nanobot.agent.passes import Boundaries
from nanobot.agent.tokens import estimate_text
from nanobot.agent.window import Reuse, TurnCost, contents, history, reuse
from nanobot.channels.terminal.text import printable
from nanobot.cli.inspection import chatty_tools
from nanobot.cli.plot import bar, columns_of, curve, picture, thousands
from nanobot.cli.sessions import read_log
from nanobot.cli.streams import is_shown, write_out
from nanobot.config.settings import Settings, load
from nanobot.errors import MisuseError
from nanobot.messages import Message
from nanobot.providers.factory import split_ref
from nanobot.providers.models import context_window
from nanobot.session.entries import BlobId, Entry, Head, Step
from nanobot.values import frozen

_BAR = 30
_FORMS = ("svg", "png")


@frozen(kw_only=True)
class Picture:
    """All that is shown of a session."""

    key: str
    window: int
    answer: int
    parts: Mapping[str, int]
    turns: Sequence[TurnCost]
    reuse: Reuse


def show_context(config: Path | None, key: str, output: Path | None) -> int:
    """Print where the window of a session goes; draw the curves into ``output`` (.svg or .png), if one is named."""
    form = output.suffix.lower().removeprefix(".") if output else ""
    if output and form not in _FORMS:
        raise MisuseError(f"--output must end in .svg or .png, not {output.suffix!r}")
    settings = load(config)
    entries, blobs = asyncio.run(read_log(settings, key))
    shown = look(entries, blobs, key=key, settings=settings)
    if output:
        lines = {
            "without governance": [turn.ungoverned for turn in shown.turns],
            "as sent": [turn.prompt for turn in shown.turns],
        }
        output.write_bytes(picture(lines, title=f"Prompt of {key} by Turn", form=form))
        write_out(f"{output}\n")
        return 0
    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    text = render(shown, width=width)
    write_out(printable(text) if is_shown() else text)
    return 0


def look(entries: Sequence[Entry], blobs: Mapping[BlobId, bytes], *, key: str, settings: Settings) -> Picture:
    """Compute the figures of a session.

    Raises:
        MisuseError: no model was asked in it yet.
    """
    messages: Sequence[Message] | None = None
    for view in views(entries, Boundaries(chatty=chatty_tools(settings))):
        messages = view.model
    if messages is None:
        raise MisuseError("no model was asked in this session yet")
    head = next((entry for entry in reversed(entries) if isinstance(entry, Head)), None)
    system = estimate_text(blobs.get(head.system, b"").decode("utf-8", "replace")) if head else 0
    tools = estimate_text(blobs.get(head.tools, b"").decode("utf-8", "replace")) if head else 0
    reported = next((e.usage.input_tokens for e in reversed(entries) if isinstance(e, Step) and e.usage), None)
    window = _window(settings, head)
    return Picture(
        key=key,
        window=window,
        answer=answer_room(window, settings.agent.max_tokens),
        parts=contents(messages, system_tokens=system, tools_tokens=tools, total=reported),
        turns=history(entries, head_tokens=system + tools),
        reuse=reuse(entries),
    )


def render(shown: Picture, *, width: int) -> str:
    """Return the figures for reading."""
    return "\n".join([*_window_lines(shown), "", *_turn_lines(shown, width), ""])


def _window_lines(shown: Picture) -> list[str]:
    used = sum(shown.parts.values())
    room = max(0, shown.window - shown.answer - used)
    names = max(map(len, [*shown.parts, "room for the answer"]))
    rows = [
        *sorted(shown.parts.items(), key=lambda part: -part[1]),
        ("room for the answer", shown.answer),
        ("room left", room),
    ]
    lines = [f"{shown.key}: {thousands(used)} of {thousands(shown.window)} tokens ({used * 100 // shown.window} %)", ""]
    lines += [
        f"  {name:<{names}}  {bar(size, shown.window, width=_BAR)} {thousands(size):>7} {size * 100 / shown.window:5.1f} %"
        for name, size in rows
    ]
    return lines


def _turn_lines(shown: Picture, width: int) -> list[str]:
    turns, room = shown.turns, width - 2
    if not turns:
        return ["No Turn has ended yet."]
    spent = [turn.usage.input_tokens + turn.usage.output_tokens for turn in turns]
    top = max(turn.ungoverned for turn in turns)
    cut = columns_of([int(bool(set(turn.cuts) - {"head"})) for turn in turns], width=room)
    share = shown.reuse.cached_tokens * 100 // shown.reuse.input_tokens if shown.reuse.input_tokens else 0
    first, last = turns[0].turn, turns[-1].turn
    return [
        f"Tokens by Turn ({first} to {last}; most {thousands(max(spent))}, all {thousands(sum(spent))})",
        *_indented(curve(spent, width=room, top=max(spent))),
        "",
        f"Prompt if nothing were ever left out (most {thousands(top)})",
        *_indented(curve([turn.ungoverned for turn in turns], width=room, top=top)),
        f"Prompt as sent (most {thousands(max(turn.prompt for turn in turns))}; ^ something was cut)",
        *_indented(curve([turn.prompt for turn in turns], width=room, top=top)),
        "  " + "".join("^" if was_cut else " " for was_cut in cut).rstrip(),
        "",
        f"Cuts: {shown.reuse.cuts}. Read from the provider's cache: {thousands(shown.reuse.cached_tokens)} of "
        f"{thousands(shown.reuse.input_tokens)} prompt tokens ({share} %).",
    ]


def _indented(rows: Sequence[str]) -> list[str]:
    """Return the rows as they are printed, without empty ones at the top."""
    first = next((i for i, row in enumerate(rows) if row), len(rows) - 1)
    return [f"  {row}".rstrip() for row in rows[first:]]


def _window(settings: Settings, head: Head | None) -> int:
    ref = head.model if head and head.model.partition("/")[0] in settings.providers else settings.models[0]
    provider, model = split_ref(ref, settings.providers)
    own = getattr(settings.providers[provider], "context_window", None)
    return settings.agent.context_window or own or context_window(model)
