"""What comes in: from updates to messages that the core has on disk.

Each chat has a lane, in order; lanes do not wait for each other, so a slow session does not hold up other chats.  An update
counts as done only when its message is accepted (or is known to be for nobody); until then its id is in ``open`` and must not be
acknowledged.  Files are handed on as Telegram's references; whoever takes the message up fetches them.  What cannot be dealt with
at all is put into quarantine, so that it cannot come back for ever.

An edit is handed on as a newer version of its message, which the core puts in the other's place as long as that was not taken up.
Where edits are ignored, one of a message that still waits in its lane takes its place all the same: nobody has seen the other.

Button presses and what people type instead (``URGENT``) do not wait in lanes: the chat they belong to may be waiting for them.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

from telegram import Update

from nanobot.bus.events import InboundMessage, Route, session_key
from nanobot.channels.access import Admitted, NotMeant, Refused, Verdict
from nanobot.channels.base import Accept
from nanobot.channels.telegram.inbound import (
    Ignored,
    Incoming,
    Me,
    Moved,
    Pressed,
    Said,
    merged,
    read_update,
    to_inbound,
)
from nanobot.channels.telegram.question_view import PREFIX
from nanobot.errors import ChannelError, SessionError

log = logging.getLogger(__name__)

ALBUM_WAIT_S = 0.6
ALBUM_WAITS_MAX = 10
ACCEPT_TRIES = 6
KEPT_ALBUMS = 256
KEPT_TEXTS = 1_024
URGENT = ("/stop", "/approve", "/deny", "/restart")


@dataclass(frozen=True, kw_only=True)
class IngressPorts:
    """What ingress needs of others.

    ``judge`` decides who may come in; ``refuse`` deals with strangers; ``note_move`` and ``moved`` learn of new chat ids, at
    once and for good; ``session_chat`` maps them back; ``press`` ends the waiting sign on a button; ``decide`` carries out a
    press on a button of a question; ``quarantine`` keeps what cannot be read; ``intercept`` may take a message that is for the
    channel itself; ``heard`` is told of each message before it is accepted; ``tell`` sends a line to a chat.
    """

    judge: Callable[[Said | Pressed], Verdict]
    refuse: Callable[[Said | Pressed, str], Awaitable[None]]
    note_move: Callable[[Moved], None]
    moved: Callable[[Moved], Awaitable[None]]
    session_chat: Callable[[str], str]
    press: Callable[[str], Awaitable[None]]
    decide: Callable[[Pressed, Verdict, str], Awaitable[None]]
    quarantine: Callable[[object, str], Awaitable[None]]
    intercept: Callable[[Said, InboundMessage], Awaitable[bool]]
    heard: Callable[[InboundMessage], None]
    tell: Callable[[Route, str], Awaitable[None]]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(slots=True)
class _Item:
    update_id: int
    raw: object
    incoming: Incoming


@dataclass(slots=True)
class _Lane:
    items: deque[_Item] = field(default_factory=deque[_Item])


class Ingress:
    """Takes updates in; see the module."""

    def __init__(
        self, name: str, me: Me, accept: Accept, ports: IngressPorts, *, reruns_edits: bool, listens: bool = False
    ) -> None:
        self._name = name
        self._me = me
        self._accept = accept
        self._ports = ports
        self._reruns_edits = reruns_edits
        self._listens = listens
        self._lanes: dict[str, _Lane] = {}
        self._albums: OrderedDict[str, set[int]] = OrderedDict()
        self._read_as: OrderedDict[tuple[str, int], object] = OrderedDict()
        self.open: dict[int, None] = {}
        self.changed = asyncio.Event()

    def take(self, raw: object, group: asyncio.TaskGroup) -> int | None:
        """Begin to deal with an update; return its id, or None if it has none.  Tasks belong to ``group``."""
        update_id, incoming, why = _read(raw, self._me)
        number = update_id if update_id is not None else -1
        if update_id is not None:
            self.open[update_id] = None
        if incoming is None:
            group.create_task(self._put_away(_Item(number, raw, Ignored(why)), why), name=f"{self._name} quarantine")
            return update_id
        item = _Item(number, raw, incoming)
        if isinstance(incoming, Ignored):
            self._done(item)
        elif isinstance(incoming, Pressed) or (isinstance(incoming, Said) and _is_urgent(incoming)):
            group.create_task(self._guarded([item]), name=f"{self._name} urgent {update_id}")
        else:
            self._queue(item, incoming, group)
        return update_id

    def _queue(self, item: _Item, incoming: Said | Pressed | Moved, group: asyncio.TaskGroup) -> None:
        if isinstance(incoming, Moved):
            self._ports.note_move(incoming)  # at once: the next update may come from the new id
            chat = self._ports.session_chat(incoming.old)
        else:
            chat = self._ports.session_chat(incoming.origin.chat)
        lane = self._lanes.get(chat)
        if lane is not None and not self._reruns_edits and _corrects(incoming, lane):
            self._done(item)  # what it corrects is acknowledged later, and so is this
            return
        if lane is None:
            lane = self._lanes[chat] = _Lane()
            group.create_task(self._drain(chat, lane), name=f"{self._name} ingress {chat}")
        lane.items.append(item)

    async def _drain(self, chat: str, lane: _Lane) -> None:
        try:
            while lane.items:
                first = lane.items.popleft()
                await self._guarded(await self._with_album(first, lane))
        finally:
            del self._lanes[chat]

    async def _with_album(self, first: _Item, lane: _Lane) -> list[_Item]:
        """Wait until an album is complete, which nothing tells but silence."""
        items, album = [first], _album(first)
        if album is None:
            return items
        for _ in range(ALBUM_WAITS_MAX):
            await self._ports.sleep(ALBUM_WAIT_S)
            pieces = [item for item in lane.items if _album(item) == album]
            if not pieces:
                break
            items += pieces
            for piece in pieces:
                lane.items.remove(piece)
        return items

    async def _guarded(self, items: list[_Item]) -> None:
        try:
            await self._deal_with(items)
        except Exception as error:  # one update's fault must not stop its chat, nor come back for ever
            log.exception("an update could not be dealt with and was put into quarantine")
            for item in items:
                await self._put_away(item, type(error).__name__)
        else:
            for item in items:
                self._done(item)

    async def _deal_with(self, items: list[_Item]) -> None:
        incoming = items[0].incoming
        match incoming:
            case Moved():
                await self._ports.moved(incoming)
            case Pressed():
                await self._pressed(incoming)
            case Said():
                pieces = [item.incoming for item in items if isinstance(item.incoming, Said)]
                await self._said(merged(pieces) if len(pieces) > 1 else incoming, pieces)
            case Ignored():
                pass

    async def _said(self, said: Said, pieces: list[Said]) -> None:
        verdict = self._ports.judge(said)
        if isinstance(verdict, NotMeant) and verdict.role is not None and self._listens and said.edited_at is None:
            chat = self._ports.session_chat(said.origin.chat)
            message = to_inbound(self._name, said, role=verdict.role, session_chat=chat)
            await self._accepted(replace(message, overheard=True))
            return
        if not isinstance(verdict, Admitted):
            await self._turned_away(said, verdict)
            return
        if said.edited_at is not None and not self._reruns_edits:
            return
        news = [self._is_news(piece) for piece in pieces]
        if not any(news):
            return
        chat = self._ports.session_chat(said.origin.chat)
        message = to_inbound(self._name, said, role=verdict.role, session_chat=chat)
        message = self._unless_late(said, pieces, message)
        if not await self._ports.intercept(said, message):
            await self._hand_over(message)

    def _is_news(self, said: Said) -> bool:
        """Say whether an edit changed anything that is read: Telegram also tells of previews and of what bots do not see."""
        key, content = (said.origin.chat, said.message_id), (said.text, said.notes, len(said.media))
        known = self._read_as.pop(key, None)
        self._read_as[key] = content
        while len(self._read_as) > KEPT_TEXTS:
            self._read_as.popitem(last=False)
        return said.edited_at is None or known != content

    def _unless_late(self, said: Said, pieces: list[Said], message: InboundMessage) -> InboundMessage:
        """Give a piece that comes after its album was taken in an id of its own: it is no duplicate."""
        if said.album is None:
            return message
        numbers = {piece.message_id for piece in pieces}
        known = self._albums.setdefault(message.id, set())
        late = bool(known) and not numbers & known
        known |= numbers
        while len(self._albums) > KEPT_ALBUMS:
            self._albums.popitem(last=False)
        return replace(message, id=f"{message.id}:{min(numbers)}") if late else message

    async def _pressed(self, pressed: Pressed) -> None:
        verdict = self._ports.judge(pressed)
        if pressed.data.startswith(PREFIX):
            await self._ports.decide(pressed, verdict, self._ports.session_chat(pressed.origin.chat))
        else:
            await self._ports.press(pressed.query)
        if not isinstance(verdict, Admitted):
            await self._turned_away(pressed, verdict)
            return
        if not pressed.data.startswith("/"):
            return  # a button of an older version
        chat = pressed.origin.chat
        route = Route(self._name, chat, pressed.topic)
        message = InboundMessage(
            id=f"{self._name}:{chat}:press:{pressed.query}",
            session_key=session_key(replace(route, chat=self._ports.session_chat(chat))),
            sender=pressed.origin.sender,
            text=pressed.data,
            at=pressed.at or datetime.now(UTC),
            role=verdict.role,
            route=route,
        )
        await self._hand_over(message)

    async def _turned_away(self, incoming: Said | Pressed, verdict: Refused | NotMeant) -> None:
        if isinstance(verdict, Refused):
            await self._ports.refuse(incoming, verdict.why)

    async def _hand_over(self, message: InboundMessage) -> None:
        self._ports.heard(message)
        await self._accepted(message)

    async def _accepted(self, message: InboundMessage) -> None:
        for tried in range(1, ACCEPT_TRIES + 1):
            try:
                await self._accept(message)
            except SessionError as error:
                if tried == ACCEPT_TRIES:
                    await self._say_refused(message, error)
                    raise
                await self._ports.sleep(2.0 ** (tried - 1))
            else:
                return

    async def _say_refused(self, message: InboundMessage, error: SessionError) -> None:
        if message.route is not None:
            try:
                await self._ports.tell(message.route, f"⚠ I could not take this message: {error}")
            except ChannelError as failure:
                log.warning("the sender could not be told that a message was not taken: %s", failure)

    async def _put_away(self, item: _Item, why: str) -> None:
        await self._ports.quarantine(item.raw, why)
        self._done(item)

    def _done(self, item: _Item) -> None:
        self.open.pop(item.update_id, None)
        self.changed.set()


def _read(raw: object, me: Me) -> tuple[int | None, Incoming | None, str]:
    """Return an update's id and meaning, or why it has none."""
    number = cast("dict[str, object]", raw).get("update_id") if isinstance(raw, dict) else None
    update_id = number if isinstance(number, int) else None
    try:
        update = Update.de_json(raw, None)  # pyright: ignore[reportArgumentType]  # checked by the library, or it raises
        return update_id, read_update(update, me), ""
    except Exception as error:  # noqa: BLE001  # whatever is wrong with it, it is kept and the next one is read
        return update_id, None, f"it cannot be read: {type(error).__name__}: {error}"


def _is_urgent(said: Said) -> bool:
    return said.command is not None and said.command.split(maxsplit=1)[0].lower() in URGENT


def _corrects(incoming: Said | Pressed | Moved, lane: _Lane) -> bool:
    """Put an edit in the place of the message it edits, if that is still waiting; say whether it was."""
    if not isinstance(incoming, Said) or incoming.edited_at is None:
        return False
    for item in lane.items:
        waiting = item.incoming
        if isinstance(waiting, Said) and (waiting.message_id, waiting.edited_at) == (incoming.message_id, None):
            item.incoming = replace(incoming, edited_at=None)
            return True
    return False


def _album(item: _Item) -> str | None:
    return item.incoming.album if isinstance(item.incoming, Said) else None
