"""Runtime events: typed facts about running Turns, for in-process observers.

The grammar of one turn id, pinned by a property test::

    TurnStarted (StageFinished | TextDelta | TextReset | ReasoningDelta | ToolStarted | ToolFinished
                 | Retrying | ProviderSwitched | Waiting | Decided)* TurnFinished

Session and channel events (``Compacted``, ``Delivered``, ``ChannelStatus``, ``Lagged``) carry no turn id.

Emitting is synchronous and never blocks: each observer has a bounded buffer, in which neighbouring deltas merge and other overflow
becomes one ``Lagged``.  A failing observer is isolated from the Turn and from the others.
"""

from dataclasses import field
from typing import TypeAlias

from nanobot.bus.events import Media
from nanobot.values import frozen


@frozen(kw_only=True)
class Usage:
    """Tokens of one model request, or a sum of several.

    ``input_tokens`` counts the whole prompt, cached parts included; ``output_tokens`` counts reasoning too.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of input_tokens: read from the provider's prompt cache
    cache_write_tokens: int = 0  # of input_tokens: written to it
    reasoning_tokens: int = 0  # of output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@frozen(kw_only=True)
class _OfTurn:
    turn: str = ""  # filled by the publisher
    session_key: str = ""


@frozen
class TurnStarted(_OfTurn):
    """A Turn began, or went on after a restart."""

    resumed: bool = False


@frozen
class StageFinished(_OfTurn):
    """A state of the Turn ended."""

    stage: str
    duration_ms: float


@frozen
class TextDelta(_OfTurn):
    """More of the answer's text."""

    text: str


@frozen
class TextReset(_OfTurn):
    """The text of the current model request is void: the model starts it again."""


@frozen
class ReasoningDelta(_OfTurn):
    """More of the model's visible reasoning."""

    text: str


@frozen
class ToolStarted(_OfTurn):
    """A tool call began; ``summary`` is one short line for people."""

    call_id: str
    name: str
    summary: str


@frozen
class ToolFinished(_OfTurn):
    """A tool call ended."""

    call_id: str
    name: str
    is_error: bool
    duration_ms: float
    result_chars: int


@frozen
class Retrying(_OfTurn):
    """A model call failed and will be tried again after ``delay_s``."""

    why: str
    attempt: int
    delay_s: float


@frozen
class ProviderSwitched(_OfTurn):
    """Another model takes over from a failing one."""

    from_model: str
    to_model: str
    why: str


@frozen
class Waiting(_OfTurn):
    """The Turn waits for a person's approval of a call; ``question_id`` is what an answer names.

    ``details`` is what would run, whole; ``how`` says how to answer in the chat that asks, ``always`` what an answer of "always"
    would allow.  ``sender`` is whose Turn it is.
    """

    question: str
    question_id: str
    call_id: str
    details: str = ""
    how: str = ""
    always: str = ""
    sender: str = ""

    @property
    def in_full(self) -> str:
        """The question as it stands in the chat that asks, without the call."""
        return " ".join(filter(None, (self.question, self.how, self.always and f"Always: {self.always}")))


@frozen
class Decided(_OfTurn):
    """A question was settled: by a person's ``once``, ``always`` or ``deny``, or as ``expired``, by nobody (``by`` is empty)."""

    question_id: str
    decision: str
    by: str


@frozen
class TurnFinished(_OfTurn):
    """A Turn ended; the answer is in ``content``, or ``error`` says in one sentence why there is none."""

    stop_reason: str
    content: str
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    tools_used: tuple[str, ...] = ()
    iterations: int = 0
    files: tuple[Media, ...] = ()


@frozen
class Compacted:
    """A session's older messages were replaced by a summary."""

    session_key: str
    tokens_before: int
    tokens_after: int


@frozen
class Delivered:
    """A part of an answer was confirmed, or refused for good, by its platform."""

    session_key: str
    out: str
    part: int
    state: str


@frozen
class ChannelStatus:
    """A channel changed its state (``starting``, ``up``, ``down``, ``stopped``)."""

    channel: str
    state: str
    detail: str = ""


@frozen
class Lagged:
    """This observer was too slow: ``count`` events before this one were dropped for it."""

    count: int


ModelEvent: TypeAlias = TextDelta | TextReset | ReasoningDelta | Retrying | ProviderSwitched
TurnEvent: TypeAlias = (
    TurnStarted | StageFinished | ModelEvent | ToolStarted | ToolFinished | Waiting | Decided | TurnFinished
)
RuntimeEvent: TypeAlias = TurnEvent | Compacted | Delivered | ChannelStatus | Lagged
