"""What is said when a Turn ends, and how its open calls are answered.  Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from nanobot.agent.repair import INTERRUPTED
from nanobot.agent.spec import AgentRunResult
from nanobot.bus.events import Media, OutboundMessage, Route
from nanobot.messages import ToolCall, ToolMessage
from nanobot.session.entries import EntryId, Owed

Parts: TypeAlias = tuple[tuple[int, int], ...]


class Split(Protocol):
    """Cuts an answer into the parts that its channel can send."""

    def __call__(self, route: Route, text: str, *, is_caption: bool = False) -> Parts:
        """Return the parts; of a file's caption, the first is what goes with the file (and may be empty)."""
        ...


_STOPPED_CALLS = {
    "user_stop": "[stopped by the user while it ran; outcome unknown: check before you repeat it]",
    "replaced": "[stopped because the user sent a new message; outcome unknown: check before you repeat it]",
    "limit": "[stopped at the time limit; outcome unknown: check before you repeat it]",
}


def told(run: AgentRunResult) -> str:
    """Return what the person is told at the end of a Turn; empty if somebody else tells them (a stop's own answer)."""
    match run.stop_reason:
        case "user_stop" | "replaced":
            return f"{run.final_content}\n\n[stopped]" if run.final_content else ""
        case _ if run.error is not None:
            return f"{run.final_content}\n\n⚠ {run.error}" if run.final_content else f"⚠ {run.error}"
        case _:
            return run.final_content


def content_of(told: str, *, stop_reason: str, error: str | None) -> str:
    """Return the result's content out of what the person was told: the inverse of ``told``."""
    if error is not None:
        return told.removesuffix(f"⚠ {error}").removesuffix("\n\n")
    return told.removesuffix("\n\n[stopped]") if stop_reason in ("user_stop", "replaced") else told


def unkept(why: str) -> str:
    """Return the sentence that comes before an answer which could not be kept."""
    return f"⚠ This conversation cannot be kept at the moment: {why}"


def closing_results(calls: Iterable[ToolCall], *, entry: EntryId, stop_reason: str) -> tuple[ToolMessage, ...]:
    """Return a result for each call that is still open."""
    text = _STOPPED_CALLS.get(stop_reason, INTERRUPTED)
    return tuple(ToolMessage(call.id, call.name, text, is_error=True, entry=entry) for call in calls)


def whole(route: Route, text: str, *, is_caption: bool = False) -> Parts:
    """Return the text as one part."""
    return ((0, len(text)),)


def owed_to(turn: str, route: Route | None, text: str, files: Sequence[Media], split: Split) -> tuple[Owed, ...]:
    """Return what a Turn owes to its chat: each file by itself, in the order of the calls, then the text.

    Only what comes first is a reply to what was asked.
    """
    if route is None:
        return ()
    owed: list[Owed] = []
    for number, media in enumerate(files, 1):
        owed.append(
            Owed(out=f"{turn}.{number}", route=route, parts=split(route, media.caption, is_caption=True), media=media)
        )
        route = replace(route, reply_to=None)
    if text:
        owed.append(Owed(out=f"{turn}.0", route=route, parts=split(route, text), anew=bool(files)))
    return tuple(owed)


def noticed(messages: tuple[OutboundMessage, ...], notice: str, split: Split) -> tuple[OutboundMessage, ...]:
    """Put a line before what is owed: before the text, or else into the first file's caption."""
    if not notice or not messages:
        return messages
    first = next((message for message in messages if message.media is None), messages[0])
    return tuple(_with_notice(message, notice, split) if message is first else message for message in messages)


def _with_notice(message: OutboundMessage, notice: str, split: Split) -> OutboundMessage:
    """Put a line before an answer whose parts are owed already: into its first part, so that the parts stay the same.

    Only where that part would grow too long is the answer cut anew.
    """
    before = f"{notice}\n\n"
    text = before + message.text
    first, *others = [(start + len(before), end + len(before)) for start, end in message.parts]
    parts = ((0, first[1]), *others)
    is_caption = message.media is not None
    if len(split(message.route, text[: first[1]], is_caption=is_caption)) > 1:
        parts = split(message.route, text, is_caption=is_caption)
    return replace(message, text=text, parts=parts, states=("owed",) * len(parts), refs=(None,) * len(parts))
