"""Which answers are owed to which channel, and since when: seen from the two places they pass."""

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass, field

from nanobot.bus.events import SETTLED, OutboundMessage, SessionKey
from nanobot.channels.base import Accept, Capabilities, Channel, OutboundPart, Record
from nanobot.channels.manager import open_parts
from nanobot.gateway.health import OutboxFacts


@dataclass(slots=True)
class _Owed:
    channel: str
    since: float
    open: set[int] = field(default_factory=set[int])


class Ledger:
    """Counts owed answers.

    Args:
        record: where delivery states are really written.
        clock: seconds that only rise.
    """

    def __init__(self, record: Record, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._record = record
        self._clock = clock
        self._owed: dict[tuple[SessionKey, str], _Owed] = {}
        self._sending: dict[str, dict[object, float]] = {}

    def timed(self, channel: Channel) -> Channel:
        """Return the same channel to the manager, so that a send which never ends is seen."""
        return _Timed(channel, self._sending.setdefault(channel.name, {}), self._clock)

    async def watch(self, outbound: AsyncIterable[OutboundMessage]) -> AsyncIterator[OutboundMessage]:
        """Pass owed answers on, and remember them."""
        async for message in outbound:
            self._take(message)
            yield message

    async def record(self, out: str, session_key: SessionKey, part: int, state: str, ref: str | None) -> None:
        """Write a delivery state down, and cross off what is settled by it."""
        await self._record(out, session_key, part, state, ref)
        owed = self._owed.get((session_key, out))
        if owed is None:
            return
        if state in SETTLED:
            owed.open.discard(part)
        if not owed.open:
            del self._owed[session_key, out]

    def keep_only(self, still_owed: Callable[[SessionKey, str], bool]) -> None:
        """Forget what is owed no more for other reasons than a delivery."""
        self._owed = {place: owed for place, owed in self._owed.items() if still_owed(*place)}

    def facts(self) -> dict[str, OutboxFacts]:
        """Return each channel's count and ages."""
        now = self._clock()
        found: dict[str, OutboxFacts] = {}
        for channel in {owed.channel for owed in self._owed.values()}:
            since = [owed.since for owed in self._owed.values() if owed.channel == channel]
            sending = min(self._sending.get(channel, {}).values(), default=now)
            found[channel] = OutboxFacts(owed=len(since), oldest_s=now - min(since), sending_s=now - sending)
        return found

    def _take(self, message: OutboundMessage) -> None:
        parts = {part.index for part in open_parts(message)}
        if parts:
            owed = _Owed(message.route.channel, self._clock(), parts)
            self._owed.setdefault((message.session_key, message.out), owed)


class _Timed:
    """A channel whose sends under way are written down with their beginning."""

    def __init__(self, channel: Channel, under_way: dict[object, float], clock: Callable[[], float]) -> None:
        self._channel = channel
        self._under_way = under_way
        self._clock = clock

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def capabilities(self) -> Capabilities:
        return self._channel.capabilities

    async def listen(self, accept: Accept) -> None:
        await self._channel.listen(accept)

    async def send(self, part: OutboundPart) -> str | None:
        send = object()
        self._under_way[send] = self._clock()
        try:
            return await self._channel.send(part)
        finally:
            del self._under_way[send]
