"""The Turn as a state machine: its states, its one transition table, its workbench and its driver.

Only COMMAND branches.  A handler does one stage and returns an event; the driver times each stage, tells who wants to know, and
knows nothing else.  A stage that fails leaves its failure in the context and the Turn goes on to be closed in order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from time import perf_counter
from typing import Any, Literal, TypeAlias

from nanobot.agent.head import FrozenHead
from nanobot.agent.spec import AgentRunResult
from nanobot.bus.events import InboundMessage, Media, OutboundMessage, SessionKey
from nanobot.bus.runtime_bus import RuntimeEventPublisher
from nanobot.bus.runtime_events import StageFinished, TurnFinished, Usage
from nanobot.errors import NanobotError, StopCause
from nanobot.session.manager import Session
from nanobot.values import frozen

log = logging.getLogger(__name__)


class TurnState(Enum):
    """Where a Turn is."""

    RESTORE = "restore"
    COMPACT = "compact"
    COMMAND = "command"
    BUILD = "build"
    RUN = "run"
    SAVE = "save"
    RESPOND = "respond"
    DONE = "done"


Event = Literal["ok", "dispatch", "shortcut"]

TRANSITIONS: Mapping[tuple[TurnState, Event], TurnState] = {
    (TurnState.RESTORE, "ok"): TurnState.COMPACT,
    (TurnState.COMPACT, "ok"): TurnState.COMMAND,
    (TurnState.COMMAND, "dispatch"): TurnState.BUILD,
    (TurnState.COMMAND, "shortcut"): TurnState.DONE,
    (TurnState.BUILD, "ok"): TurnState.RUN,
    (TurnState.RUN, "ok"): TurnState.SAVE,
    (TurnState.SAVE, "ok"): TurnState.RESPOND,
    (TurnState.RESPOND, "ok"): TurnState.DONE,
}


@frozen(kw_only=True)
class TurnResult:
    """What came of a message, for whoever sent it directly.

    ``stop_reason`` is ``completed``, ``command``, ``max_iterations``, ``error``, ``refusal``, ``empty``, ``malformed``,
    ``user_stop``, ``replaced``, ``limit``, ``interrupted`` or ``shutdown``.  ``error`` says in one sentence what went wrong; it is
    never in ``content``.  ``files`` are those that the Turn sends, or sent: each lies at its ``path``, unchanged.
    """

    content: str
    stop_reason: str
    usage: Usage = field(default_factory=Usage)
    tools_used: tuple[str, ...] = ()
    iterations: int = 0
    error: str | None = None
    session_key: SessionKey = ""
    files: tuple[Media, ...] = ()

    def as_event(self) -> TurnFinished:
        """Return what observers are told at the end of the Turn."""
        return TurnFinished(
            session_key=self.session_key,
            stop_reason=self.stop_reason,
            content=self.content,
            error=self.error,
            usage=self.usage,
            tools_used=self.tools_used,
            iterations=self.iterations,
            files=self.files,
        )


def failed(error: str | None, key: SessionKey) -> TurnResult:
    """Return the result of a message that came to nothing."""
    return TurnResult(content="", stop_reason="error", error=error, session_key=key)


class Running:
    """The stoppable part of a Turn: its run, as a child task of the driver, and why it was stopped.

    ``has_run`` is false for a command, which cannot be stopped, until it turns out that a run follows (``/retry``).  ``starter`` is
    who sent the Turn's first message.
    """

    def __init__(self, inbound: list[str], *, starter: str, has_run: bool = True) -> None:
        self.inbound = inbound
        self.starter = starter
        self.has_run = has_run
        self.cause: StopCause | None = None
        self._task: asyncio.Task[Any] | None = None  # Any: the wait for files or a slot, then the run
        self.tools: dict[str, str] = {}  # running calls: id -> summary
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, task: asyncio.Task[Any]) -> None:
        """Take the task that is to be cancelled from now on; a stop that came before is carried out now."""
        self._task = task
        if self.cause is not None:
            task.cancel()

    def rest(self) -> None:
        """Let go of a task that has ended although the Turn goes on: a stop counts for what is started next."""
        self._task = None

    def stop(self, cause: StopCause) -> bool:
        """Stop the run; False if there is none, or if it was stopped or has ended already."""
        if not self.has_run or self.cause is not None or (self._task is not None and self._task.done()):
            return False
        self.cause = cause
        self.stopped.set_result(None)
        if self._task is not None:
            self._task.cancel()
        return True


@dataclass(slots=True)
class TurnContext:
    """One Turn's workbench: only what a later stage reads."""

    session: Session
    publisher: RuntimeEventPublisher
    message: InboundMessage | None  # None: a Turn of the log goes on
    turn: str
    running: Running
    superseded: tuple[str, ...] = ()  # older pending messages that this one makes void
    retries: str | None = None  # the Turn that this one takes the place of
    is_child: bool = False  # begun by a tool of another Turn, whose slot it uses
    head: FrozenHead | None = None
    run: AgentRunResult | None = None
    failure: str | None = None
    outbound: tuple[OutboundMessage, ...] = ()
    result: TurnResult | None = None


Handler: TypeAlias = Callable[[TurnContext], Awaitable[Event]]


async def drive(context: TurnContext, handlers: Mapping[TurnState, Handler]) -> None:
    """Take the Turn from RESTORE to DONE; ``context.result`` is set then, and told to observers last of all."""
    state = TurnState.RESTORE
    while state is not TurnState.DONE:
        started = perf_counter()
        event = await _guarded(handlers[state], context, state)
        context.publisher.emit(StageFinished(stage=state.value, duration_ms=(perf_counter() - started) * 1000))
        state = TRANSITIONS[state, event]
    if context.result is None:
        context.result = failed(context.failure, context.session.key)
    context.publisher.emit(context.result.as_event())


async def _guarded(handler: Handler, context: TurnContext, state: TurnState) -> Event:
    if context.failure is not None and state in (TurnState.BUILD, TurnState.RUN):
        return "ok"  # nothing to run on; SAVE closes the Turn
    try:
        return await handler(context)
    except NanobotError as error:
        context.failure = str(error)
    except Exception as error:  # the Turn boundary: whatever failed, the session must go on
        log.exception("stage %s of session %r failed", state.value, context.session.key)
        context.failure = f"Something went wrong inside nanobot ({type(error).__name__}); its log has the details."
    return "dispatch" if state is TurnState.COMMAND else "ok"
