"""Read updates, and acknowledge each only after it was dealt with.

Telegram forgets an update when a later poll asks for what comes after it.  So the next poll asks from the oldest update that is
still being dealt with; meanwhile polls are short and bring repeats, which are recognised.  When all is done, one poll acknowledges
everything and waits for news.  A crash at any point means that what was not done comes again.

A poll that gets no answer is given up, at once when the machine was asleep: its connection is most likely dead.

Failures are waited out here, for ever, with one line in the log for each new reason and one when it works again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar, cast

from nanobot.channels.telegram.errors import SomebodyElsePolls, TokenRefused
from nanobot.channels.telegram.ingress import Ingress
from nanobot.errors import ChannelError, SendFailed

log = logging.getLogger(__name__)
T = TypeVar("T")

BREATH_S = 0.2  # how long open updates get before the next short poll
CONFLICT_S = 15.0
TOKEN_S = 60.0
LONGEST_WAIT_S = 60.0
ANSWER_S = 15.0  # how much longer than it asks for a poll may take, whatever trickles in
LOOK_S = 5.0
JUMP_S = 20.0


class Updates(Protocol):
    """Where updates come from."""

    async def updates(self, offset: int | None, *, timeout_s: int) -> Sequence[object]: ...


class Progress(Protocol):
    """Told after each round, whether it brought something or not."""

    def __call__(self, error: str | None = None) -> None: ...


class Persistence:
    """Tries calls until they work, ever more patiently, and says so once."""

    def __init__(
        self, name: str, progress: Progress, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._name = name
        self._progress = progress
        self._sleep = sleep
        self._failed = 0
        self._complaint = ""

    async def until_done(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what the call returns, however often it has to be made."""
        while True:
            try:
                result = await call()
            except ChannelError as error:
                await self._wait_out(error)
            else:
                self._went_well()
                return result

    async def _wait_out(self, error: ChannelError) -> None:
        self._failed += 1
        self._progress(str(error))
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("channel %s: %s; trying again", self._name, error)
        await self._sleep(delay_s(error, self._failed))

    def _went_well(self) -> None:
        self._progress()
        if self._failed:
            log.warning("channel %s: Telegram answers again after %d failures", self._name, self._failed)
        self._failed, self._complaint = 0, ""


def delay_s(error: ChannelError, failed: int) -> float:
    """Return how long to wait after the ``failed``-th failure in a row; Telegram's own word wins."""
    if isinstance(error, SomebodyElsePolls):
        return CONFLICT_S
    if isinstance(error, TokenRefused):
        return TOKEN_S
    if isinstance(error, SendFailed) and error.retry_after_s is not None:
        return error.retry_after_s
    return min(0.5 * 2.0 ** min(failed - 1, 10), LONGEST_WAIT_S)


class Polling:
    """The update loop of one channel."""

    def __init__(
        self,
        source: Updates,
        ingress: Ingress,
        persistence: Persistence,
        *,
        timeout_s: int,
        answer_s: float = ANSWER_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._ingress = ingress
        self._persistence = persistence
        self._timeout_s = timeout_s
        self._answer_s = answer_s
        self._asking: asyncio.Timeout | None = None
        self._sleep = sleep
        self._taken: set[int] = set()
        self._last: int | None = None

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._round(group)

    async def _round(self, group: asyncio.TaskGroup) -> None:
        await self._let_open_ones_end()
        updates = await self._persistence.until_done(self._poll)
        held = min(self._ingress.open, default=None)
        if held is None and not updates:
            self._last = None  # all is acknowledged; after a quiet week, ids may begin anywhere
            self._taken.clear()
        fresh = [raw for raw in updates if _update_id(raw) not in self._taken]
        if updates and not fresh and held is None:
            await self._sleep(BREATH_S)  # nothing but repeats: no reason to ask at full speed
        for raw in fresh:
            update_id = self._ingress.take(raw, group)
            if update_id is not None:
                self._taken.add(update_id)
                self._last = update_id if self._last is None else max(self._last, update_id)

    async def _poll(self) -> Sequence[object]:
        held = min(self._ingress.open, default=None)
        if held is not None:
            return await self._ask(held, 0)
        offset = None if self._last is None else self._last + 1
        return await self._ask(offset, self._timeout_s)

    async def _ask(self, offset: int | None, timeout_s: int) -> Sequence[object]:
        try:
            async with asyncio.timeout(timeout_s + self._answer_s) as self._asking:
                return await self._source.updates(offset, timeout_s=timeout_s)
        except TimeoutError:
            raise SendFailed("Telegram did not answer in time") from None
        finally:
            self._asking = None

    async def watch_clocks(self, wall: Callable[[], float], steady: Callable[[], float]) -> None:
        """Give the poll up when the time on the wall jumps, as it does when the machine was asleep; until cancelled."""
        was = wall() - steady()
        while True:
            await self._sleep(LOOK_S)
            ahead = wall() - steady()
            if abs(ahead - was) > JUMP_S and self._asking is not None and not self._asking.expired():
                log.info("the clock jumped by %.0f s: asking Telegram anew", ahead - was)
                self._asking.reschedule(asyncio.get_running_loop().time())
            was = ahead

    async def _let_open_ones_end(self) -> None:
        """Give what is being dealt with a moment: most is done in milliseconds, and then one poll does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BREATH_S):
                while self._ingress.open:
                    self._ingress.changed.clear()
                    await self._ingress.changed.wait()


def _update_id(raw: object) -> int | None:
    number = cast("dict[str, object]", raw).get("update_id") if isinstance(raw, dict) else None
    return number if isinstance(number, int) else None
