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
from typing import Protocol

from nanobot.bus.events import Role, Route, SessionKey, route_of, session_key
from nanobot.bus.runtime_events import Decided, RuntimeEvent, TurnFinished, TurnStarted, Waiting
from nanobot.channels.access import Admitted, Origin, Verdict
from nanobot.channels.base import Decide
from nanobot.channels.telegram.asking import AskedCall, Asking, Shown
from nanobot.channels.telegram.drafts import SETTLE_S
from nanobot.channels.telegram.errors import NotModified
from nanobot.channels.telegram.files import ChannelState
from nanobot.channels.telegram.format import Rendered, plain
from nanobot.channels.telegram.inbound import Pressed
from nanobot.channels.telegram.outbox import Outbox
from nanobot.channels.telegram.owners import Owners
from nanobot.channels.telegram.question_view import Choice, parse, wording
from nanobot.errors import ChannelError, SendFailed, SendRejected, SessionError
from nanobot.values import frozen

log = logging.getLogger(__name__)

TRIES_MAX = 10
LONGEST_WAIT_S = 60.0
KEPT = 1_000
NOT_AN_OWNER = "Only an owner may decide this."
DECIDED = "That was decided already."
OVER = "⏹ Not asked any more."


class Messages(Protocol):
    """The calls that questions need."""

    async def edit(self, chat: str, ref: str, rendered: Rendered) -> None: ...
    async def unbutton(self, chat: str, ref: str) -> None: ...


@frozen
class Reply:
    """What the person who pressed is told: as a line that goes by, or one that has to be closed."""

    text: str = ""
    is_alert: bool = False


class Questions:
    """The questions of one channel.

    Args:
        name: the channel's.
        messages: calls to the platform.
        outbox: sends what can be sent, wherever the chat is by now.
        state: where the messages of questions are remembered.
        owners: where somebody can be asked.
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
        owners: Owners,
        decide: Decide,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._messages = messages
        self._state = state
        self._asking = Asking(name, outbox, state, owners)
        self._decide = decide
        self._sleep = sleep
        self._known: dict[str, AskedCall] = {}
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
        here = Route(self._name, chat, pressed.topic)
        key = session_key(Route(self._name, choice.chat, choice.topic) if choice.chat else here)
        found = self._find(key, choice.question)
        if found is None:
            return await self._press_unknown(pressed, key, choice, verdict.role)
        self._note_stray(found, pressed, chat if choice.chat else "")
        if found.is_pressed or found.outcome:
            return Reply(DECIDED)
        found.is_pressed = True
        reply = await self._decided(pressed, found.session_key, choice, verdict.role)
        found.is_pressed = not reply.is_alert
        return reply

    def _note_stray(self, question: AskedCall, pressed: Pressed, chat: str) -> None:
        """Take in a message that was sent before a crash, and never written down."""
        ref = str(pressed.message_id)
        if pressed.message_id is None or any(one.ref == ref and one.chat == chat for one in question.shown):
            return
        like = next((one.text for one in question.shown if one.chat == chat), None)
        text = like or (wording(question.asked).text if question.asked else "A call was asked about.")
        question.shown.append(Shown(ref, text, chat))

    async def _press_unknown(self, pressed: Pressed, key: SessionKey, choice: Choice, role: Role) -> Reply:
        if pressed.message_id is not None:
            self._strays.append((pressed.origin.chat, str(pressed.message_id)))
            self._wake.set()
        if f"{key} {choice.question}" in self._over:
            return Reply(DECIDED)
        return await self._decided(pressed, key, choice, role)

    async def _decided(self, pressed: Pressed, key: SessionKey, choice: Choice, role: Role) -> Reply:
        by = pressed.origin.sender
        try:
            return Reply(await self._decide(key, choice.decision, by=by, role=role, question=choice.question))
        except SessionError as error:
            return Reply(f"Nothing was decided: {error}", is_alert=True)

    def _find(self, key: SessionKey, question: str) -> AskedCall | None:
        """Return the question; one whose topic was closed is shown in the chat itself."""
        elsewhere = (
            one for one in self._known.values() if one.id == question and one.session_key.startswith(f"{key}:topic:")
        )
        return self._known.get(f"{key} {question}") or next(elsewhere, None)

    def _ask(self, event: Waiting) -> None:
        place = f"{event.session_key} {event.question_id}"
        question = AskedCall(place, event.session_key, event.question_id, event.turn)
        self._known.setdefault(place, question).asked = event

    def _note_turn(self, key: SessionKey, turn: str) -> None:
        if self._turns is not None:
            self._turns[key] = turn

    def _settle_all(self, key: SessionKey, is_over: Callable[[AskedCall], bool]) -> None:
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
            found = self._known.setdefault(place, AskedCall(place, kept.session_key, kept.question, kept.turn))
            found.shown.append(Shown(kept.ref, kept.text, kept.chat))
            if place in self._decided_before:
                found.settle(self._decided_before[place])
            if turns.get(kept.session_key, kept.turn) != kept.turn:
                found.settle(OVER)

    async def _move(self, question: AskedCall) -> None:
        try:
            await self._show_at_last(question)
        finally:
            question.is_moving = False
        if question.outcome:
            await self._forget(question)
        self._wake.set()

    async def _show_at_last(self, question: AskedCall) -> None:
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

    async def _show(self, question: AskedCall) -> None:
        route = route_of(question.session_key)
        assert route is not None  # looked at when it came in
        if not question.outcome and question.asked is not None and question.is_unshown:
            asking = asyncio.create_task(  # of its own, so that a cancellation does not lose a message's id
                self._asking.ask(question, question.asked, route, name=self._names.get(question.asked.sender, "")),
                name=f"ask {question.place}",
            )
            self._in_flight.add(asking)
            asking.add_done_callback(self._landed)
            await asyncio.shield(asking)
        if question.outcome:
            for one in question.shown:
                seen = plain(f"❓ {one.text}\n\n{question.outcome}")
                try:
                    await self._messages.edit(self._state.platform_chat(one.chat or route.chat), one.ref, seen)
                except NotModified:
                    continue
                except (
                    SendRejected
                ) as error:  # gone, or nothing gets there any more: the others still have to be changed
                    log.warning("channel %s: a question cannot be shown as settled: %s", self._name, error)

    def _landed(self, asking: "asyncio.Task[None]") -> None:
        self._in_flight.discard(asking)
        if not asking.cancelled():
            asking.exception()  # whoever waits for it tells; when nobody does, it is asked again

    async def _forget(self, question: AskedCall) -> None:
        self._known.pop(question.place, None)
        self._over[question.place] = None
        if len(self._over) > KEPT:
            self._over.popitem(last=False)
        if question.shown:
            await asyncio.to_thread(
                self._state.change, lambda state: state.drop_question(question.session_key, question.id)
            )

    async def _unbutton(self, chat: str, ref: str) -> None:
        with suppress(ChannelError):  # the next press gets the same answer
            await self._messages.unbutton(chat, ref)
