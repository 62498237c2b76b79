"""What is said when a Turn ends, and how its open calls are answered.  Pure."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from nanobot.agent.repair import INTERRUPTED
from nanobot.agent.spec import AgentRunResult
from nanobot.bus.events import OutboundMessage, Route
from nanobot.messages import ToolCall, ToolMessage
from nanobot.session.entries import EntryId

Parts: TypeAlias = tuple[tuple[int, int], ...]
Split: TypeAlias = Callable[[Route, str], Parts]  # cuts an answer into the parts that its channel can send

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


def whole(route: Route, text: str) -> Parts:
    """Return the text as one part."""
    return ((0, len(text)),)


def with_notice(message: OutboundMessage, notice: str, split: Split) -> OutboundMessage:
    """Put a line before an answer whose parts are owed already: into its first part, so that the parts stay the same.

    Only where that part would grow too long is the answer cut anew.
    """
    before = f"{notice}\n\n"
    text = before + message.text
    first, *others = [(start + len(before), end + len(before)) for start, end in message.parts]
    parts = ((0, first[1]), *others)
    if len(split(message.route, text[: first[1]])) > 1:
        parts = split(message.route, text)
    return replace(message, text=text, parts=parts, states=("owed",) * len(parts), refs=(None,) * len(parts))
