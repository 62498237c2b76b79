"""Keep channels listening, and know how each of them is.

A channel that fails is started again, ever more patiently, for ever: networks come back.  One that makes no progress is stopped and
started anew; one that does not even stop is abandoned, so that it cannot hold up the rest.  After ``ABANDONED_MAX`` of those the
supervisor gives up with an error, because only a new process gets rid of them.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from nanobot.bus.runtime_events import ChannelStatus, RuntimeEvent
from nanobot.channels.base import Accept, Channel
from nanobot.errors import ChannelError
from nanobot.values import frozen

log = logging.getLogger(__name__)

ABANDONED_MAX = 3
State: TypeAlias = Literal["starting", "up", "down", "stopped"]


@runtime_checkable
class Noting(Protocol):
    """A channel that has something to say although it is up."""

    @property
    def note(self) -> str:
        """One sentence for the operator, without secrets; empty if there is none."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A channel with connections that outlive ``listen``."""

    async def close(self) -> None:
        """End them.  Nothing is sent any more."""
        ...


class Progress(Protocol):
    """What a channel calls after each round with its platform, whether it brought something or not."""

    def __call__(self, error: str | None = None) -> None:
        """Say that a round ended: well, or with this error (one sentence, no secrets)."""
        ...


@frozen(kw_only=True)
class ChannelFacts:
    """How a channel is.  ``since`` is when its state began, ``progress_at`` its last round (None: it tells of none); in seconds.

    ``last_error`` is kept after it is over.
    """

    state: State = "starting"
    detail: str = ""
    since: float = 0.0
    progress_at: float | None = None
    restarts: int = 0
    last_error: str = ""
    last_error_at: float = 0.0

    def told(self, note: str, *, now: float) -> str:
        """Return what there is to say about it: why it is down, or the last error that is over, and its own note."""
        over = self.last_error and not self.detail
        last = f"last error {now - self.last_error_at:.0f} s ago: {self.last_error}" if over else ""
        return "; ".join(filter(None, (self.detail, last, note)))


@frozen(kw_only=True)
class Restarts:
    """How patiently channels are started again, and how long they may be silent or slow to stop, in seconds."""

    base_s: float = 1.0
    cap_s: float = 300.0
    steady_s: float = 60.0  # up for so long: the next failure counts as the first
    stop_s: float = 5.0
    stall_s: float = 120.0
    down_stall_s: float = 1_200.0  # while it is down: its platform may have told it to wait
    look_s: float = 1.0  # how often silence is looked for

    def delay_s(self, failed: int, jitter: float) -> float:
        """Return the wait after so many failures in a row; ``jitter`` from 0 to 1 takes up to half of it away."""
        return min(self.cap_s, self.base_s * 2.0 ** min(failed - 1, 30)) * (1.0 - 0.5 * jitter)


class ChannelBoard:
    """What is known of each channel; changes are published as ``ChannelStatus``."""

    def __init__(
        self,
        publish: Callable[[RuntimeEvent], None] = lambda event: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._facts: dict[str, ChannelFacts] = {}
        self._changed = asyncio.Event()

    @property
    def facts(self) -> Mapping[str, ChannelFacts]:
        """Each channel's facts, by name."""
        return self._facts

    def progress_of(self, name: str) -> Progress:
        """Return the ``Progress`` of one channel."""

        def progress(error: str | None = None) -> None:
            facts = self._facts.get(name, ChannelFacts())
            if facts.state == "stopped":
                return  # an abandoned listener talks on
            self._facts[name] = replace(facts, progress_at=self._clock())
            self.move(name, "down" if error else "up", error or "")

        return progress

    def move(self, name: str, state: State, detail: str = "", *, restarted: bool = False) -> None:
        """Note a channel's state; a repeated one is no news."""
        old = self._facts.get(name)
        was = old or ChannelFacts()
        restarts = was.restarts + restarted
        if state == "down" and detail:
            was = replace(was, last_error=detail, last_error_at=self._clock())
        if old is not None and (was.state, was.detail) == (state, detail):
            self._facts[name] = replace(was, restarts=restarts)
            return
        since = was.since if old is not None and was.state == state else self._clock()
        self._facts[name] = replace(was, state=state, detail=detail, since=since, restarts=restarts)
        self._publish(ChannelStatus(name, state, detail))
        self._changed.set()

    def begin(self, name: str) -> None:
        """Note that a channel starts to listen: its silence counts from here."""
        self._facts[name] = replace(self._facts.get(name, ChannelFacts()), progress_at=None)
        if self._facts[name].state != "down":  # a channel that keeps failing stays down until a round goes well
            self.move(name, "starting")

    async def until_up(self, name: str) -> None:
        """Wait until this channel reaches its platform."""
        while self._facts.get(name, ChannelFacts()).state != "up":
            self._changed.clear()
            await self._changed.wait()

    async def settled(self) -> None:
        """Wait until every channel got past ``starting``."""
        while any(facts.state == "starting" for facts in self._facts.values()):
            self._changed.clear()
            await self._changed.wait()


class Supervisor:
    """Runs ``listen`` of each channel.

    Args:
        channels: whom to run.
        accept: the port they hand messages to.
        board: where their states are kept.
        restarts: how patiently.
        sleep: waits that many seconds.
        jitter: returns a number from 0 to 1.
        clock: seconds that only rise; the board's.
    """

    def __init__(
        self,
        channels: Iterable[Channel],
        *,
        accept: Accept,
        board: ChannelBoard,
        restarts: Restarts = Restarts(),  # noqa: B008  # frozen
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channels = tuple(channels)
        self._accept = accept
        self._board = board
        self._restarts = restarts
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self.abandoned: list[asyncio.Task[None]] = []
        for channel in self._channels:
            board.move(channel.name, "starting")

    async def run(self) -> None:
        """Run every channel until cancelled, or until all have ended by themselves.  Cancelling takes ``stop_s`` at most.

        Raises:
            ChannelError: too many listeners had to be abandoned.
        """
        async with asyncio.TaskGroup() as group:
            for channel in self._channels:
                group.create_task(self._supervise(channel), name=f"channel {channel.name}")

    async def close(self, *, timeout_s: float) -> None:
        """Close the channels' connections, when nothing is sent any more."""
        closing = {
            asyncio.create_task(channel.close(), name=f"close {channel.name}")
            for channel in self._channels
            if isinstance(channel, Closing)
        }
        if not closing:
            return
        done, late = await asyncio.wait(closing, timeout=timeout_s)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("%s failed: %s", task.get_name(), error)
        for task in late:
            log.warning("%s took too long", task.get_name())
            task.cancel()

    async def _supervise(self, channel: Channel) -> None:
        failed = 0
        try:
            while True:
                self._board.begin(channel.name)
                began = self._clock()
                why = await self._listen(channel)
                if why is None:
                    break
                failed = 1 if self._clock() - began >= self._restarts.steady_s else failed + 1
                self._board.move(channel.name, "down", why, restarted=True)
                await self._sleep(self._restarts.delay_s(failed, self._jitter()))
        finally:
            self._board.move(channel.name, "stopped")

    async def _listen(self, channel: Channel) -> str | None:
        """Let the channel listen once; return why it has to be started again, or None if it ended by itself."""
        task = asyncio.create_task(channel.listen(self._accept), name=f"listen {channel.name}")
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self._restarts.look_s)
                if not task.done() and (silent_s := self._stalled_s(channel.name)):
                    await self._end(channel.name, task)
                    return f"no progress for {silent_s:.0f} s"
        except asyncio.CancelledError:
            await self._end(channel.name, task)
            raise
        return self._outcome(channel.name, task)

    def _stalled_s(self, name: str) -> float:
        """Return for how long a channel was silent, if that is too long; else 0."""
        facts = self._board.facts[name]
        silent_s = 0.0 if facts.progress_at is None else self._clock() - facts.progress_at
        limit_s = self._restarts.down_stall_s if facts.state == "down" else self._restarts.stall_s
        return silent_s if silent_s > limit_s else 0.0

    async def _end(self, name: str, task: "asyncio.Task[None]") -> None:
        """Cancel a listener and wait a moment; leave it behind if it does not end."""
        task.cancel()
        await asyncio.wait({task}, timeout=self._restarts.stop_s)
        if task.done():
            if not task.cancelled():
                task.exception()  # looked at, so that nobody complains
            return
        self.abandoned.append(task)
        log.error("channel %s did not stop within %g s and was abandoned", name, self._restarts.stop_s)
        if len(self.abandoned) >= ABANDONED_MAX:
            raise ChannelError(
                f"{len(self.abandoned)} listeners of channels did not stop; only a new process gets rid of them"
            )

    def _outcome(self, name: str, task: "asyncio.Task[None]") -> str | None:
        if task.cancelled():
            return "its listener was cancelled from inside"
        error = task.exception()
        if error is None:
            return None
        if not isinstance(error, ChannelError):  # a fault of the channel's; the others go on
            log.error("channel %s failed", name, exc_info=error)
        return str(error) or type(error).__name__
