"""Place a message in a chat: edit or send, with everything that may be in the way of it.

A reply target that is gone, a topic that is closed, a group that moved, a text that Telegram does not like: the answer still goes
out.  What the chat itself refuses (blocked, deleted) does not, and is not tried for ever.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from nanobot.bus.events import Route
from nanobot.channels.telegram.errors import (
    ChatGone,
    ChatMoved,
    NotModified,
    ReplyGone,
    StyleRefused,
    TargetGone,
    TopicGone,
)
from nanobot.channels.telegram.files import ChannelState
from nanobot.channels.telegram.format import Rendered, plain, prefixed
from nanobot.channels.telegram.inbound import Moved
from nanobot.errors import SendFailed, SendRejected
from nanobot.values import frozen

log = logging.getLogger(__name__)

WAYS_MAX = 7


class Messages(Protocol):
    """The calls that the outbox needs."""

    async def send(
        self, chat: str, rendered: Rendered, *, topic: str | None = None, reply_to: str | None = None
    ) -> str: ...
    async def edit(self, chat: str, ref: str, rendered: Rendered) -> None: ...
    async def delete(self, chat: str, ref: str) -> None: ...


@frozen
class _Way:
    """One way to try it."""

    chat: str
    topic: str | None
    reply_to: str | None
    rendered: Rendered
    is_plain: bool = False

    @property
    def is_photo(self) -> bool:
        return self.rendered.file is not None and self.rendered.file.is_photo


class Outbox:
    """Sends and edits for one channel.  ``parked`` are chats that refused the last message, and why."""

    def __init__(
        self, name: str, messages: Messages, state: ChannelState, *, moved: Callable[[Moved], Awaitable[None]]
    ) -> None:
        self._name = name
        self._messages = messages
        self._state = state
        self._moved = moved
        self._closed_topics: set[tuple[str, str]] = set()
        self.parked: dict[str, str] = {}

    async def place(self, route: Route, rendered: Rendered, *, ref: str | None, notice: str, first: bool) -> str:
        """Return the id of the message that shows this now.

        Args:
            route: where to.
            rendered: what.
            ref: a message to edit; a new one is sent if that is gone.
            notice: a line to put before a message that is sent.  An edit needs none: it cannot be a repeat.
            first: whether this begins an answer, and so is a reply to what it answers.

        Raises:
            SendFailed: it may work later.
            SendRejected: it never will.
        """
        chat = self._state.platform_chat(route.chat)
        if ref is not None and await self._edit(route.chat, chat, ref, rendered):
            return ref
        way = _Way(chat, route.topic, route.reply_to if first else None, prefixed(notice, rendered))
        for _ in range(WAYS_MAX):
            try:
                sent = await self._messages.send(way.chat, way.rendered, topic=way.topic, reply_to=way.reply_to)
            except ChatGone as error:
                self._park(route.chat, error)
                raise
            except SendRejected as error:
                way = await self._another_way(route, way, error)
            else:
                self.parked.pop(route.chat, None)
                return sent
        raise SendRejected("Telegram refuses this message in every form")

    async def take_away(self, route: Route, ref: str) -> None:
        """Delete a message; one that is gone already is no matter.

        Raises:
            SendFailed: it may work later.
            SendRejected: Telegram does not let it be deleted; it stands.
        """
        try:
            await self._messages.delete(self._state.platform_chat(route.chat), ref)
        except (TargetGone, ChatMoved):
            return
        except ChatGone as error:
            self._park(route.chat, error)
            raise
        except SendFailed as error:
            raise _surely_unsent(error) from None

    async def _edit(self, session_chat: str, chat: str, ref: str, rendered: Rendered) -> bool:
        """Edit; False when there is nothing to edit any more."""
        try:
            await self._messages.edit(chat, ref, rendered)
        except NotModified:
            return True
        except ChatGone as error:
            self._park(session_chat, error)
            raise
        except (TargetGone, ChatMoved):
            return False
        except SendFailed as error:
            raise _surely_unsent(error) from None
        except SendRejected as error:
            log.warning("channel %s: %s; the text goes out without styles", self._name, error)
            return await self._edit_plainly(chat, ref, rendered)
        return True

    async def _edit_plainly(self, chat: str, ref: str, rendered: Rendered) -> bool:
        try:
            await self._messages.edit(chat, ref, plain(rendered.text))
        except NotModified:
            return True
        except SendRejected:
            return False
        return True

    async def _another_way(self, route: Route, way: _Way, error: SendRejected) -> _Way:
        """Return the way to try next.

        Raises:
            SendRejected: there is none left.
        """
        match error:
            case ChatMoved(new_chat=new_chat):
                await self._moved(Moved(way.chat, new_chat))
                return replace(way, chat=new_chat)
            case ReplyGone() if way.reply_to is not None:
                return replace(way, reply_to=None)
            case TopicGone() if way.topic is not None:
                if (route.chat, way.topic) not in self._closed_topics:
                    self._closed_topics.add((route.chat, way.topic))
                    log.warning("channel %s: topic %s is gone; its answers go to the chat", self._name, way.topic)
                return replace(way, topic=None, reply_to=None)
            case _ if way.is_photo and not isinstance(error, StyleRefused):
                log.info("channel %s: %s; the picture goes out as a document", self._name, error)
                return replace(way, rendered=_as_document(way.rendered))
            case _ if not way.is_plain and way.rendered.entities:
                log.warning("channel %s: %s; the text goes out without styles", self._name, error)
                return replace(way, rendered=replace(way.rendered, entities=()), is_plain=True)
            case _ if way.reply_to is not None:  # whatever it is about the message that is answered, the answer counts
                log.info("channel %s: %s; the text goes out without being a reply", self._name, error)
                return replace(way, reply_to=None)
            case _:
                raise error

    def _park(self, chat: str, error: ChatGone) -> None:
        if chat not in self.parked:
            log.warning("channel %s: chat %s does not take messages: %s", self._name, chat, error)
        self.parked[chat] = str(error)


def _as_document(rendered: Rendered) -> Rendered:
    return replace(rendered, file=rendered.file and replace(rendered.file, is_photo=False))


def _surely_unsent(error: SendFailed) -> SendFailed:
    """Return the failure of an edit or a deletion, which may be repeated: twice the same is once."""
    return SendFailed(str(error), retry_after_s=error.retry_after_s)
