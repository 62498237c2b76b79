"""Put a question where somebody can answer it.

A question of a chat that holds no owner is asked in the first owner's own chat, saying who asks and where, and the chat that asks
is told so.  Each message is written down once it is sent, so that a restart finds it; both are settled together.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from nanobot.bus.events import Route, SessionKey
from nanobot.bus.runtime_events import Waiting
from nanobot.channels.telegram.errors import ChatGone
from nanobot.channels.telegram.files import ChannelState, KeptQuestion
from nanobot.channels.telegram.format import Attachment, Rendered, plain
from nanobot.channels.telegram.outbox import Outbox
from nanobot.channels.telegram.owners import Owners
from nanobot.channels.telegram.question_view import MAX_DETAILS_UNITS, Wording, buttons, told, view, wording
from nanobot.errors import SendRejected
from nanobot.values import frozen

log = logging.getLogger(__name__)


@frozen
class Shown:
    """A message about a question; ``chat`` is empty for the chat that asks."""

    ref: str
    text: str
    chat: str = ""


@dataclass(slots=True)
class AskedCall:
    """One question: ``asked`` once this process asks it, ``is_pressed`` once a button decided, ``outcome`` once it is settled."""

    place: str
    session_key: SessionKey
    id: str
    turn: str
    asked: Waiting | None = None
    is_pressed: bool = False
    outcome: str = ""
    shown: list[Shown] = field(default_factory=list[Shown])
    is_moving: bool = False
    is_given_up: bool = False

    @property
    def is_unshown(self) -> bool:
        """Whether the chat that asks has no message yet: the question, or where it is asked."""
        return self.asked is not None and all(one.chat for one in self.shown)

    @property
    def is_due(self) -> bool:
        return not self.is_moving and not self.is_given_up and bool(self.outcome or self.is_unshown)

    def settle(self, outcome: str) -> None:
        self.outcome = self.outcome or outcome
        self.is_given_up = False


class Asking:
    """Sends the questions of one channel.

    Args:
        name: the channel's.
        outbox: sends what can be sent, wherever the chat is by now.
        state: where the messages of questions are remembered.
        owners: where somebody can be asked.
    """

    def __init__(self, name: str, outbox: Outbox, state: ChannelState, owners: Owners) -> None:
        self._name = name
        self._outbox = outbox
        self._state = state
        self._owners = owners

    async def ask(self, question: AskedCall, event: Waiting, route: Route, *, name: str) -> None:
        """Ask where an owner is, and do what is left of it when tried again; ``name`` is the sender's, as far as it is known."""
        is_reached = True
        if not question.shown:
            owner = await self._owners.instead_of(route.chat)
            if not owner:
                await self._put(question, wording(event), route)
                return
            is_reached = await self._put_elsewhere(question, event, route, owner, name)
        text = told(event, is_reached=is_reached)
        ref = await self._outbox.place(route, plain(f"❓ {text}"), ref=None, notice="", first=False)
        await self._keep(question, Shown(ref, text))

    async def _put_elsewhere(self, question: AskedCall, event: Waiting, route: Route, owner: str, name: str) -> bool:
        """Ask in the owner's own chat; False if nothing can be sent there."""
        described = await self._owners.describe(route, event.sender, name)
        try:
            await self._put(question, wording(event, described), Route(self._name, owner), asks_for=route)
        except ChatGone as error:
            log.warning(
                "channel %s: owner %s cannot be asked about a call in %s: %s",
                *(self._name, owner, question.session_key, error),
            )
            return False
        return True

    async def _put(self, question: AskedCall, asked: Wording, route: Route, asks_for: Route | None = None) -> None:
        """Send a question and write its message down."""
        if asked.long:
            await self._send_whole(asked.long, route)
        seen = view(asked, buttons(question.id, asks_for))
        ref = await self._outbox.place(route, seen, ref=None, notice="", first=False)
        await self._keep(question, Shown(ref, asked.text, route.chat if asks_for else ""))

    async def _keep(self, question: AskedCall, shown: Shown) -> None:
        question.shown.append(shown)
        kept = KeptQuestion(question.session_key, question.id, question.turn, shown.text, shown.ref, shown.chat)
        await asyncio.to_thread(self._state.change, lambda state: state.keep_question(kept))

    async def _send_whole(self, call: str, route: Route) -> None:
        """Send a call that is too long for one message as a file; where files are not allowed, as several messages."""
        file = Rendered("", file=Attachment("call.txt", call.encode()))
        try:
            await self._outbox.place(route, file, ref=None, notice="", first=False)
        except SendRejected:
            for start in range(0, len(call), MAX_DETAILS_UNITS // 2):
                piece = plain(call[start : start + MAX_DETAILS_UNITS // 2])
                await self._outbox.place(route, piece, ref=None, notice="", first=False)
