"""Tell some chats that the gateway is up, or on its way out.  A courtesy: it is tried once, and nothing depends on it."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from uuid import uuid4

from nanobot.bus.events import Route
from nanobot.channels.base import Channel, OutboundPart
from nanobot.channels.supervisor import ChannelBoard
from nanobot.errors import ChannelError, ConfigError

log = logging.getLogger(__name__)

UP = "I am up."
ENDING = "I am going down. What you write now is answered when I am back."
SEND_S = 5.0


class Announcer:
    """Sends to the chats that the configuration names.

    Args:
        chats: ``<channel>:<chat>``.
        channels: the configured ones.

    Raises:
        ConfigError: a chat's channel is not there.
    """

    def __init__(self, chats: Iterable[str], channels: Mapping[str, Channel]) -> None:
        self._routes: list[tuple[Channel, Route]] = []
        for chat in chats:
            name, _, number = chat.partition(":")
            if name not in channels or not number:
                known = ", ".join(channels) or "none"
                raise ConfigError(f"gateway.announce: {chat!r} is no <channel>:<chat>; enabled channels: {known}")
            self._routes.append((channels[name], Route(name, number)))

    async def up(self, board: ChannelBoard) -> None:
        """Tell each chat, as soon as its channel reaches the platform."""
        async with asyncio.TaskGroup() as group:
            for channel, route in self._routes:
                group.create_task(self._when_up(board, channel, route), name=f"announce {route.channel}:{route.chat}")

    async def ending(self) -> None:
        """Tell all chats; take no longer than one send may."""
        await asyncio.gather(*(_send(channel, route, ENDING) for channel, route in self._routes))

    async def _when_up(self, board: ChannelBoard, channel: Channel, route: Route) -> None:
        await board.until_up(channel.name)
        await _send(channel, route, UP)


async def _send(channel: Channel, route: Route, text: str) -> None:
    key = f"{route.channel}:{route.chat}"
    out = f"announcement:{uuid4().hex}"
    try:
        async with asyncio.timeout(SEND_S):
            await channel.send(OutboundPart(out=out, session_key=key, route=route, index=0, count=1, text=text))
    except (ChannelError, TimeoutError) as error:
        log.warning("%s could not be told %r: %s", key, text, error or "it took too long")
