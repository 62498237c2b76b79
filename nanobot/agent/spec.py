"""What a run of the agent is given and gives back, and the port its facts go out through."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from nanobot.agent.bare import MemoryCheckpoint, bare_context, unheard, unsteered
from nanobot.agent.gates import Ask, Gate
from nanobot.agent.govern import Decided
from nanobot.agent.labels import Labels
from nanobot.agent.memo import Memo
from nanobot.agent.meter import Ratios, Reported
from nanobot.agent.passes import Boundaries
from nanobot.agent.tools.base import Planned, ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.events import Media
from nanobot.bus.runtime_events import TurnEvent, Usage
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from nanobot.providers.base import LLMResponse, ToolSpec
from nanobot.session.entries import BlobId, Effect, EntryId, Intent
from nanobot.values import frozen


class Checkpoint(Protocol):
    """Where a Turn's facts go.  Methods that are not async only queue; the order of calls is the order of the log."""

    def new_id(self) -> EntryId:
        """Return the id of the next message to be logged."""
        ...

    def answer(self, message: AssistantMessage, response: LLMResponse) -> None:
        """Log a model's answer, before anything is done about it."""
        ...

    def result(
        self,
        message: ToolMessage,
        *,
        blob: BlobId | None,
        duration_ms: float,
        media: tuple[Media, ...] = (),
        secret: str = "",
    ) -> None:
        """Log a call's result.

        ``blob`` holds the full text of one that was cut, ``media`` is owed to the Turn's chat, ``secret`` says what is secret.
        """
        ...

    async def written(self) -> bool:
        """Wait until the newest result is where a crash of ours leaves it; False if it cannot be put there now."""
        ...

    def runtime(self, message: UserMessage) -> None:
        """Log a message that the runner adds itself."""
        ...

    def cut(self, cut: Decided) -> None:
        """Log that a boundary moved."""
        ...

    async def intent(self, call: str, effect: Effect, planned: Planned) -> None:
        """Log what is about to happen; it is durable on return."""
        ...

    async def keep(self, text: str) -> BlobId | None:
        """Keep the full text of a result that will be cut; None if that is not possible now."""
        ...


@frozen(kw_only=True)
class AgentRunSpec:
    """One run: everything the runner may know.  Without a session, messages, tools and model are enough.

    Args:
        initial_messages: history and the current user message; OpenAI-form dicts are converted once.
        so_far: what this Turn has said already, with finish reasons, when it goes on after a restart.
        intents: intents of calls in ``so_far`` that have no result.
        ratios: how far token estimates are off, by model; shared by all runs.
        reported: the newest size that the provider reported of this conversation, if nothing was cut since.
        exact_tokens: have a provider that can count requests count those that come near to the window.
        memo: what was governed before in this conversation; it changes what a run costs, and nothing else.
        counter: counts a text's tokens exactly, where something can.
        ask: has a person decide about a call; returns why it may not run, or None if it may.  None where nobody can be asked.
        steer: returns (and logs) user messages that came in meanwhile; asked at the top of each iteration.
        labels: tells whose words a result is, and what of it is secret.
        context: what tools may know; the call id is filled in for each call.
    """

    initial_messages: Sequence[Message | dict[str, Any]]
    tools: ToolRegistry
    model: str
    checkpoint: Checkpoint = field(default_factory=MemoryCheckpoint)
    emit: Callable[[TurnEvent], None] = unheard
    context: ToolContext = field(default_factory=bare_context)
    system: str = ""
    specs: tuple[ToolSpec, ...] | None = None  # as frozen in the session's head; the registry's when None
    max_iterations: int = 40
    max_tokens: int = 8_192
    context_window: int = 128_000
    temperature: float | None = None
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    gates: Sequence[Gate] = ()
    labels: Labels = field(default_factory=Labels)
    boundaries: Boundaries = field(default_factory=Boundaries)
    ratios: Ratios = field(default_factory=Ratios)
    reported: Reported | None = None
    exact_tokens: bool = False
    memo: Memo = field(default_factory=Memo)
    counter: Callable[[str], int] | None = None
    ask: Callable[[ToolCall, Mapping[str, object], Ask], Awaitable[str | None]] | None = None
    steer: Callable[[], Awaitable[Sequence[UserMessage]]] = unsteered
    so_far: Sequence[tuple[Message, str | None]] = ()
    intents: Mapping[str, Intent] = field(default_factory=dict[str, Intent])


@frozen
class ToolEvent:
    """One call of a run, for whoever called the runner."""

    call_id: str
    name: str
    is_error: bool
    duration_ms: float


@frozen(kw_only=True)
class AgentRunResult:
    """How a run ended: ``completed``, ``max_iterations``, ``error``, or a ``GiveUp`` reason.

    ``messages`` are the Turn's own, after the initial ones.  ``answer`` is the entry that holds ``final_content``, when one does.
    """

    final_content: str
    stop_reason: str
    messages: tuple[Message, ...] = ()
    answer: EntryId | None = None
    tools_used: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    error: str | None = None
    tool_events: tuple[ToolEvent, ...] = ()
    had_injections: bool = False
