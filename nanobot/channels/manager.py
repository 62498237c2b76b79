"""Take owed answers from the bus to their channels.

One lane a chat, in order; lanes do not wait for each other.  A part is recorded as ``sending`` before and ``sent`` or ``refused``
after it went out.  What may work later is tried again, ever more patiently; a lane waits for its first message, and no other lane
waits for it.  What may have arrived is sent again a few times at most, and then stays owed on disk until the next start.  One bad
message or channel never ends the delivery of the others.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import replace

from nanobot.bus.events import SETTLED, OutboundMessage, Route
from nanobot.bus.runtime_events import Delivered, RuntimeEvent
from nanobot.channels.base import Channel, OutboundPart, Record
from nanobot.channels.media import in_words
from nanobot.errors import SendFailed, SendRejected, SessionError
from nanobot.values import frozen

log = logging.getLogger(__name__)

AMBIGUOUS_SOON = 2  # tries of one part that may have arrived although they failed, before it gets a long pause
AMBIGUOUS_MAX = 4  # and in all: a person is not to see the same answer for ever
FLOODS_MAX = 1_000
# Under way when it was written: an answer may have arrived, or a draft that says as much.
IN_DOUBT = ("sending", "reserving")
LANE_MAX = 1_000


@frozen
class Tries:
    """How often one part was tried: ``failed`` for reasons of its own, ``floods`` told to wait, ``ambiguous`` may have arrived."""

    failed: int = 0
    floods: int = 0
    ambiguous: int = 0

    def after(self, error: SendFailed) -> "Tries":
        """Return the count with one more failure."""
        is_flood = error.retry_after_s is not None
        return Tries(self.failed + (not is_flood), self.floods + is_flood, self.ambiguous + error.maybe_sent)


@frozen(kw_only=True)
class Patience:
    """How often a failed send is tried, and how long to wait between.

    Waits double from ``base_s`` to ``cap_s``, and are ``pause_s`` where repeats may be piling up; after ``attempts`` tries, the
    lane is tried every ``again_s`` (None: it gives up).
    """

    attempts: int = 6
    base_s: float = 1.0
    cap_s: float = 60.0
    pause_s: float = 10.0
    again_s: float | None = 60.0

    def wait_s(self, tries: Tries, retry_after_s: float | None) -> float | None:
        """Return the wait before the next try, or None to leave it for another day; the platform's own word wins."""
        if tries.ambiguous >= AMBIGUOUS_MAX or tries.floods > FLOODS_MAX:
            return None
        if retry_after_s is not None:
            return max(retry_after_s, 0.0)
        if tries.failed >= self.attempts:
            return self.again_s
        if tries.ambiguous >= AMBIGUOUS_SOON:
            return self.pause_s
        return min(self.base_s * 2.0 ** (tries.failed - 1), self.cap_s)


class ChannelManager:
    """Delivers what the core owes.

    Args:
        channels: by whose ``name`` routes find them.
        record: where delivery states are written.
        publish: told of each part that was sent or refused.
        sleep: how to wait, in seconds.
    """

    def __init__(
        self,
        channels: Iterable[Channel],
        *,
        record: Record,
        publish: Callable[[RuntimeEvent], None] = lambda event: None,
        patience: Patience = Patience(),  # noqa: B008  # frozen
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._channels = {channel.name: channel for channel in channels}
        self._record = record
        self._publish = publish
        self._patience = patience
        self._sleep = sleep
        self._lanes: dict[tuple[str, str, str | None], deque[OutboundMessage]] = {}

    async def run(self, outbound: AsyncIterable[OutboundMessage]) -> None:
        """Deliver until the mailbox is closed and every lane is empty."""
        async with asyncio.TaskGroup() as group:
            async for message in outbound:
                key = _lane(message.route)
                lane = self._lanes.get(key)
                if lane is None:
                    lane = self._lanes[key] = deque()
                    group.create_task(self._drain(key, lane), name=f"lane {key[0]}:{key[1]}")
                if len(lane) < LANE_MAX:
                    lane.append(message)
                else:
                    log.warning("the lane to %s:%s is full; answer %s stays owed", key[0], key[1], message.out)

    async def _drain(self, key: tuple[str, str, str | None], lane: deque[OutboundMessage]) -> None:
        try:
            while lane:
                await self._deliver(lane[0])
                lane.popleft()
        finally:
            del self._lanes[key]

    async def _deliver(self, message: OutboundMessage) -> None:
        try:
            channel = self._channels.get(message.route.channel)
            if channel is None:
                log.warning("no channel is called %r; answer %s stays owed", message.route.channel, message.out)
                return
            for part in open_parts(message):
                if not await self._deliver_part(channel, part):
                    log.warning("answer %s did not reach %s and stays owed", message.out, channel.name)
                    return
        except Exception:  # whatever one channel or message does wrong, the others must go out
            log.exception("answer %s could not be delivered and stays owed", message.out)

    async def _deliver_part(self, channel: Channel, part: OutboundPart) -> bool:
        """Send one part; False when it may still go out some other day."""
        if part.media is not None and not channel.capabilities.media:
            part = replace(part, text=in_words(part.media, part.text), media=None)
        await self._note(part, "sending", None)
        tries = Tries()
        while True:
            try:
                ref = await channel.send(part)
            except SendRejected as error:
                log.warning("%s refuses answer %s, part %d: %s", channel.name, part.out, part.index, error)
                await self._settle(part, "refused", None)
                return True
            except SendFailed as error:
                log.info("sending answer %s by %s failed: %s", part.out, channel.name, error)
                part, tries = _once_more(part, error), tries.after(error)
                wait_s = self._patience.wait_s(tries, error.retry_after_s)
                if wait_s is None:
                    return False
                await self._sleep(wait_s)
            else:
                await self._settle(part, "sent", ref)
                return True

    async def _settle(self, part: OutboundPart, state: str, ref: str | None) -> None:
        await self._note(part, state, ref)
        self._publish(Delivered(part.session_key, part.out, part.index, state))

    async def _note(self, part: OutboundPart, state: str, ref: str | None) -> None:
        try:
            await self._record(part.out, part.session_key, part.index, state, ref)
        except SessionError as error:  # an answer that cannot be crossed off is still better sent than kept
            log.warning("the state %r of answer %s could not be recorded: %s", state, part.out, error)


def open_parts(message: OutboundMessage) -> list[OutboundPart]:
    """Return the parts that still have to go out, in order."""
    parts: list[OutboundPart] = []
    for index, (start, end) in enumerate(message.parts):
        state = message.states[index] if index < len(message.states) else "owed"
        if state in SETTLED:
            continue
        parts.append(
            OutboundPart(
                out=message.out,
                session_key=message.session_key,
                route=message.route,
                index=index,
                count=len(message.parts),
                text=message.text[start:end],
                may_be_repeat=state in IN_DOUBT,
                before=message.text[:start],
                ref=message.refs[index] if index < len(message.refs) else None,
                media=message.media if index == 0 else None,
                anew=message.anew,
                surplus=message.surplus if index + 1 == len(message.parts) else (),
            )
        )
    return parts


def _once_more(part: OutboundPart, error: SendFailed) -> OutboundPart:
    return replace(part, may_be_repeat=part.may_be_repeat or error.maybe_sent)


def _lane(route: Route) -> tuple[str, str, str | None]:
    return (route.channel, route.chat, route.topic)
