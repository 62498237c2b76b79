"""Files that people sent, fetched by the Turn that takes their messages up.

A message is logged with its platform's references and acknowledged at once; the bytes are fetched when the message is taken up, and
what became of them stands in the user message from then on.  A file that cannot be had costs the file, never the message: the model
is told why.  Waiting for a file can be stopped like a run.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol, TypeAlias

from nanobot.agent.turn import Running
from nanobot.bus.events import InboundMessage, Media
from nanobot.errors import FileUnavailable
from nanobot.values import frozen

log = logging.getLogger(__name__)

ROUNDS = 3  # how often what arrived meanwhile is fetched too, before the rest is left for later
STOPPED = "it was stopped before it was fetched"


class Fetch(Protocol):
    """Brings a file from its platform to the disk."""

    async def __call__(self, channel: str, media: Media, /) -> Media:
        """Return the media with path and digest, durable.

        Raises:
            FileUnavailable: it cannot be had; the text says why, for the model.
        """
        ...


async def nowhere(channel: str, media: Media, /) -> Media:
    """Stand in where no channel has files."""
    raise FileUnavailable(f"no channel {channel!r} is there to fetch it from")


Got: TypeAlias = dict[tuple[str, Media], Media]
Choose: TypeAlias = Callable[[], list[InboundMessage]]
"""Returns the messages to be taken up as of now; other ones may have come, and these changed, since it was last asked."""


@frozen
class Files:
    """Fetches, with a limit of time for each file."""

    fetch: Fetch = nowhere
    timeout_s: float = 120.0

    async def taken(self, choose: Choose) -> list[InboundMessage]:
        """Return the chosen messages with their files, as far as those can be had; nothing is awaited after the last choice."""
        got = await self._fetched(choose)
        return _settled(choose(), got)

    async def taken_unless_stopped(self, choose: Choose, running: Running) -> list[InboundMessage] | None:
        """Do the same for a Turn that has no run yet; None if it was stopped meanwhile."""
        if not _wanted(choose(), ()):
            return choose()
        fetching = asyncio.create_task(self._fetched(choose), name="fetch files")
        running.start(fetching)
        try:
            await asyncio.wait({fetching})
        finally:
            fetching.cancel()  # only if the driver itself is being torn down
            running.rest()
        return None if fetching.cancelled() else _settled(choose(), fetching.result())

    async def _fetched(self, choose: Choose) -> Got:
        got: Got = {}
        for _ in range(ROUNDS):
            wanted = _wanted(choose(), got)
            if not wanted:
                break
            got |= zip(wanted, await asyncio.gather(*(self._one(*one) for one in wanted)), strict=True)
        return got

    async def _one(self, channel: str, media: Media) -> Media:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.fetch(channel, media)
        except TimeoutError:
            return replace(media, missing=f"it did not arrive within {self.timeout_s:g} s")
        except FileUnavailable as error:
            return replace(media, missing=str(error))
        except Exception:  # whatever a channel does wrong, its message is answered
            log.exception("a file of channel %r could not be fetched", channel)
            return replace(media, missing="it could not be fetched")


def without_files(messages: Collection[InboundMessage]) -> list[InboundMessage]:
    """Return messages whose files nobody waits for any more."""
    return [
        replace(message, media=tuple(one if one.path else replace(one, missing=STOPPED) for one in message.media))
        for message in messages
    ]


def _settled(chosen: list[InboundMessage], got: Got) -> list[InboundMessage]:
    """Return the messages up to the first whose files are still to be fetched, but one at least."""
    whole = [message for index, message in enumerate(chosen) if not _wanted(chosen[: index + 1], got)]
    return [_with(message, got) for message in whole or chosen[:1]]


def _wanted(messages: Collection[InboundMessage], got: Collection[tuple[str, Media]]) -> list[tuple[str, Media]]:
    places = [(message.route.channel, one) for message in messages if message.route for one in message.media]
    return [place for place in dict.fromkeys(places) if not place[1].path and place not in got]


def _with(message: InboundMessage, got: Got) -> InboundMessage:
    if message.route is None or not message.media:
        return message
    channel = message.route.channel
    return replace(message, media=tuple(got.get((channel, one), one) for one in message.media))
