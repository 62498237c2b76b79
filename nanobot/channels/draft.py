"""What a person should see of a running Turn: a pure fold over its runtime events.

The terminal and chat platforms render the same ``Draft``.  A reset takes back what the current model request has said; text that
came before a tool call is settled (``earlier``) and is not taken back.
"""

from dataclasses import replace

from nanobot.bus.runtime_events import (
    ProviderSwitched,
    ReasoningDelta,
    Retrying,
    RuntimeEvent,
    TextDelta,
    TextReset,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Waiting,
)
from nanobot.values import frozen


@frozen(kw_only=True)
class ToolLine:
    """One tool call as people see it.  ``duration_ms`` is None while it runs; ``started_at`` is on the fold's clock, in seconds."""

    call_id: str
    summary: str
    started_at: float
    duration_ms: float | None = None
    result_chars: int = 0
    is_error: bool = False

    @property
    def is_running(self) -> bool:
        return self.duration_ms is None


@frozen(kw_only=True)
class Draft:
    """A Turn so far.

    Args:
        turn: its id, empty before the first Turn.
        started_at: when it was first seen, in the fold's clock.
        earlier: texts that were said before tool calls, in order.
        text: what the current model request has said, after resets.
        reasoning: what it thought before saying that.
        tools: all calls of the Turn, in order.
        note: what it waits for besides the model and its tools, as one sentence.
        finished: the last event, once it is there.
    """

    turn: str = ""
    started_at: float = 0.0
    earlier: tuple[str, ...] = ()
    text: str = ""
    reasoning: str = ""
    tools: tuple[ToolLine, ...] = ()
    note: str = ""
    finished: TurnFinished | None = None

    @property
    def is_running(self) -> bool:
        return bool(self.turn) and self.finished is None

    @property
    def running_tools(self) -> tuple[ToolLine, ...]:
        return tuple(tool for tool in self.tools if tool.is_running)


def fold(draft: Draft, event: RuntimeEvent, *, at: float) -> Draft:
    """Return the draft after one more event.  Events of other Turns, and those that show nothing, leave it as it is.

    Args:
        draft: what was known.
        event: of one session; the caller leaves other sessions' events out.
        at: seconds on the caller's clock, for elapsed times.
    """
    if isinstance(event, TurnStarted):
        return Draft(turn=event.turn, started_at=at)
    if getattr(event, "turn", None) != draft.turn or not draft.is_running:
        return draft
    match event:
        case TextDelta():
            return replace(draft, text=draft.text + event.text, note="")
        case ReasoningDelta():
            fresh = "" if draft.text else draft.reasoning  # thinking after text belongs to the next request
            return replace(draft, reasoning=fresh + event.text, note="")
        case TextReset():
            return replace(draft, text="", reasoning="")
        case ToolStarted():
            return _with_tool(draft, event, at)
        case ToolFinished():
            return replace(draft, tools=tuple(_ended(tool, event) for tool in draft.tools))
        case Retrying():
            return replace(draft, note=f"{event.why} Trying again in {event.delay_s:.0f} s (try {event.attempt + 1}).")
        case ProviderSwitched():
            return replace(draft, note=f"{event.to_model} takes over from {event.from_model}.")
        case Waiting():
            return replace(draft, note=event.in_full)
        case TurnFinished():
            return replace(draft, finished=event, note="")
        case _:
            return draft


def tool_text(tool: ToolLine, *, at: float) -> str:
    """Return a call as one line: what it does, how long it takes or took, and the size of its result."""
    if tool.duration_ms is None:
        return f"{tool.summary} · {seconds_text(at - tool.started_at)}"
    size = "failed" if tool.is_error else f"{tool.result_chars:,} chars"
    return f"{tool.summary} · {seconds_text(tool.duration_ms / 1000)} · {size}"


def seconds_text(seconds: float) -> str:
    """Return a duration for people: ``0.3 s``, ``12 s``, ``2 min 5 s``."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _with_tool(draft: Draft, event: ToolStarted, at: float) -> Draft:
    tool = ToolLine(call_id=event.call_id, summary=event.summary or event.name, started_at=at)
    earlier = (*draft.earlier, draft.text) if draft.text.strip() else draft.earlier
    return replace(draft, earlier=earlier, text="", reasoning="", tools=(*draft.tools, tool), note="")


def _ended(tool: ToolLine, event: ToolFinished) -> ToolLine:
    if tool.call_id != event.call_id or not tool.is_running:
        return tool
    return replace(tool, duration_ms=event.duration_ms, result_chars=event.result_chars, is_error=event.is_error)
