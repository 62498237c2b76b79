"""Questions that wait for a person, as messages with buttons beside the draft.

A press is decided when it comes in, whatever its chat is doing, and is on disk before anybody is told so.  The buttons go when the
question is settled (by a press, a command, the clock or the end of its Turn), and the message then says how.  The message of a
question is remembered on disk, so that a question that is asked again after a restart keeps its message.

A question in trouble holds nobody up: ``/approve`` and ``/deny`` work without its message.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, get_args

from nanobot.bus.events import Decision, Role, Route, SessionKey, route_of, session_key
from nanobot.bus.runtime_events import Decided, RuntimeEvent, TurnFinished, TurnStarted, Waiting
from nanobot.channels.access import Admitted, Origin, Verdict
from nanobot.channels.base import Decide
from nanobot.channels.telegram.drafts import SETTLE_S
from nanobot.channels.telegram.errors import NotModified
from nanobot.channels.telegram.files import ChannelState, KeptQuestion
from nanobot.channels.telegram.format import Attachment, Button, Entity, Rendered, plain, utf16_units
from nanobot.channels.telegram.inbound import Pressed
from nanobot.channels.telegram.outbox import Outbox
from nanobot.errors import ChannelError, SendFailed, SendRejected, SessionError

log = logging.getLogger(__name__)

PREFIX = "ap:"
TRIES_MAX = 10
LONGEST_WAIT_S = 60.0
KEPT = 1_000
MAX_DETAILS_UNITS = 2_500
LONG = "[… the call is too long for this message; it stands in full above …]"
NOT_AN_OWNER = "Only an owner may decide this."
DECIDED = "That was decided already."
OVER = "⏹ Not asked any more."
_BUTTONS: dict[Decision, str] = {"once": "Allow once", "always": "Always", "deny": "Deny"}


class Messages(Protocol):
    """The calls that questions need."""

    async def edit(self, chat: str, ref: str, rendered: Rendered) -> None: ...
    async def unbutton(self, chat: str, ref: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Reply:
    """What the person who pressed is told: as a line that goes by, or one that has to be closed."""

    text: str = ""
    is_alert: bool = False


@dataclass(slots=True)
class _Question:
    """One question: ``is_pressed`` once somebody decided with a button, ``outcome`` once it is settled."""

    place: str
    session_key: SessionKey
    id: str
    turn: str
    text: str
    is_pressed: bool = False
    code_at: int | None = None  # where in the text the call itself begins
    long: str = ""  # the whole call, when it is too long for the message
    outcome: str = ""
    refs: list[str] = field(default_factory=list[str])
    is_moving: bool = False
    is_given_up: bool = False

    @property
    def is_due(self) -> bool:
        return not self.is_moving and not self.is_given_up and bool(self.outcome or not self.refs)

    def settle(self, outcome: str) -> None:
        self.outcome = self.outcome or outcome
        self.is_given_up = False


class Questions:
    """The questions of one channel.

    Args:
        name: the channel's.
        messages: calls to the platform.
        outbox: sends what can be sent, wherever the chat is by now.
        state: where the messages of questions are remembered.
        decide: hands a decision to the core.
        sleep: how to wait, in seconds.
    """

    def __init__(
        self,
        name: str,
        messages: Messages,
        outbox: Outbox,
        state: ChannelState,
        *,
        decide: Decide,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._messages = messages
        self._outbox = outbox
        self._state = state
        self._decide = decide
        self._sleep = sleep
        self._known: dict[str, _Question] = {}
        self._over: OrderedDict[str, None] = OrderedDict()
        self._turns: dict[SessionKey, str] | None = {}  # while what is on disk is not known yet: who runs
        self._decided_before: dict[str, str] = {}  # and what was decided
        self._names: OrderedDict[str, str] = OrderedDict()
        self._strays: list[tuple[str, str]] = []
        self._in_flight: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    # -- what happens ----------------------------------------------------------------------------------------------------------

    def on_event(self, event: RuntimeEvent) -> None:
        """Take a runtime event in.  Never waits."""
        key = getattr(event, "session_key", "")
        if not isinstance(key, str) or not key.startswith(f"{self._name}:") or route_of(key) is None:
            return
        match event:
            case Waiting():
                self._ask(event)
            case Decided():
                place = f"{key} {event.question_id}"
                found = self._known.get(place)
                if found is not None:
                    found.settle(self._outcome(event))
                elif self._turns is not None:
                    self._decided_before[place] = self._outcome(event)
            case TurnStarted() if event.turn[1:].isdigit():
                self._note_turn(key, event.turn)
                self._settle_all(key, lambda question: question.turn != event.turn)
            case TurnFinished() if event.stop_reason != "shutdown":
                self._note_turn(key, "")
                self._settle_all(key, lambda question: question.turn == event.turn)
            case _:
                return
        self._wake.set()

    def note_name(self, origin: Origin) -> None:
        """Remember what to call somebody who may decide."""
        self._names[origin.sender] = origin.name
        self._names.move_to_end(origin.sender)
        if len(self._names) > KEPT:
            self._names.popitem(last=False)

    async def press(self, pressed: Pressed, verdict: Verdict, chat: str) -> Reply:
        """Carry out a press on one of our buttons, in ``chat`` as its session knows it; return what to tell whoever pressed."""
        choice = parse(pressed.data)
        if choice is None:
            return Reply()
        if not isinstance(verdict, Admitted) or verdict.role != "owner":
            return Reply(NOT_AN_OWNER, is_alert=True)
        question, decision = choice
        key = session_key(Route(self._name, chat, pressed.topic))
        found = self._find(key, question)
        if found is None:
            return await self._press_unknown(pressed, key, question, decision, verdict.role)
        if pressed.message_id is not None and str(pressed.message_id) not in found.refs:
            found.refs.append(str(pressed.message_id))  # sent before a crash, and never written down
        if found.is_pressed or found.outcome:
            return Reply(DECIDED)
        found.is_pressed = True
        reply = await self._decided(pressed, found.session_key, question, decision, verdict.role)
        found.is_pressed = not reply.is_alert
        return reply

    async def _press_unknown(
        self, pressed: Pressed, key: SessionKey, question: str, decision: Decision, role: Role
    ) -> Reply:
        if pressed.message_id is not None:
            self._strays.append((pressed.origin.chat, str(pressed.message_id)))
            self._wake.set()
        if f"{key} {question}" in self._over:
            return Reply(DECIDED)
        return await self._decided(pressed, key, question, decision, role)

    async def _decided(self, pressed: Pressed, key: SessionKey, question: str, decision: Decision, role: Role) -> Reply:
        try:
            return Reply(await self._decide(key, decision, by=pressed.origin.sender, role=role, question=question))
        except SessionError as error:
            return Reply(f"Nothing was decided: {error}", is_alert=True)

    def _find(self, key: SessionKey, question: str) -> _Question | None:
        """Return the question; one whose topic was closed is shown in the chat itself."""
        elsewhere = (
            one for one in self._known.values() if one.id == question and one.session_key.startswith(f"{key}:topic:")
        )
        return self._known.get(f"{key} {question}") or next(elsewhere, None)

    def _ask(self, event: Waiting) -> None:
        is_long = utf16_units(event.details) > MAX_DETAILS_UNITS
        shown = LONG if is_long else event.details
        place = f"{event.session_key} {event.question_id}"
        if place not in self._known:
            asked = _Question(place, event.session_key, event.question_id, event.turn, event.question)
            asked.text += f"\n\n{shown}" if shown else ""
            asked.code_at = len(event.question) + 2
            asked.long = event.details if is_long else ""
            self._known[place] = asked

    def _note_turn(self, key: SessionKey, turn: str) -> None:
        if self._turns is not None:
            self._turns[key] = turn

    def _settle_all(self, key: SessionKey, is_over: Callable[[_Question], bool]) -> None:
        for question in self._known.values():
            if question.session_key == key and is_over(question):
                question.settle(OVER)

    def _outcome(self, event: Decided) -> str:
        who = self._names.get(event.by, event.by)
        match event.decision:
            case "once":
                return f"✅ Allowed once by {who}."
            case "always":
                return f"✅ Allowed from now on in this conversation by {who}."
            case "deny":
                return f"🚫 Denied by {who}."
            case _:
                return "⌛ Nobody decided in time."

    # -- what is shown ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the messages as they should be, until cancelled."""
        await self.close()
        self._adopt()
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                for question in [one for one in self._known.values() if one.is_due]:
                    question.is_moving = True
                    group.create_task(self._move(question), name=f"question {question.place}")
                while self._strays:
                    group.create_task(self._unbutton(*self._strays.pop()), name=f"{self._name} old buttons")
                await self._wake.wait()

    async def close(self) -> None:
        """Wait for questions that are being sent: their ids must not be lost."""
        if self._in_flight:
            await asyncio.wait(set(self._in_flight), timeout=SETTLE_S)

    def _adopt(self) -> None:
        """Take in what an earlier process showed."""
        turns, self._turns = self._turns, None
        if turns is None:
            return
        for kept in self._state.questions:
            place = f"{kept.session_key} {kept.question}"
            found = self._known.setdefault(
                place, _Question(place, kept.session_key, kept.question, kept.turn, kept.text)
            )
            found.refs.append(kept.ref)
            if place in self._decided_before:
                found.settle(self._decided_before[place])
            if turns.get(kept.session_key, kept.turn) != kept.turn:
                found.settle(OVER)

    async def _move(self, question: _Question) -> None:
        try:
            await self._show_at_last(question)
        finally:
            question.is_moving = False
        if question.outcome:
            await self._forget(question)
        self._wake.set()

    async def _show_at_last(self, question: _Question) -> None:
        try:
            for tried in range(1, TRIES_MAX + 1):
                try:
                    await self._show(question)
                    return
                except SendFailed as error:
                    await self._sleep(error.retry_after_s or min(2.0 ** (tried - 1), LONGEST_WAIT_S))
            question.is_given_up = True
        except ChannelError as error:
            log.warning("channel %s: a question in %s cannot be shown: %s", self._name, question.session_key, error)
            question.is_given_up = True
        except Exception:  # a fault in showing one question must not stop the others, nor the channel
            log.exception("channel %s: a question in %s cannot be shown", self._name, question.session_key)
            question.is_given_up = True

    async def _show(self, question: _Question) -> None:
        route = route_of(question.session_key)
        assert route is not None  # looked at when it came in
        if not question.outcome and not question.refs:
            asking = asyncio.create_task(self._send(question, route), name=f"ask {question.place}")
            self._in_flight.add(asking)
            asking.add_done_callback(self._landed)
            await asyncio.shield(asking)
        if question.outcome:
            view = plain(f"❓ {question.text}\n\n{question.outcome}")
            for ref in question.refs:
                with suppress(NotModified):
                    await self._messages.edit(self._state.platform_chat(route.chat), ref, view)

    async def _send(self, question: _Question, route: Route) -> None:
        """Send a question and write its message down; in a task of its own, so that a cancellation does not lose its id."""
        if question.long:
            await self._send_whole(question, route)
        view = replace(_view(question), buttons=_buttons(question.id))
        question.refs.append(await self._outbox.place(route, view, ref=None, notice="", first=False))
        kept = KeptQuestion(question.session_key, question.id, question.turn, question.text, question.refs[0])
        await asyncio.to_thread(self._state.change, lambda state: state.keep_question(kept))

    async def _send_whole(self, question: _Question, route: Route) -> None:
        """Send a call that is too long for one message as a file; where files are not allowed, as several messages."""
        file = Rendered("", file=Attachment("call.txt", question.long.encode()))
        try:
            await self._outbox.place(route, file, ref=None, notice="", first=False)
        except SendRejected:
            for start in range(0, len(question.long), MAX_DETAILS_UNITS // 2):
                piece = plain(question.long[start : start + MAX_DETAILS_UNITS // 2])
                await self._outbox.place(route, piece, ref=None, notice="", first=False)

    def _landed(self, asking: "asyncio.Task[None]") -> None:
        self._in_flight.discard(asking)
        if not asking.cancelled():
            asking.exception()  # whoever waits for it tells; when nobody does, it is asked again

    async def _forget(self, question: _Question) -> None:
        self._known.pop(question.place, None)
        self._over[question.place] = None
        if len(self._over) > KEPT:
            self._over.popitem(last=False)
        if question.refs:
            await asyncio.to_thread(
                self._state.change, lambda state: state.drop_question(question.session_key, question.id)
            )

    async def _unbutton(self, chat: str, ref: str) -> None:
        with suppress(ChannelError):  # the next press gets the same answer
            await self._messages.unbutton(chat, ref)


def parse(data: str) -> tuple[str, Decision] | None:
    """Return the question and the decision that a button stands for; None if it is none of ours."""
    question, _, word = data.removeprefix(PREFIX).rpartition(":")
    decision = next((one for one in get_args(Decision) if one == word), None)
    return (question, decision) if data.startswith(PREFIX) and question and decision else None


def _view(question: _Question) -> Rendered:
    """Return a question with its call in code, as it is."""
    view = plain(f"❓ {question.text}")
    if question.code_at is None or question.long or len(view.text) < len(question.text):
        return view
    before = utf16_units(view.text[: question.code_at + 2])
    length = utf16_units(view.text) - before
    return replace(view, entities=(Entity("pre", before, length),)) if length else view


def _buttons(question: str) -> tuple[Button, ...]:
    return tuple(Button(text, f"{PREFIX}{question}:{decision}") for decision, text in _BUTTONS.items())
