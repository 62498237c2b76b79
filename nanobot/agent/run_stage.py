"""The RUN state: the runner as a child task of the Turn's driver, and what becomes of it when it is stopped."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nanobot.agent.approvals import Approvals, Asking
from nanobot.agent.context import ContextBuilder
from nanobot.agent.counting import counter_for
from nanobot.agent.fetching import Files
from nanobot.agent.frames import unframed
from nanobot.agent.gates import Ask, Gate
from nanobot.agent.head import FrozenHead
from nanobot.agent.labels import Labels, origins_of
from nanobot.agent.memo import Memos
from nanobot.agent.meter import Ratios, known_window, last_reported
from nanobot.agent.models import Model
from nanobot.agent.passes import Boundaries, at_cuts
from nanobot.agent.recorder import TurnRecorder
from nanobot.agent.repair import is_person
from nanobot.agent.runner import AgentRunner
from nanobot.agent.settings import AgentSettings
from nanobot.agent.slots import Slot
from nanobot.agent.spec import AgentRunResult, AgentRunSpec
from nanobot.agent.taking import steering
from nanobot.agent.tools.base import Sourced, Standing, ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.scratch import prune_scratch
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.agent.turn import Running, TurnContext
from nanobot.agent.watched import WatchedEmit
from nanobot.bus.events import Route
from nanobot.messages import ToolCall, UserMessage
from nanobot.session.entries import EntryId
from nanobot.session.files import stem
from nanobot.session.log import number
from nanobot.session.manager import Session

log = logging.getLogger(__name__)

_SEARCHED_ENTRIES = 10_000  # how far back an undo looks for what a Turn did to files


@dataclass(frozen=True, kw_only=True)
class RunStage:
    """Runs a Turn's run.

    ``slots`` bounds the Turns that run at once; ``scratch`` holds files of running calls; ``now`` is the clock on the wall;
    ``media`` is where files that are sent are kept; ``max_file_bytes`` says how large a file a chat takes (None: any).
    """

    settings: AgentSettings
    tools: ToolRegistry
    builder: ContextBuilder
    scratch: Path
    slots: asyncio.Semaphore
    now: Callable[[], datetime]
    approvals: Approvals
    files: Files = field(default_factory=Files)
    gates: Sequence[Gate] = ()
    scripts_decide: bool = False
    labels: Labels = field(default_factory=Labels)
    ratios: Ratios = field(default_factory=Ratios)
    memos: Memos = field(default_factory=Memos)
    jobs: Jobs = field(default_factory=lambda: Jobs(Path("/nonexistent")))  # none are ever started there
    media: Path | None = None
    max_file_bytes: Callable[[Route], int | None] = lambda route: None
    comply_s: float = 15.0  # for a stopped run to end: longer than exec takes to end a whole tree of processes

    async def run(self, context: TurnContext, model: Model, head: FrozenHead) -> AgentRunResult:
        """Run, and return a result whatever ends it; only faults of our own are raised."""
        slot = Slot(None if context.is_child else self.slots)
        if not await self._has_slot(context, slot):
            return AgentRunResult(final_content="", stop_reason=context.running.cause or "shutdown")
        try:
            return await self._run(context, model, head, slot)
        finally:
            slot.give_back()

    async def _has_slot(self, context: TurnContext, slot: Slot) -> bool:
        """Wait for a slot; False if the Turn was stopped meanwhile."""
        if context.is_child or not self.slots.locked():
            await slot.take()
            return True
        waiter = asyncio.create_task(slot.take(), name=f"slot {context.turn} {context.session.key}")
        context.running.start(waiter)
        try:
            await asyncio.wait({waiter})
        finally:
            waiter.cancel()  # only if the driver itself is being torn down
        return not waiter.cancelled()

    async def _run(self, context: TurnContext, model: Model, head: FrozenHead, slot: Slot) -> AgentRunResult:
        recorder = TurnRecorder(context.session, turn=context.turn, head=head.entry)
        watched = WatchedEmit(context.publisher, recorder, context.running)
        spec = self._spec(context, model, head, recorder, watched, slot)
        child = asyncio.create_task(
            AgentRunner(model.provider).run(spec), name=f"run {context.turn} {context.session.key}"
        )
        context.running.start(child)
        try:
            await self._ended(child, context.running)
        finally:
            child.cancel()  # only if it does not comply, or the driver itself is being torn down
        if not child.done():
            log.error("%s did not end when it was stopped; it is left behind", child.get_name())
            child.add_done_callback(_ended_late)
            stopped = self._stopped(context, recorder, watched.partial)
            recorder.close(context.running.cause or "limit")
            watched.close()
            return stopped
        if child.cancelled():
            return self._stopped(context, recorder, watched.partial)
        if (fault := child.exception()) is not None:
            raise fault
        run = child.result()
        if run.error is not None and watched.partial:
            recorder.cut_off(watched.partial)
        return run

    async def _ended(self, child: asyncio.Task[AgentRunResult], running: Running) -> None:
        """Wait for the run's end, up to its limit; once it is stopped, not for long."""
        either: set[asyncio.Future[Any]] = {child, running.stopped}  # Any: two kinds of results, neither looked at
        await asyncio.wait(either, timeout=self.settings.turn_timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not child.done():
            running.stop("limit")  # unless it was stopped for another cause
            await asyncio.wait({child}, timeout=self.comply_s)

    def _stopped(self, context: TurnContext, recorder: TurnRecorder, partial: str) -> AgentRunResult:
        cause = context.running.cause
        keep = bool(partial) and cause != "shutdown"
        errors = {
            "limit": f"This took longer than the limit of {self.settings.turn_timeout_s:g} s and was stopped.",
            None: "The model call was cancelled from inside, so this request ends here.",  # nobody asked us to stop
        }
        return AgentRunResult(
            final_content=partial,
            stop_reason=cause or "error",
            answer=recorder.cut_off(partial) if keep else None,
            error=errors.get(cause),
        )

    def _spec(
        self,
        context: TurnContext,
        model: Model,
        head: FrozenHead,
        recorder: TurnRecorder,
        watched: WatchedEmit,
        slot: Slot,
    ) -> AgentRunSpec:
        session, settings = context.session, self.settings
        opened = session.log.open
        first, *so_far = session.log.turn_rows(context.turn)
        current = first.message
        assert isinstance(current, UserMessage)
        return AgentRunSpec(
            initial_messages=self.builder.build_messages(session.get_history(), current),
            so_far=[(row.message, row.finish) for row in so_far],
            intents=dict(opened.intents) if opened else {},
            tools=self.tools,
            model=model.model,
            checkpoint=recorder,
            emit=watched.emit,
            context=self._tool_context(context),
            system=head.system,
            specs=head.specs,
            max_iterations=settings.max_iterations,
            max_tokens=settings.max_tokens,
            context_window=known_window(session.log, model),
            temperature=settings.temperature,
            reasoning_effort=settings.reasoning_effort,
            gates=self.gates,
            labels=self.labels,
            boundaries=self.boundaries(session),
            ratios=self.ratios,
            counter=counter_for(model.model) if settings.exact_tokens else None,
            exact_tokens=settings.exact_tokens,
            reported=last_reported(session.log),
            memo=self.memos.of(session),
            ask=self._asker(context, watched, slot),
            steer=lambda: self._steer(context, recorder),
        )

    def _asker(
        self, context: TurnContext, watched: WatchedEmit, slot: Slot
    ) -> Callable[[ToolCall, Mapping[str, object], Ask], Awaitable[str | None]] | None:
        """Return how this Turn asks a person; None for a direct one, unless the script says that it answers."""
        opened = context.session.log.open
        if opened is None or (opened.route is None and not self.scripts_decide):
            return None
        asking = Asking(
            session=context.session,
            turn=context.turn,
            emit=watched.emit,
            now=self.now,
            slot=slot,
            workspace=self.builder.workspace,
        )
        return lambda call, arguments, ask: self.approvals.ask(asking, call, arguments, ask)

    async def _steer(self, context: TurnContext, recorder: TurnRecorder) -> Sequence[UserMessage]:
        """Take up what came in meanwhile, as far as it belongs to this Turn."""
        opened = context.session.log.open
        if self.settings.busy != "steer" or opened is None:
            return ()
        taken = await self.files.taken(lambda: steering(context.session.log.pending, opened.route, opened.role))
        if not taken:
            return ()
        ids = tuple(message.id for message in taken)
        overheard = context.session.log.overheard
        user = self.builder.user_message(taken, now=self.now(), entry=recorder.new_id(), overheard=overheard)
        secret = "a key in a message" if any(self.tools.holds_secret(message.text) for message in taken) else ""
        recorder.steered(user, ids, origins=origins_of(taken, overheard), secret=secret)
        context.running.inbound += ids
        return (user,)

    async def take_back_files(self, session: Session, turn: str) -> Sequence[str]:
        """Put back the files that a Turn wrote; return their names.

        Raises:
            NotUndone: nothing was changed; the text says why.
        """
        from nanobot.agent.undo import file_changes, take_back  # lazily: for a command

        entries = reversed(await session.read(limit=_SEARCHED_ENTRIES))
        changes = file_changes(entries, turn=turn, scratch=self._scratch_of(session) / turn)
        paths = await asyncio.to_thread(take_back, changes)
        return [path.name for path in paths]

    async def prune(self, session: Session) -> None:
        """Remove what calls of Turns long past left behind."""
        await asyncio.to_thread(prune_scratch, self._scratch_of(session), last_turn=session.log.last_turn)

    def _scratch_of(self, session: Session) -> Path:
        return self.scratch / stem(session.key)

    def boundaries(self, session: Session) -> Boundaries:
        """Return where this session's passes cut, as its log says."""
        return at_cuts(Boundaries(chatty=self.tools.chatty), session.log.cuts)

    def _tool_context(self, context: TurnContext) -> ToolContext:
        session = context.session
        opened = session.log.open
        return ToolContext(
            session_key=session.key,
            turn=context.turn,
            call_id="",
            role=opened.role if opened else "user",
            workspace=self.builder.workspace,
            scratch=self._scratch_of(session) / context.turn,
            media=self.media,
            max_file_bytes=self.max_file_bytes(opened.route) if opened and opened.route else None,
            session_files=self._scratch_of(session),
            full_result=lambda entry: _full_result(session, entry),
            standing=lambda: _standing(session),
        )


async def _full_result(session: Session, entry: EntryId) -> str | Sourced:
    text, origin = await session.result(entry)
    return Sourced(unframed(text), origin) if origin else text


def _standing(session: Session) -> Standing:
    marks = session.log.marks
    return Standing(marks.untrusted, marks.secrets, lambda word: _said(session, word))


def _said(session: Session, word: str) -> bool:
    """Say whether an owner or a user wrote this word, by itself."""
    whole = re.compile(rf"(?<![^\s<>\"'(\[]){re.escape(word)}(?![^\s<>\"')\],.!?;])")
    return any(
        whole.search(row.message.text)
        for row in session.log.rows
        if is_person(row.message) and not session.log.marks.is_a_strangers(number(row.entry))
    )


def _ended_late(child: asyncio.Task[AgentRunResult]) -> None:
    """Take note of how a run ended that was left behind, so that nobody else has to."""
    how = "cancelled" if child.cancelled() else repr(child.exception() or "completed")
    log.warning("%s, which had been left behind, has ended: %s", child.get_name(), how)
