"""Calls that a person must allow: asked once, answered by an owner, remembered in the log.

A question is an entry of the session's log, and so is its answer; a Turn that goes on after a restart asks the same question again,
or finds the answer.  While a Turn waits it gives its slot back and keeps its session.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from nanobot.agent.gates import Ask
from nanobot.agent.patterns import Pattern, covers, from_json, pattern_of
from nanobot.agent.slots import Slot
from nanobot.bus.events import Decision, SessionKey
from nanobot.bus.runtime_events import Decided, TurnEvent, Waiting
from nanobot.errors import DiskRefused
from nanobot.messages import ToolCall
from nanobot.session.entries import Answer, EntryId, Question
from nanobot.session.manager import Session
from nanobot.values import frozen

HOW = "An owner answers with /approve, /approve always, or /deny."


@dataclass(slots=True)
class _Open:
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    decision: Decision | None = None
    by: str = ""


@frozen
class Ruling:
    """What came of a person's decision: a sentence for them; ``kept`` may be awaited until it is on disk."""

    text: str
    kept: Awaitable[None] | None = None


@frozen(kw_only=True)
class Asking:
    """What a question needs of its Turn."""

    session: Session
    turn: str
    emit: Callable[[TurnEvent], None]
    now: Callable[[], datetime]
    slot: Slot
    workspace: Path


@frozen
class _About:
    """A call that is asked about, and what "always" would mean."""

    call: ToolCall
    ask: Ask
    pattern: Pattern

    @property
    def question(self) -> str:
        why = f" Because {self.ask.why.rstrip('.')}." if self.ask.why else ""
        return f"{self.ask.question}{why}"

    @property
    def details(self) -> str:
        """What would run, whole: a command as it is, other arguments by their names."""
        given = self.call.arguments
        if isinstance(given, dict) and isinstance(command := given.get("command"), str):
            rest = {name: value for name, value in given.items() if name != "command"}
            return command + (f"\n{json.dumps(rest, ensure_ascii=False)}" if rest else "")
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, indent=1)


class Approvals:
    """The questions that wait, over all sessions.

    Args:
        expires_s: how long a question waits; nobody's answer is a no.
    """

    def __init__(self, *, expires_s: float) -> None:
        self._expires_s = expires_s
        self._open: dict[SessionKey, dict[EntryId, _Open]] = {}

    async def ask(self, asking: Asking, call: ToolCall, arguments: Mapping[str, object], ask: Ask) -> str | None:
        """Have a person decide about a call; return None if it may run, else why it may not, for the model."""
        session = asking.session
        about = _About(call, ask, pattern_of(call, arguments, asking.workspace, is_guard=ask.is_guard))
        allowed = filter(None, map(from_json, session.log.allowed))
        opened = session.log.open
        answer = opened.answers.get(call.id) if opened else None
        if answer is not None:  # before a restart, or before it was asked again after one
            asking.emit(Decided(question_id=answer.question, decision=answer.decision, by=answer.by))
            decided = answer.decision
        elif any(covers(one, call, arguments, asking.workspace, is_guard=ask.is_guard) for one in allowed):
            return None
        else:
            decided = await self._wait(asking, about)
        match decided:
            case "once" | "always":
                return None
            case "expired":
                return "a person was asked and did not answer in time"
            case _:
                return "the person said no"

    def decide(self, session: Session, decision: Decision, *, by: str, question: EntryId = "") -> Ruling:
        """Answer a question, the oldest one unless it is named, also one that is not asked again yet after a restart."""
        waiting = self._open.get(session.key, {})
        asked = _unanswered(session)
        named = question or next(iter(asked), "")
        if named not in asked:
            return Ruling(
                "That was decided already, or is not asked any more." if question else "Nothing waits for approval."
            )
        kept = session.append(Answer(id=session.log.new_id(), question=named, by=by, decision=decision), sync=True)
        if named in waiting:
            waiting[named].decision, waiting[named].by = decision, by
            waiting[named].answered.set()
        if decision == "always" and (pattern := from_json(asked[named].pattern or asked[named].tool)):
            return Ruling(f"From now on in this conversation: {pattern}. /approvals shows and takes back.", kept)
        allowed = {"once": "may run now", "always": "may run from now on", "deny": "may not run"}
        return Ruling(f"{asked[named].tool} {allowed[decision]}.", kept)

    async def _wait(self, asking: Asking, about: "_About") -> str:
        session, call = asking.session, about.call
        entry = await self._question(asking, about)
        answer = session.log.open.answers.get(call.id) if session.log.open else None
        if answer is not None:  # while the question was written
            return answer.decision
        left_s = (datetime.fromisoformat(entry.expires_at) - asking.now()).total_seconds()
        waiting = self._open.setdefault(session.key, {}).setdefault(entry.id, _Open())
        asking.emit(
            Waiting(
                question=about.question,
                question_id=entry.id,
                call_id=call.id,
                details=about.details,
                how=HOW,
                always=str(about.pattern),
                sender=session.log.open.sender if session.log.open else "",
            )
        )
        try:
            async with asking.slot.lent():
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, left_s)):
                        await waiting.answered.wait()
        finally:
            self._forget(session.key, entry.id)
        if waiting.decision is None:
            session.append(Answer(id=session.log.new_id(), question=entry.id, by="", decision="expired"))
        decided = waiting.decision or "expired"
        asking.emit(Decided(question_id=entry.id, decision=decided, by=waiting.by))
        return decided

    async def _question(self, asking: Asking, about: "_About") -> Question:
        """Return the question about this call: the one that was asked before a restart, or a new one, durable."""
        session, opened, call = asking.session, asking.session.log.open, about.call
        known = opened.questions.get(call.id) if opened else None
        if known is not None:
            return known
        expires_at = asking.now() + timedelta(seconds=self._expires_s)
        entry = Question(
            id=session.log.new_id(),
            turn=asking.turn,
            call=call.id,
            tool=call.name,
            expires_at=expires_at.isoformat(timespec="seconds"),
            pattern=about.pattern.as_json(),
        )
        with suppress(DiskRefused):  # it is asked from memory then
            await session.append(entry, sync=True)
        return entry

    def _forget(self, key: SessionKey, entry: EntryId) -> None:
        waiting = self._open.get(key, {})
        waiting.pop(entry, None)
        if not waiting:
            self._open.pop(key, None)


def _unanswered(session: Session) -> dict[EntryId, Question]:
    """Return the questions of the session's open Turn that nobody has answered, oldest first."""
    opened = session.log.open
    if opened is None:
        return {}
    return {one.id: one for call, one in opened.questions.items() if call not in opened.answers}
