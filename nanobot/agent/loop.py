"""The agent loop: one Turn at a time per session, many sessions at once.

Every way in is the same way: a message is accepted (on disk), then dispatched.  Each session with work has one worker, which holds
the session's lock and takes pending messages up in their order until none is left; Turns then wait for a slot, in this order, so
that one chat cannot starve the others.  Workers and drivers are tasks of the loop, never of a caller: a caller that goes away stops
its Turn's run, and the Turn is closed in order.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import cast
from uuid import uuid4

from nanobot.agent import commands
from nanobot.agent.approvals import Decision
from nanobot.agent.closing import content_of
from nanobot.agent.stages import Stages
from nanobot.agent.taking import is_late, next_message
from nanobot.agent.turn import Running, TurnContext, TurnResult, drive
from nanobot.bus.events import Acceptance, Duplicate, InboundMessage, Media, Role, SessionKey
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_bus import RuntimeEventBus, RuntimeEventPublisher
from nanobot.errors import MisuseError, NanobotError, StopCause
from nanobot.session.entries import EntryId, Finished
from nanobot.session.log import Recorded, SessionLog
from nanobot.session.manager import Session, SessionManager

log = logging.getLogger(__name__)

_SEARCHED_ENTRIES = 5_000  # how far back a repeated direct call looks for its recorded result
_STOP_DEADLINE_S = 30.0  # how long a cancelled caller waits for its Turn to be closed

# The sessions whose Turns the current task belongs to, outermost first.  A context variable because a tool may start tasks of its
# own, and every one of them must be known as the Turn's: it would wait for itself for ever otherwise.
_inside: ContextVar[tuple[SessionKey, ...]] = ContextVar("nanobot_turns", default=())


class _Waiting:
    """Who waits for a direct message: so many callers, for one result."""

    def __init__(self, result: asyncio.Future[TurnResult]) -> None:
        self.result = result
        self.callers = 0

    def settle(self, result: TurnResult) -> None:
        """Give them the result, unless they have one."""
        if not self.result.done():
            self.result.set_result(result)


class AgentLoop:
    """Schedules Turns over sessions.

    Args:
        gather_s: how long the first of several messages that waited, as after downtime, waits for the others.
    """

    def __init__(
        self,
        *,
        sessions: SessionManager,
        stages: Stages,
        bus: MessageBus,
        events: RuntimeEventBus,
        gather_s: float = 0.5,
    ) -> None:
        self._sessions = sessions
        self._stages = stages
        self._handlers = stages.handlers()
        self._bus = bus
        self._events = events
        self._gather_s = gather_s
        self._workers: dict[SessionKey, asyncio.Task[None]] = {}
        self._running: dict[SessionKey, Running] = {}
        self._waiting: dict[tuple[SessionKey, str], _Waiting] = {}
        self._entering: set[asyncio.Task[Acceptance]] = set()
        self._closing = False

    # -- ways in ---------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Dispatch what the bus brings, until it is closed."""
        overflowed = 0
        async for message in self._bus.inbound:
            self.dispatch(message)
            if self._bus.inbound.overflowed != overflowed:
                overflowed = self._bus.inbound.overflowed
                for key in self._sessions.with_pending():
                    self._ensure_worker(key)

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Make a message durable and pending: the port for channels, which may acknowledge it then.

        Raises:
            SessionBusy: another process holds the session.
        """
        return await asyncio.shield(self._enter(message, self._bus.publish_inbound))

    async def process_direct(
        self,
        text: str,
        *,
        session_key: SessionKey,
        message_id: str | None = None,
        media: Sequence[Media] = (),
        sender: str = "script",
    ) -> TurnResult:
        """Run one message as a Turn and return its result; see ``Nanobot.process_direct``."""
        if session_key in _inside.get():
            raise MisuseError(
                f"a tool of session {session_key!r} called its own session, which would wait for itself for ever"
            )
        message = InboundMessage(
            id=f"direct:{message_id or uuid4().hex}",  # never like an entry's own id
            session_key=session_key,
            sender=sender,
            text=text,
            at=self._stages.run_stage.now(),
            media=tuple(media),
        )
        if self._closing:
            return _not_taken_up(session_key)
        place = (session_key, message.id)
        waiting = self._waiting.setdefault(place, _Waiting(asyncio.get_running_loop().create_future()))
        waiting.callers += 1
        try:
            acceptance = await asyncio.shield(self._enter(message, self.dispatch))
            if isinstance(acceptance, Duplicate):
                recorded = await self._recorded(session_key, message.id)
                if recorded is not None:
                    return recorded
            return await asyncio.shield(waiting.result)
        finally:
            waiting.callers -= 1
            if not waiting.callers:
                if not waiting.result.done():
                    await self._withdraw(session_key, message.id, waiting.result)
                if self._waiting.get(place) is waiting and not waiting.callers:
                    del self._waiting[place]

    def _enter(self, message: InboundMessage, hand_on: Callable[[InboundMessage], object]) -> asyncio.Task[Acceptance]:
        """Accept a message and hand it on, in a task of ours: a caller that leaves meanwhile must not leave it half accepted."""
        task = asyncio.create_task(self._accept(message, hand_on), name=f"accept {message.id}")
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)
        return task

    async def _accept(self, message: InboundMessage, hand_on: Callable[[InboundMessage], object]) -> Acceptance:
        acceptance = await self._sessions.accept(message)
        if message.route is None and (message.session_key, message.id) not in self._waiting:
            self._ensure_worker(message.session_key)  # its caller has left: it is only put in order
        elif not isinstance(acceptance, Duplicate) or self._is_pending(message):
            hand_on(message)
        return acceptance

    def dispatch(self, message: InboundMessage) -> None:
        """See that an accepted message is dealt with: urgent commands now, everything else by the session's worker."""
        key = message.session_key
        command = commands.COMMANDS.get(commands.parse(message.text)[0]) if commands.is_command(message.text) else None
        session = self._sessions.loaded(key)
        if command is not None and command.urgent and session is not None and message.id in session.log.pending:
            self._urgent(session, message, command)
            return
        if command is not None and command.ends_turn:
            self.stop(key, "user_stop")
        elif command is None and self._stages.run_stage.settings.busy == "replace" and self._replaces(key, message):
            self.stop(key, "replaced")
        self._ensure_worker(key)

    def stop(self, key: SessionKey, cause: StopCause) -> str | None:
        """Stop the session's running Turn; return what it was doing, or None if nothing was running."""
        running = self._running.get(key)
        if running is None or not running.stop(cause):
            return None
        return ", ".join(running.tools.values())

    def decide(self, key: SessionKey, decision: Decision, *, by: str, role: Role, question: EntryId = "") -> str:
        """Answer a question that waits in a session, as ``/approve`` and ``/deny`` do; return a sentence for who decided."""
        session = self._sessions.loaded(key)
        if session is None:
            return "Nothing waits for approval."
        return self._stages.decide(session, decision, by=by, role=role, question=question)

    @property
    def busy(self) -> bool:
        """Whether any session has a worker, or is about to get one."""
        return bool(self._workers or self._entering)

    @property
    def running(self) -> dict[SessionKey, str]:
        """What each session's running Turn is doing: its tools, or the model."""
        return {
            key: ", ".join(running.tools.values()) or "the model"
            for key, running in self._running.items()
            if running.has_run
        }

    async def recover(self) -> None:
        """Take up again what an earlier process left, in every session that may have something."""
        for key in await self._sessions.store.unfinished():
            try:
                await self.resume(key)
            except NanobotError as error:
                log.warning("session %r was not recovered: %s", key, error)

    async def resume(self, key: SessionKey) -> None:
        """Take up one session's open Turn, pending messages and owed answers.

        Raises:
            SessionBusy: another process holds it, and does so itself.
        """
        async with self._sessions.open(key) as session:
            await session.restore()
            for message in session.log.owed.values():
                self._bus.publish_outbound(message)
            if session.log.open or session.log.pending:
                self._ensure_worker(key)

    async def shutdown(self, *, grace_s: float) -> None:
        """Let running Turns end, up to ``grace_s``; then stop the rest and leave them to be resumed."""
        self._closing = True
        if self._entering:
            await asyncio.wait(set(self._entering))
        workers = set(self._workers.values())
        if workers and grace_s > 0:
            await asyncio.wait(workers, timeout=grace_s)
        for running in self._running.values():
            running.stop("shutdown")
        if self._workers:
            await asyncio.wait(set(self._workers.values()))
        for (key, _), waiting in self._waiting.items():
            waiting.settle(_not_taken_up(key))

    # -- working ---------------------------------------------------------------------------------------------------------------

    def _ensure_worker(self, key: SessionKey) -> None:
        if key not in self._workers and not self._closing:
            self._workers[key] = asyncio.create_task(self._work(key), name=f"worker {key}")

    async def _work(self, key: SessionKey) -> None:
        """Hold the session and process what it has, in order, until there is nothing left."""
        try:
            async with self._sessions.open(key) as session, session.lock:
                await session.restore()
                while not self._closing and (session.log.open or session.log.pending):
                    await self._gather(session)
                    before = _work_left(session)
                    await self._process_message(session)
                    if _work_left(session) == before and not self._closing:
                        raise RuntimeError("a Turn ended without being closed")  # would go round for ever
                self._workers.pop(key, None)  # before any await: what arrives from here on gets a worker of its own
        except NanobotError as error:
            self._fail(key, error)
        except Exception as error:  # a fault of ours must not leave callers waiting for ever
            log.exception("the worker of session %r failed", key)
            self._fail(key, error)
        finally:
            if self._workers.get(key) is asyncio.current_task():
                del self._workers[key]

    async def _gather(self, session: Session) -> None:
        """After downtime, wait a moment for the other messages that waited: they get one answer together."""
        chosen = next_message(session.log.pending) if session.log.open is None else None
        if chosen is not None and is_late(chosen[1], self._stages.run_stage.now()):
            await asyncio.sleep(self._gather_s)

    async def _process_message(self, session: Session) -> None:
        """Take one message (or the open Turn) from RESTORE to DONE: the one core of every way in."""
        superseded: tuple[str, ...] = ()
        message: InboundMessage | None = None
        if session.log.open is None:
            chosen = next_message(session.log.pending)
            assert chosen is not None
            superseded, message = chosen
            if message.route is None and (session.key, message.id) not in self._waiting:
                await self._abandon(session, message)
                return
        turn = session.log.open.turn if session.log.open else session.log.new_turn()
        is_command = message is not None and commands.is_command(message.text)
        # A command is no Turn of the log; its events need a name all the same.
        name = message.id if message is not None and is_command else turn
        running = Running([message.id] if message else [], has_run=not is_command)
        self._running[session.key] = running
        context = TurnContext(
            session=session,
            publisher=RuntimeEventPublisher(self._events, turn=name, session_key=session.key),
            message=message,
            turn=turn,
            running=running,
            superseded=superseded,
            is_child=bool(_inside.get()),
        )
        token = _inside.set((*_inside.get(), session.key))
        try:
            await drive(context, self._handlers)
        finally:
            _inside.reset(token)
            del self._running[session.key]
            self._resolve(session.key, [*running.inbound, *superseded], context)

    def _resolve(self, key: SessionKey, inbound: Sequence[str], context: TurnContext) -> None:
        result = context.result or TurnResult(
            content="", stop_reason="error", error=context.failure or "nanobot was stopped", session_key=key
        )
        for message_id in inbound:
            waiting = self._waiting.get((key, message_id))
            if waiting is not None:
                waiting.settle(result)

    def _fail(self, key: SessionKey, error: Exception) -> None:
        for (waiting_key, _), waiting in self._waiting.items():
            if waiting_key == key:
                waiting.settle(TurnResult(content="", stop_reason="error", error=str(error), session_key=key))

    async def _abandon(self, session: Session, message: InboundMessage) -> None:
        """Close a direct message whose caller is gone: nobody waits for it, and nothing is owed."""
        entry = session.log.new_id()
        finished = Finished(id=entry, inbound=(message.id,), stop_reason="interrupted", content="")
        await asyncio.gather(session.append(finished), return_exceptions=True)

    # -- commands and callers --------------------------------------------------------------------------------------------------

    def _urgent(self, session: Session, message: InboundMessage, command: commands.Command) -> None:
        """Carry a command out beside the running Turn, without lock or queue."""
        doing = self.running.get(session.key)
        context = self._stages.command_context(
            session, message, stop=lambda: self.stop(session.key, "user_stop"), running=doing
        )
        outcome = cast("commands.Outcome", command.run(context, commands.parse(message.text)[1]))
        for outbound in self._stages.finish_urgent(session, message, outcome):
            self._bus.publish_outbound(outbound)
        waiting = self._waiting.get((session.key, message.id))
        if waiting is not None:
            waiting.settle(TurnResult(content=outcome.text, stop_reason="command", session_key=session.key))

    def _is_pending(self, message: InboundMessage) -> bool:
        session = self._sessions.loaded(message.session_key)
        return session is not None and message.id in session.log.pending

    def _replaces(self, key: SessionKey, message: InboundMessage) -> bool:
        running = self._running.get(key)
        return running is not None and message.id not in running.inbound

    async def _withdraw(self, key: SessionKey, message_id: str, future: asyncio.Future[TurnResult]) -> None:
        """The caller was cancelled: stop its Turn and wait until it is closed, or take its message out of the queue."""
        running = self._running.get(key)
        if running is not None and message_id in running.inbound:
            running.stop("user_stop")
            await asyncio.wait({future}, timeout=_STOP_DEADLINE_S)
            return
        session = self._sessions.loaded(key)
        if session is not None and message_id in session.log.pending:
            entry = session.log.new_id()
            session.append(Finished(id=entry, inbound=(message_id,), stop_reason="user_stop", content=""))

    async def _recorded(self, key: SessionKey, message_id: str) -> TurnResult | None:
        """Return the result of a direct message that was answered before; None if it is still being worked on.

        Raises:
            MisuseError: it was answered so long ago that its result is out of reach.
        """
        async with self._sessions.open(key) as session:
            await session.restore()
            open_ids = session.log.open.inbound if session.log.open else []
            if message_id in session.log.pending or message_id in open_ids:
                return None
            found = session.log.recorded.get(message_id)
            if found is None:
                older = SessionLog(key)
                older.extend(reversed(await session.read(limit=_SEARCHED_ENTRIES)))
                found = older.recorded.get(message_id)
            if found is None:
                raise MisuseError(f"message {message_id!r} was answered before, but its result is no longer at hand")
            return _result(key, found)


def _not_taken_up(key: SessionKey) -> TurnResult:
    error = "nanobot was shut down before this was taken up"
    return TurnResult(content="", stop_reason="shutdown", error=error, session_key=key)


def _work_left(session: Session) -> tuple[str | None, tuple[str, ...]]:
    return session.log.open.turn if session.log.open else None, tuple(session.log.pending)


def _result(key: SessionKey, recorded: Recorded) -> TurnResult:
    finished = recorded.finished
    return TurnResult(
        content=content_of(recorded.content, stop_reason=finished.stop_reason, error=finished.error),
        stop_reason=finished.stop_reason,
        usage=finished.usage,
        tools_used=recorded.tools_used,
        iterations=finished.iterations,
        error=finished.error,
        session_key=key,
    )
