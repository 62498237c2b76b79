"""Compaction: older messages become a summary, beside the chat.

No message waits for it: the model is asked in a task of its own, and what it wrote is swapped in at a Turn's border, if the session
was not reset, undone or summarized since.  What is unusable is not accepted; after two useless tries in a row the session is left
alone until much more was said, and plain leaving out (``agent.plan``) does without.  Whatever it cost is in the session's log.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from nanobot.agent.govern import prompt_budget
from nanobot.agent.memo import Memos
from nanobot.agent.meter import prompt_tokens
from nanobot.agent.models import Model, Models
from nanobot.agent.passes import Boundaries, at_cuts, govern
from nanobot.agent.settings import AgentSettings
from nanobot.agent.summarizer import summarize
from nanobot.agent.summary import choose_cut
from nanobot.agent.tail import shorten_tail, trim
from nanobot.agent.tokens import estimate_message
from nanobot.agent.uncompact import take_back
from nanobot.bus.events import SessionKey
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import Compacted, Usage
from nanobot.errors import NanobotError
from nanobot.messages import Message
from nanobot.session.entries import Cut, EntryId, Summary
from nanobot.session.log import number
from nanobot.session.manager import Session, SessionManager
from nanobot.values import frozen

log = logging.getLogger(__name__)

_TRIES = 2
_MORE = 0.5  # of the budget must be said before a session that could not be summarized is tried again
_KEEP_SHARE = 0.25  # of the budget stays verbatim at most
_LEAST_TOKENS = 500  # what is shorter is not worth a summary ...
_LEAST_IDLE_TOKENS = 2_000  # ... that nobody asked for


@frozen
class Draft:
    """A summary that is ready: what it stands for, and the session's state when it was begun."""

    text: str
    covers_to: EntryId
    keep_from: EntryId
    seen: tuple[object, ...]
    usage: Usage


@frozen
class Failed:
    """How often in a row no summary came of it, what was the newest row then, and why."""

    tries: int
    newest: int
    why: str


class Consolidator:
    """Makes summaries for sessions.

    Args:
        models: finds the model that summarizes.
        agent: the agent's settings.
        events: hears of each summary that was swapped in.
        sessions: pins a session while its summary is made.
        chatty: names the tools whose old results may become one line.
        wait_s: how long ``/compact`` waits for its summary before it answers.
    """

    def __init__(
        self,
        *,
        models: Models,
        agent: AgentSettings,
        events: RuntimeEventBus,
        sessions: SessionManager,
        chatty: Callable[[], frozenset[str]] = frozenset,
        wait_s: float = 30.0,
    ) -> None:
        self._models = models
        self._settings = agent.compaction
        self._agent = agent
        self._events = events
        self._sessions = sessions
        self._chatty = chatty
        self._memos = Memos()
        self._wait_s = wait_s
        self._tasks: dict[SessionKey, asyncio.Task[None]] = {}
        self._ready: dict[SessionKey, Draft] = {}
        self._failed: dict[SessionKey, Failed] = {}

    # -- for Turns -------------------------------------------------------------------------------------------------------------

    async def at_border(self, session: Session) -> None:
        """Swap in a summary that is ready.  Call it with the session's lock, outside Turns; it never waits for a model."""
        draft = self._ready.pop(session.key, None)
        if draft is None:
            return
        if draft.seen == _state(session):
            self._swap_in(session, draft)
        else:
            self._record(
                session, draft.covers_to, "the conversation was changed before the summary was ready", draft.usage
            )

    def after_turn(self, session: Session, model: Model) -> None:
        """Begin a summary beside the chat, if one is due; else let go of rows that no pass shows any more.

        A summary that is being made has its own copy of them.
        """
        if not self.maybe_consolidate_by_tokens(session, model):
            trim(session, most_hidden=prompt_budget(model.window, self._agent.max_tokens))

    def maybe_consolidate_by_tokens(self, session: Session, model: Model) -> bool:
        """Begin a summary if the prompt has outgrown its share of the window; say whether one was begun."""
        budget = prompt_budget(model.window, self._agent.max_tokens)
        is_due = "snip" in session.log.cuts or self._used(session) >= budget * self._settings.trigger
        if not self._settings.enabled or not is_due or self._backs_off(session, budget):
            return False
        return self._begin(session, model, keep_tokens=self._keep_tokens(budget))

    def when_idle(self, session: Session, model: Model) -> bool:
        """Begin a summary of a session that nobody talks to, and swap it in as soon as it is ready."""
        budget = prompt_budget(model.window, self._agent.max_tokens)
        if session.lock.locked() or session.log.open or session.log.pending or self._backs_off(session, budget):
            return False
        return self._begin(
            session, model, keep_tokens=self._keep_tokens(budget) // 2, least=_LEAST_IDLE_TOKENS, swap=True
        )

    async def now(self, session: Session, model: Model, rest: str) -> str:
        """Carry out ``/compact`` (or ``/compact undo``); return a sentence for the person."""
        if rest.strip().lower() == "undo":
            return await take_back(session)
        summary_before, rows_before = session.log.summary, len(session.log.rows)
        if session.key not in self._tasks and session.key not in self._ready:
            self._failed.pop(session.key, None)
            budget = prompt_budget(model.window, self._agent.max_tokens)
            if not self._begin(session, model, keep_tokens=min(2_000, self._keep_tokens(budget))):
                return "There is nothing to compact yet."
        if (task := self._tasks.get(session.key)) is not None:
            await asyncio.wait({task}, timeout=self._wait_s)
            if not task.done():
                return "This takes a while. The summary will be used as soon as it is ready; go on as usual."
        await self.at_border(session)
        if session.log.summary is summary_before:
            failed = self._failed.get(session.key)
            return f"Nothing was compacted: {failed.why if failed else 'the conversation was changed meanwhile'}."
        gone = rows_before - len(session.log.rows)
        return f"Compacted: {gone} older messages are now a summary. /compact undo takes it back."

    async def close(self) -> None:
        """End what is being made."""
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- making one ------------------------------------------------------------------------------------------------------------

    def _begin(
        self, session: Session, model: Model, *, keep_tokens: int, least: int = _LEAST_TOKENS, swap: bool = False
    ) -> bool:
        if session.key in self._tasks or session.key in self._ready:
            return False
        weights = self._weights(session)
        cut = choose_cut(session.log.rows, keep_tokens=keep_tokens, weights=weights)
        if cut is None or sum(weights[:cut]) < least:
            return False
        task = asyncio.create_task(self._beside(session, model, cut, swap), name=f"compact {session.key}")
        self._tasks[session.key] = task
        task.add_done_callback(lambda _: self._tasks.pop(session.key, None))
        return True

    async def _beside(self, session: Session, model: Model, cut: int, swap: bool) -> None:
        rows, seen = list(session.log.rows), _state(session)
        doomed = session.messages[: len(session.messages) - len(rows) + cut]
        spent: list[Usage] = []
        async with self._sessions.open(session.key):
            text, why = await self._write(session.key, doomed, self._writer(model), spent)
            if text is None:
                self._fail(session, rows[cut - 1].entry, why, spent)
                return
            self._failed.pop(session.key, None)
            usage = sum(spent, Usage())
            self._ready[session.key] = Draft(text, rows[cut - 1].entry, rows[cut].entry, seen, usage)
            if swap:
                async with session.lock:
                    if session.log.open is None:
                        await self.at_border(session)

    async def _write(
        self, key: SessionKey, doomed: Sequence[Message], writer: Model, spent: list[Usage]
    ) -> tuple[str | None, str]:
        """Return a summary, or None and why there is none; ``spent`` gets what it cost either way."""
        limit_s = self._settings.timeout_s
        try:
            return await summarize(doomed, writer, timeout_s=limit_s, spent=spent), ""
        except TimeoutError:
            return None, f"no summary came within {limit_s:g} s"
        except NanobotError as error:
            return None, str(error)
        except Exception as error:  # background compaction: whatever it was, the chat must go on without it
            log.exception("the summary of session %r failed", key)
            return None, f"a fault in nanobot ({type(error).__name__})"

    def _fail(self, session: Session, covers_to: EntryId, why: str, spent: Sequence[Usage]) -> None:
        log.warning("session %r was not compacted: %s", session.key, why)
        before = self._failed.get(session.key)
        newest = number(session.log.rows[-1].entry) if session.log.rows else 0
        self._failed[session.key] = Failed((before.tries if before else 0) + 1, newest, why)
        self._record(session, covers_to, why, sum(spent, Usage()))

    def _record(self, session: Session, covers_to: EntryId, why: str, usage: Usage) -> None:
        cut = Cut(id=session.log.new_id(), pass_name="compaction", at=covers_to, why=why, usage=usage)
        session.append(cut)

    # -- deciding --------------------------------------------------------------------------------------------------------------

    def _writer(self, model: Model) -> Model:
        return self._models.resolve(self._settings.model) if self._settings.model else model

    def _weights(self, session: Session) -> list[int]:
        """Return each row's tokens as the model sees it, hidden ones as if they were not hidden."""
        at = replace(self._boundaries(session), snip_before=0, bare_before=0)
        shown = {m.entry: estimate_message(m) for m in govern(session.log.messages, at)}
        return [shown.get(row.entry, 0) for row in session.log.rows]

    def _keep_tokens(self, budget: int) -> int:
        return min(self._settings.keep_tokens, int(budget * _KEEP_SHARE))

    def _backs_off(self, session: Session, budget: int) -> bool:
        failed = self._failed.get(session.key)
        if failed is None or failed.tries < _TRIES:
            return False
        since = sum(estimate_message(row.message) for row in session.log.rows if number(row.entry) > failed.newest)
        return since < budget * _MORE

    def _used(self, session: Session) -> int:
        memo = self._memos.of(session)
        view = memo.govern(session.messages, self._boundaries(session))
        return prompt_tokens(session.log, estimated=memo.estimate(view))

    def _boundaries(self, session: Session) -> Boundaries:
        return at_cuts(Boundaries(chatty=self._chatty()), session.log.cuts)

    # -- swapping in -----------------------------------------------------------------------------------------------------------

    def _swap_in(self, session: Session, draft: Draft) -> None:
        state = session.log
        before = sum(map(estimate_message, govern(session.messages, self._boundaries(session))))
        session.append(
            Summary(
                id=state.new_id(),
                text=draft.text,
                covers_to=draft.covers_to,
                keep_from=draft.keep_from,
                floor=state.floor(draft.keep_from, without_summary=True) or draft.keep_from,
                undo_floor=state.floor(state.rows[0].entry) if state.rows else None,
                usage=draft.usage,
                carry=state.carry(),
            )
        )
        window = self._models.resolve(state.model).window
        shorten_tail(session, self._boundaries(session), budget=prompt_budget(window, self._agent.max_tokens))
        after = sum(map(estimate_message, govern(session.messages, self._boundaries(session))))
        self._events.publish(Compacted(session.key, before, after))


def _state(session: Session) -> tuple[object, ...]:
    state = session.log
    return (state.summary.id if state.summary else None, state.resets, state.undone)
