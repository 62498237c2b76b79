"""What each state of a Turn does: the handlers behind ``turn.TRANSITIONS``.

Bus and direct entry meet here: a message is the same message whoever brought it.  What a stage decides is in pure functions
elsewhere (``taking``, ``closing``, ``commands``, ``passes``); here it is carried out, in the one order that survives a crash.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nanobot.agent import commands
from nanobot.agent.approvals import Decision, Ruling
from nanobot.agent.closing import Split, closing_results, noticed, owed_to, told, unkept, whole
from nanobot.agent.command_lines import back_line, command_line, status_of
from nanobot.agent.commands import CommandContext, Outcome
from nanobot.agent.fetching import without_files
from nanobot.agent.head import Heads, crowded
from nanobot.agent.labels import origins_of
from nanobot.agent.models import Model, Models
from nanobot.agent.passes import govern
from nanobot.agent.run_stage import RunStage
from nanobot.agent.spec import AgentRunResult
from nanobot.agent.taking import joined
from nanobot.agent.turn import Event, Handler, TurnContext, TurnResult, TurnState, failed
from nanobot.bus.events import InboundMessage, OutboundMessage, Role
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_events import TurnStarted, Usage
from nanobot.errors import DiskRefused
from nanobot.messages import ToolMessage, UserMessage
from nanobot.session.entries import Entry, EntryId, Finished, Resumed, Started
from nanobot.session.manager import Session
from nanobot.session.outbox import owed_by

log = logging.getLogger(__name__)

MAX_RESUMES = 3


class Compactor(Protocol):
    """Whoever turns old messages into summaries, as a Turn needs it."""

    async def at_border(self, session: Session) -> None:
        """Swap in a summary that is ready.  Never waits for a model."""
        ...

    def after_turn(self, session: Session, model: Model) -> None:
        """Begin a summary beside the chat, if one is due."""
        ...

    async def now(self, session: Session, model: Model, rest: str) -> str:
        """Carry out ``/compact``; return a sentence for the person."""
        ...


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The handlers, and what they need.

    ``split`` cuts an answer into the parts that its channel can send.  ``notes`` returns lines that /status shows beside its own.
    ``redact`` takes secrets out of what is told about a failure.
    """

    models: Models
    run_stage: RunStage
    compactor: Compactor
    bus: MessageBus
    split: Split = whole
    restart: commands.Restart | None = None
    heads: Heads = field(default_factory=Heads)
    notes: Callable[[], Sequence[str]] = tuple
    redact: Callable[[str], str] = lambda text: text

    def handlers(self) -> Mapping[TurnState, Handler]:
        """Return a handler for each state but DONE."""
        return {
            TurnState.RESTORE: self._state_restore,
            TurnState.COMPACT: self._state_compact,
            TurnState.COMMAND: self._state_command,
            TurnState.BUILD: self._state_build,
            TurnState.RUN: self._state_run,
            TurnState.SAVE: self._state_save,
            TurnState.RESPOND: self._state_respond,
        }

    # -- the states ------------------------------------------------------------------------------------------------------------

    async def _state_restore(self, context: TurnContext) -> Event:
        await context.session.restore()
        context.publisher.emit(TurnStarted(resumed=context.message is None))
        for report in context.session.reports:
            log.warning("session %r: %s", context.session.key, report)
        context.session.reports.clear()
        return "ok"

    async def _state_compact(self, context: TurnContext) -> Event:
        if context.message is not None:  # an open Turn goes on with the prefix it had
            await self.compactor.at_border(context.session)
        return "ok"

    async def _state_command(self, context: TurnContext) -> Event:
        message, session = context.message, context.session
        if message is None or not commands.is_command(message.text):
            return "dispatch"
        refusal = commands.refusal(message.text, sender=message.sender, role=message.role, starter=None)
        if refusal is not None:
            outcome = Outcome(text=refusal)
        else:
            outcome = await commands.run(message.text, self.command_context(session, message, stop=lambda: None))
        if outcome.retries is not None:
            context.retries = outcome.retries
            context.running.has_run = True
            return "dispatch"
        finished = command_line(session.log, message, outcome, self.split, superseded=context.superseded)
        notice = await _notice(session, finished)
        context.outbound = self._outbound(session, finished, outcome.text, notice)
        content = f"{notice}\n\n{outcome.text}" if notice else outcome.text
        context.result = TurnResult(content=content, stop_reason="command", session_key=session.key)
        self._publish(context)
        return "shortcut"

    async def _state_build(self, context: TurnContext) -> Event:
        session, message, stage = context.session, context.message, self.run_stage
        context.head = await self.heads.current(session, stage.builder, stage.tools, self.model_of(session))
        if message is None:
            await self._resume(context)
            return "ok"
        taken = await self._taken(context, message)
        if taken is None:
            context.run = AgentRunResult(final_content="", stop_reason="shutdown")  # it waits, and is taken up again
            return "ok"
        entry = session.log.new_id()
        user = stage.builder.user_message(
            taken,
            now=stage.now(),
            entry=entry,
            overheard=session.log.overheard,
            jobs=stage.jobs.news(session.key),
        )
        if context.retries is not None:
            user = _said_in(session, context.retries, entry) or user
        started = Started(
            id=entry,
            turn=context.turn,
            inbound=tuple(taken_up.id for taken_up in taken),
            message=user,
            route=message.route,
            role=message.role,
            sender=message.sender,
            at=stage.now().isoformat(timespec="seconds"),
            undoes=context.retries,
            origins=origins_of(taken, session.log.overheard),
            secret="a key in a message" if any(stage.tools.holds_secret(one.text) for one in taken) else "",
        )
        session.append(started)
        context.running.inbound += [one for one in started.inbound if one not in context.running.inbound]
        return "ok"

    async def _state_run(self, context: TurnContext) -> Event:
        if context.run is None and context.head is not None:
            context.run = await self.run_stage.run(context, self.model_of(context.session), context.head)
        return "ok"

    async def _state_save(self, context: TurnContext) -> Event:
        session = context.session
        run = context.run
        if context.failure is not None or run is None:
            run = AgentRunResult(final_content="", stop_reason="error", error=context.failure)
        if run.error:
            run = replace(run, error=self.redact(run.error))
        rows = session.log.turn_rows(context.turn)
        context.result = TurnResult(
            content=run.final_content,
            stop_reason=run.stop_reason,
            usage=sum((row.usage for row in rows if row.usage), Usage()),
            tools_used=tuple(row.message.name for row in rows if isinstance(row.message, ToolMessage)),
            iterations=sum(row.finish is not None for row in rows),
            error=run.error,
            session_key=session.key,
            files=session.log.open.files if session.log.open else (),
        )
        if run.stop_reason != "shutdown":
            context.result = await self._close(context, run, context.result)
        return "ok"

    async def _state_respond(self, context: TurnContext) -> Event:
        result = context.result = context.result or failed(context.failure, context.session.key)
        self._publish(context)
        if result.stop_reason != "shutdown":
            self.compactor.after_turn(context.session, self.model_of(context.session))
        if result.tools_used:
            await self.run_stage.prune(context.session)
        return "ok"

    async def _taken(self, context: TurnContext, first: InboundMessage) -> list[InboundMessage] | None:
        """Return the messages that begin this Turn, with their files; None if a shutdown came first."""
        stage, log = self.run_stage, context.session.log

        def choose() -> list[InboundMessage]:
            newest = log.newest(first.id) or first  # it may have been edited since it was chosen
            return [first] if context.retries else joined(newest, log.pending, stage.settings, now=stage.now())

        taken = await stage.files.taken_unless_stopped(choose, context.running)
        if taken is None and context.running.cause != "shutdown":
            return without_files(choose())
        return taken

    # -- closing ---------------------------------------------------------------------------------------------------------------

    async def _resume(self, context: TurnContext) -> None:
        """Go on with a Turn of the log.  A direct one has nobody waiting; one that was interrupted too often is closed."""
        opened = context.session.log.open
        assert opened is not None
        context.running.inbound += opened.inbound
        n = opened.resumed + 1
        if opened.route is None:
            error = "nanobot was restarted while this ran."
        elif n > MAX_RESUMES:
            error = f"This was interrupted by {n} restarts, so it ends here. Send it again if it still matters."
        else:
            await _kept(context.session, Resumed(id=context.session.log.new_id(), turn=context.turn, n=n))
            return
        context.run = AgentRunResult(final_content="", stop_reason="interrupted", error=error)

    async def _close(self, context: TurnContext, run: AgentRunResult, result: TurnResult) -> TurnResult:
        """Write the line that closes the Turn and owes its answer; return the result as it can be told."""
        session, opened, message = context.session, context.session.log.open, context.message
        mine = opened if opened is not None and opened.turn == context.turn else None
        route = mine.route if mine else message.route if message else None
        entry = session.log.new_id()
        text = told(run)
        refusing = session.refusing
        if refusing and text:
            text = f"{unkept(refusing)}\n\n{text}"
        by_reference = run.answer is not None and text == run.final_content
        finished = Finished(
            id=entry,
            turn=context.turn if mine else None,
            inbound=context.superseded if mine or message is None else (*context.superseded, message.id),
            stop_reason=run.stop_reason,
            usage=result.usage,
            iterations=result.iterations,
            answer=run.answer if by_reference else None,
            content=None if by_reference else text,
            error=run.error,
            closes=closing_results(mine.calls.values() if mine else (), entry=entry, stop_reason=run.stop_reason),
            owed=owed_to(context.turn, route, text, mine.files if mine else (), self.split),
        )
        notice = await _notice(session, finished)
        context.outbound = self._outbound(session, finished, text, "" if refusing else notice)
        return replace(result, content=f"{notice}\n\n{result.content}".strip()) if notice else result

    def _outbound(self, session: Session, finished: Finished, text: str, notice: str) -> tuple[OutboundMessage, ...]:
        return noticed(owed_by(finished, session.key, text), notice, self.split)

    def finish_urgent(self, session: Session, message: InboundMessage, outcome: Outcome) -> tuple[OutboundMessage, ...]:
        """Close a command: what it did and the answer it owes, in one line.  Does not wait for the disk: a stop must not."""
        finished = command_line(session.log, message, outcome, self.split)
        session.append(finished)
        return owed_by(finished, session.key, outcome.text)

    def say_back(self, session: Session) -> tuple[OutboundMessage, ...]:
        """Tell the chat that asked for a restart that it was done; nothing if none did."""
        if session.log.restarting is None:
            return ()
        finished = back_line(session.log, session.log.restarting, self.split)
        session.append(finished)
        return owed_by(finished, session.key, finished.content or "")

    def _publish(self, context: TurnContext) -> None:
        for message in context.outbound:
            known = context.session.log.owed.get(message.out)
            if known is not None and len(known.parts) == len(message.parts):  # a draft may be reserved for it
                message = replace(message, states=known.states, refs=known.refs)
            self.bus.publish_outbound(message)

    # -- looking things up -----------------------------------------------------------------------------------------------------

    def command_context(
        self, session: Session, message: InboundMessage, *, stop: Callable[[], str | None], running: str | None = None
    ) -> CommandContext:
        """Return what a command that came with this message may know and use."""
        model = self.model_of(session)
        return CommandContext(
            session=session,
            model=model.ref,
            models=self.models.refs,
            providers=self.models.providers,
            status=lambda: status_of(
                session,
                model,
                view=govern(session.messages, self.run_stage.boundaries(session)),
                running=running,
                waiting=self.heads.waiting(session, self.run_stage.tools, model),
                notes=[*self.notes(), *filter(None, [crowded(self.run_stage.tools.specs(), model.window)])],
            ),
            stop=stop,
            jobs=lambda: [job.line for job in self.run_stage.jobs.running(session.key)],
            compact=lambda rest: self.compactor.now(session, model, rest),
            take_back_files=lambda turn: self.run_stage.take_back_files(session, turn),
            role=message.role,
            restart=self.restart,
            decide=lambda decision, question: (
                self.decide(session, decision, by=message.sender, role=message.role, question=question).text
            ),
        )

    def decide(self, session: Session, decision: Decision, *, by: str, role: Role, question: EntryId = "") -> Ruling:
        """Answer a waiting question, the oldest one unless it is named."""
        if role != "owner":
            return Ruling("Only an owner may decide this.")
        return self.run_stage.approvals.decide(session, decision, by=by, question=question)

    def model_of(self, session: Session) -> Model:
        """Return the model this session uses."""
        return self.models.resolve(session.log.model)


async def _kept(session: Session, entry: Entry) -> str | None:
    """Append and wait until it is durable; return why it could not be kept, or None."""
    try:
        await session.append(entry, sync=True)
    except DiskRefused as error:
        return str(error)
    return None


async def _notice(session: Session, finished: Finished) -> str:
    """Write the line that closes something; return what people must be told if it could not be kept, or nothing."""
    why = await _kept(session, finished)
    return unkept(why) if why is not None else ""


def _said_in(session: Session, turn: str, entry: EntryId) -> UserMessage | None:
    """Return what a Turn began with, as a message of another entry."""
    rows = session.log.turn_rows(turn)
    first = rows[0].message if rows else None
    return replace(first, entry=entry) if isinstance(first, UserMessage) else None
