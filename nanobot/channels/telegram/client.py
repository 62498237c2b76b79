"""The Bot API for one bot: the calls we use, with our errors.

Polling and sending have connection pools of their own, so that a long poll never takes a connection from an answer; sends wait at a
gate that is as wide as their pool, because waiting inside the pool costs far more.  Updates are handed out as they came, unparsed:
one that the library cannot read must not hide the others.

The token is part of every address, so the libraries' own logs are kept to what has no address in it.
"""

import asyncio
import json
import logging
import ssl
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    MessageEntity,
    ReplyParameters,
)
from telegram.constants import ChatMemberStatus
from telegram.error import TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBDeprecationWarning

from nanobot.channels.telegram.errors import from_telegram
from nanobot.channels.telegram.format import Attachment, Rendered
from nanobot.channels.telegram.inbound import Me, clean_name
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.errors import SendRejected

ALLOWED_UPDATES = ("message", "edited_message", "callback_query")
MAX_PRESS_CHARS = 200
UPLOAD_S = 480.0  # for all of a file: less than what counts as a send that hangs
UPLOADED_S = 120.0  # for Telegram's answer once it has everything
POLL_SLACK_S = 10.0  # how much longer than the poll itself an answer may take
# Odd answers of a server raise the odd ones.
RAISED = (TelegramError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, OSError)
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")

# The library warns of itself: each of its own RetryAfter errors reads an attribute that it calls deprecated.
warnings.filterwarnings("ignore", message="Deprecated since version v22.2", category=PTBDeprecationWarning)
# These log addresses, or whole answers with a traceback; what went wrong is in the error we raise.
for _name in ("httpx", "httpcore", "telegram.Bot", "telegram.request.BaseRequest", "telegram.request.HTTPXRequest"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


def httpx_kwargs(settings: TelegramSettings) -> dict[str, Any]:
    """Return how connections are to be made: a proxy cannot reach our own machine; one TLS context serves all connections."""
    address = urlsplit(settings.base_url)
    trust_env = address.hostname not in _LOCAL_HOSTS
    return {
        "trust_env": trust_env,
        "verify": _tls() if address.scheme == "https" else False,
    }  # without TLS there is none


@cache
def _tls() -> ssl.SSLContext:
    """Return the client's own default context: reading its certificates takes 20 ms and a megabyte or two each time."""
    return httpx.create_ssl_context()


class Client:
    """One bot's calls.  Usable from the start; ``close`` it at the end."""

    def __init__(self, settings: TelegramSettings) -> None:
        self._settings = settings
        self._kwargs = httpx_kwargs(settings)
        count = settings.max_connections
        self._send = HTTPXRequest(
            connection_pool_size=count,
            read_timeout=20,
            connect_timeout=10,
            pool_timeout=30,
            media_write_timeout=60,
            httpx_kwargs=self._kwargs,
        )
        self._gate = asyncio.Semaphore(count)
        # Telegram fetches what it previews: an address that a stranger made the model write would carry out what is in it.
        self._previews = LinkPreviewOptions(is_disabled=not settings.link_previews)
        self._bot = Bot(
            settings.token.get_secret_value(),
            base_url=settings.base_url,
            base_file_url=settings.file_url,
            request=self._send,
            get_updates_request=self._send,  # unused, but left out it is made
        )

    def poller(self) -> "Poller":
        """Return a connection of its own for reading updates."""
        return Poller(self._settings, self._kwargs)

    async def me(self) -> Me:
        """Return who the bot is."""
        async with self._call():
            user = await self._bot.get_me()
        return Me(user.id, user.username or "")

    async def is_in(self, chat: str, person: str) -> bool:
        """Say whether somebody is in a group, as far as Telegram tells; False where it does not."""
        try:
            async with self._call():
                member = await self._bot.get_chat_member(int(chat), int(person))
        except SendRejected:
            return False
        return member.status not in (ChatMemberStatus.LEFT, ChatMemberStatus.BANNED)

    async def name_of(self, chat: str) -> str:
        """Return a person's name or a group's title."""
        async with self._call():
            found = await self._bot.get_chat(int(chat))
        return clean_name(found.effective_name) if found.effective_name else ""

    async def send(
        self,
        chat: str,
        rendered: Rendered,
        *,
        topic: str | None = None,
        reply_to: str | None = None,
    ) -> str:
        """Send a message, or a file with a caption, and return its id."""
        if rendered.file is not None:
            return await self._send_file(chat, rendered, rendered.file, topic=topic, reply_to=reply_to)
        async with self._call():
            message = await self._bot.send_message(
                int(chat),
                rendered.text,
                entities=_entities(rendered),
                link_preview_options=self._previews,
                message_thread_id=_number(topic),
                reply_parameters=_reply(reply_to),
                reply_markup=_markup(rendered),
            )
        return str(message.message_id)

    async def _send_file(
        self, chat: str, rendered: Rendered, file: Attachment, *, topic: str | None, reply_to: str | None
    ) -> str:
        send = self._bot.send_photo if file.is_photo else self._bot.send_document
        async with self._call(), asyncio.timeout(UPLOAD_S):
            message = await send(
                int(chat),
                file.data,
                filename=file.name,
                caption=rendered.text,
                caption_entities=_entities(rendered),
                message_thread_id=_number(topic),
                reply_parameters=_reply(reply_to),
                reply_markup=_markup(rendered),
                read_timeout=UPLOADED_S,
            )
        return str(message.message_id)

    async def edit(self, chat: str, ref: str, rendered: Rendered) -> None:
        """Change a message."""
        async with self._call():
            await self._bot.edit_message_text(
                rendered.text,
                int(chat),
                int(ref),
                entities=_entities(rendered),
                link_preview_options=self._previews,
                reply_markup=_markup(rendered),
            )

    async def unbutton(self, chat: str, ref: str) -> None:
        """Take a message's buttons away."""
        async with self._call():
            await self._bot.edit_message_reply_markup(int(chat), int(ref))

    async def delete(self, chat: str, ref: str) -> None:
        """Take a message away."""
        async with self._call():
            await self._bot.delete_message(int(chat), int(ref))

    async def typing(self, chat: str, topic: str | None) -> None:
        """Show for about five seconds that something is being written."""
        async with self._call():
            await self._bot.send_chat_action(int(chat), "typing", message_thread_id=_number(topic))

    async def answer_press(self, query: str, text: str = "", *, is_alert: bool = False) -> None:
        """End the waiting sign on a pressed button; an alert has to be closed."""
        async with self._call():
            await self._bot.answer_callback_query(query, text[:MAX_PRESS_CHARS] or None, show_alert=is_alert)

    async def set_commands(self, commands: Mapping[str, str]) -> None:
        """Fill the command menu."""
        async with self._call():
            await self._bot.set_my_commands([(name, about[:256]) for name, about in commands.items()])

    async def close(self) -> None:
        """Close the connections."""
        await self._send.shutdown()

    @asynccontextmanager
    async def _call(self) -> AsyncGenerator[None]:
        """Wait at the gate; turn every error into one of ours, without the cause, whose text may hold the address."""
        async with self._gate:
            try:
                yield
            except RAISED as error:
                raise from_telegram(error) from None


class Poller:
    """Reads updates over a connection that nothing else uses."""

    def __init__(self, settings: TelegramSettings, kwargs: dict[str, Any]) -> None:
        self._request = _RawUpdates(
            connection_pool_size=1, read_timeout=POLL_SLACK_S, connect_timeout=10, pool_timeout=5, httpx_kwargs=kwargs
        )
        self._bot = Bot(
            settings.token.get_secret_value(),
            base_url=settings.base_url,
            request=self._request,
            get_updates_request=self._request,
        )

    async def updates(self, offset: int | None, *, timeout_s: int) -> Sequence[object]:
        """Return what came after ``offset``, acknowledging everything before it; wait for something up to ``timeout_s``."""
        self._request.taken = []
        try:
            await self._bot.get_updates(offset=offset, timeout=timeout_s, allowed_updates=ALLOWED_UPDATES)
        except RAISED as error:
            raise from_telegram(error) from None
        return self._request.taken

    async def close(self) -> None:
        """Close the connection."""
        await self._request.shutdown()


class _RawUpdates(HTTPXRequest):
    """Keeps the updates of an answer and lets the library see an empty list, so that it maps errors and parses nothing."""

    taken: Sequence[object] = ()

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:  # Any: passed on as it is
        code, payload = await super().do_request(*args, **kwargs)
        if code == 200:
            try:
                answer = json.loads(payload)
            except ValueError:
                return code, payload
            if isinstance(answer, dict):
                result = cast("dict[str, object]", answer).get("result")
                if isinstance(result, list):
                    self.taken = cast("list[object]", result)
                    return code, b'{"ok":true,"result":[]}'
        return code, payload


def _entities(rendered: Rendered) -> list[MessageEntity]:
    return [
        MessageEntity(entity.type, entity.offset, entity.length, url=entity.url, language=entity.language)
        for entity in rendered.entities
    ]


def _markup(rendered: Rendered) -> InlineKeyboardMarkup | None:
    if not rendered.buttons:
        return None
    return InlineKeyboardMarkup([[InlineKeyboardButton(one.text, callback_data=one.data) for one in rendered.buttons]])


def _reply(ref: str | None) -> ReplyParameters | None:
    return ReplyParameters(int(ref), allow_sending_without_reply=True) if ref else None


def _number(text: str | None) -> int | None:
    return int(text) if text else None
