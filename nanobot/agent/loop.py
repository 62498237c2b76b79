"""The agent loop: one Turn at a time per session, many sessions at once.

Every way in is the same way: a message is accepted (on disk), then dispatched.  Each session with work has one worker, which holds
the session's lock and takes pending messages up in their order until none is left; Turns then wait for a slot, in this order, so
that one chat cannot starve the others.  Workers and drivers are tasks of the loop, never of a caller: a caller that goes away stops
its Turn's run, and the Turn is closed in order.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import cast
from uuid import uuid4

from nanobot.agent import commands
from nanobot.agent.approvals import Decision
from nanobot.agent.direct import Callers, Waiting, recorded_result
from nanobot.agent.stages import Stages
from nanobot.agent.taking import is_late, next_message
from nanobot.agent.turn import Running, TurnContext, TurnResult, drive, failed
from nanobot.bus.events import Acceptance, Duplicate, InboundMessage, Media, Role, SessionKey
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_bus import RuntimeEventBus, RuntimeEventPublisher
from nanobot.errors import DiskRefused, MisuseError, NanobotError, StopCause
from nanobot.session.entries import EntryId, Finished
from nanobot.session.manager import Session, SessionManager

log = logging.getLogger(__name__)

_STOP_DEADLINE_S = 30.0  # how long a cancelled caller waits for its Turn to be closed

# The sessions whose Turns the current task belongs to, outermost first.  A context variable because a tool may start tasks of its
# own, and every one of them must be known as the Turn's: it would wait for itself for ever otherwise.
_inside: ContextVar[tuple[SessionKey, ...]] = ContextVar("nanobot_turns", default=())


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
        self._taken_up: set[SessionKey] = set()  # sessions whose older debts were handed to the channels
        self._running: dict[SessionKey, Running] = {}
        self._stopped_early: set[SessionKey] = set()  # whose open Turn is to be stopped instead of going on
        self._callers = Callers()
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
    ) -> TurnResult:
        """Run one message as a Turn and return its result; see ``Nanobot.process_direct``."""
        if session_key in _inside.get():
            raise MisuseError(
                f"a tool of session {session_key!r} called its own session, which would wait for itself for ever"
            )
        message = InboundMessage(
            id=f"direct:{message_id or uuid4().hex}",  # never like an entry's own id
            session_key=session_key,
            sender="script",
            text=text,
            at=self._stages.run_stage.now(),
            media=tuple(media),
        )
        if self._closing:
            return _not_taken_up(session_key)
        waiting = self._callers.join(session_key, message.id)
        try:
            acceptance = await asyncio.shield(self._enter(message, self.dispatch))
            if isinstance(acceptance, Duplicate):
                async with self._sessions.open(session_key) as session:
                    recorded = await recorded_result(await session.restore(), message.id)
                if recorded is not None:
                    return recorded
            return await asyncio.shield(waiting.result)
        finally:
            waiting.callers -= 1
            if not waiting.callers and not waiting.result.done():
                await self._withdraw(waiting)
            self._callers.forget(waiting)

    def _enter(self, message: InboundMessage, hand_on: Callable[[InboundMessage], object]) -> asyncio.Task[Acceptance]:
        """Accept a message and hand it on, in a task of ours: a caller that leaves meanwhile must not leave it half accepted."""
        task = asyncio.create_task(self._accept(message, hand_on), name=f"accept {message.id}")
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)
        return task

    async def _accept(self, message: InboundMessage, hand_on: Callable[[InboundMessage], object]) -> Acceptance:
        async with self._sessions.open(message.session_key) as session:
            self._take_up_owed(await session.restore(or_adrift=True))
            acceptance = await session.accept(message)
        if message.overheard:
            return acceptance  # nothing waits for it
        if message.route is None and not self._callers.wait_for(message.session_key, message.id):
            self._ensure_worker(message.session_key)  # its caller has left: it is only put in order
        elif not isinstance(acceptance, Duplicate) or self._is_pending(message):
            hand_on(message)
        return acceptance

    def dispatch(self, message: InboundMessage) -> None:
        """See that an accepted message is dealt with: urgent commands now, everything else by the session's worker."""
        key = message.session_key
        command = commands.find(message.text)
        session = self._sessions.loaded(key)
        if command is not None and command.urgent and session is not None and message.id in session.log.pending:
            self._urgent(session, message, command)
            return
        if command is not None and command.ends_turn and self._may_stop(key, message):
            self.stop(key, "user_stop")
        elif command is None and self._stages.run_stage.settings.busy == "replace" and self._replaces(key, message):
            self.stop(key, "replaced")
        self._ensure_worker(key)

    def stop(self, key: SessionKey, cause: StopCause) -> str | None:
        """Stop the session's running Turn; return what it was doing, or None if nothing was running."""
        running = self._running.get(key)
        session = self._sessions.loaded(key)
        if running is None and session is not None and session.log.open is not None:
            self._stopped_early.add(key)  # it is about to go on after a restart
            return ""
        if running is None or not running.stop(cause):
            return None
        return ", ".join(running.tools.values())

    async def decide(self, key: SessionKey, decision: Decision, *, by: str, role: Role, question: EntryId = "") -> str:
        """Answer a question that waits in a session, as ``/approve`` and ``/deny`` do; return a sentence for who decided.

        Raises:
            SessionBusy: another process holds the session.
        """
        async with self._sessions.open(key) as session:
            await session.restore()
            ruling = self._stages.decide(session, decision, by=by, role=role, question=question)
            if ruling.kept is not None:
                with suppress(DiskRefused):  # it counts all the same; the Turn's answer says what cannot be kept
                    await ruling.kept
        return ruling.text

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
            except Exception:  # one session's fault must not keep the others, and the daemon, from starting
                log.exception("session %r was not recovered", key)

    async def resume(self, key: SessionKey) -> None:
        """Take up one session's open Turn, pending messages and owed answers.

        Raises:
            SessionBusy: another process holds it, and does so itself.
        """
        async with self._sessions.open(key) as session:
            self._take_up_owed(await session.restore())
            for outbound in self._stages.say_back(session):
                self._bus.publish_outbound(outbound)
            for message in [*session.log.pending.values()]:
                self._apply_first(session, message)
            if session.log.open or session.log.pending:
                self._ensure_worker(key)

    def _apply_first(self, session: Session, message: InboundMessage) -> None:
        """Carry out beside an open Turn, or before it goes on, what would have been if the last process had come to it."""
        command = commands.find(message.text)
        if command is not None and command.urgent:
            self._urgent(session, message, command)
        elif command is not None and command.ends_turn:
            self.stop(session.key, "user_stop")

    def _take_up_owed(self, session: Session) -> None:
        """Hand what an earlier process owed to the channels, once and first: what this process owes is on its way already."""
        if session.key not in self._taken_up and not session.is_adrift:
            self._taken_up.add(session.key)
            for message in session.log.owed.values():
                self._bus.publish_outbound(message)

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
        for waiting in self._callers.of():
            waiting.settle(_not_taken_up(waiting.key))

    # -- working ---------------------------------------------------------------------------------------------------------------

    def _ensure_worker(self, key: SessionKey) -> None:
        if key not in self._workers and not self._closing:
            self._workers[key] = asyncio.create_task(self._work(key), name=f"worker {key}")

    async def _work(self, key: SessionKey) -> None:
        """Hold the session and process what it has, in order, until there is nothing left."""
        try:
            async with self._sessions.open(key) as session, session.lock:
                self._take_up_owed(await session.restore())
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
            if message.route is None and not self._callers.wait_for(session.key, message.id):
                await self._abandon(session, message)
                return
        turn = session.log.open.turn if session.log.open else session.log.new_turn()
        is_command = message is not None and commands.is_command(message.text)
        # A command is no Turn of the log; its events need a name all the same.
        name = message.id if message is not None and is_command else turn
        opened = session.log.open
        starter = message.sender if message else opened.sender if opened else ""
        running = Running([message.id] if message else [], starter=starter, has_run=not is_command)
        self._running[session.key] = running
        if session.key in self._stopped_early:
            self._stopped_early.discard(session.key)
            running.stop("user_stop")
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
            result = context.result or failed(context.failure or "nanobot was stopped", session.key)
            self._callers.settle(result, [*running.inbound, *superseded])

    def _fail(self, key: SessionKey, error: Exception) -> None:
        for waiting in self._callers.of(key):
            waiting.settle(failed(str(error), key))

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
        running = self._running.get(session.key)
        starter = running.starter if doing is not None and running is not None else None
        refusal = commands.refusal(message.text, sender=message.sender, role=message.role, starter=starter)
        outcome = commands.Outcome(text=refusal) if refusal is not None else _carried_out(command, context, message)
        for outbound in self._stages.finish_urgent(session, message, outcome):
            self._bus.publish_outbound(outbound)
        result = TurnResult(content=outcome.text, stop_reason="command", session_key=session.key)
        self._callers.settle(result, [message.id])

    def _is_pending(self, message: InboundMessage) -> bool:
        session = self._sessions.loaded(message.session_key)
        return session is not None and message.id in session.log.pending

    def _replaces(self, key: SessionKey, message: InboundMessage) -> bool:
        running = self._running.get(key)
        return running is not None and message.id not in running.inbound and self._may_stop(key, message)

    def _may_stop(self, key: SessionKey, message: InboundMessage) -> bool:
        running = self._running.get(key)
        starter = running.starter if running is not None and running.has_run else None
        return commands.may_stop(sender=message.sender, role=message.role, starter=starter)

    async def _withdraw(self, waiting: Waiting) -> None:
        """The caller was cancelled: stop its Turn and wait until it is closed, or take its message out of the queue."""
        key, message_id = waiting.key, waiting.message_id
        running = self._running.get(key)
        if running is not None and message_id in running.inbound:
            running.stop("user_stop")
            await asyncio.wait({waiting.result}, timeout=_STOP_DEADLINE_S)
            return
        session = self._sessions.loaded(key)
        if session is not None and message_id in session.log.pending:
            entry = session.log.new_id()
            session.append(Finished(id=entry, inbound=(message_id,), stop_reason="user_stop", content=""))


def _carried_out(
    command: commands.Command, context: commands.CommandContext, message: InboundMessage
) -> commands.Outcome:
    """Return what came of an urgent command, also if that is a fault of ours: it would come again with every start."""
    try:
        return cast("commands.Outcome", command.run(context, commands.parse(message.text)[1]))
    except Exception as error:  # a fault of one command must end neither the loop nor come back with every start
        log.exception("/%s of session %r failed", command.name, message.session_key)
        text = f"Something went wrong inside nanobot ({type(error).__name__}); its log has the details."
        return commands.Outcome(text=text)


def _not_taken_up(key: SessionKey) -> TurnResult:
    error = "nanobot was shut down before this was taken up"
    return TurnResult(content="", stop_reason="shutdown", error=error, session_key=key)


def _work_left(session: Session) -> tuple[str | None, tuple[str, ...]]:
    return session.log.open.turn if session.log.open else None, tuple(session.log.pending)
