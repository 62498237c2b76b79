"""Channels that fail, fall silent or do not stop, with a clock of our own."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nanobot.bus.events import Acceptance, Accepted, InboundMessage
from nanobot.bus.runtime_events import ChannelStatus, RuntimeEvent
from nanobot.channels.base import Accept, Capabilities, OutboundPart
from nanobot.channels.supervisor import ChannelBoard, Restarts, Supervisor
from nanobot.errors import ChannelError, SendFailed

QUICK = Restarts(base_s=1.0, cap_s=8.0, steady_s=100.0, stop_s=0.02, stall_s=30.0, look_s=0.001)


class Scripted:
    """A channel whose listening is a function of the try (from 1)."""

    capabilities = Capabilities()

    def __init__(self, name: str, listen: Callable[[int], Awaitable[None]]) -> None:
        self.name = name
        self._listen = listen
        self.tries = 0

    async def listen(self, accept: Accept) -> None:
        self.tries += 1
        await self._listen(self.tries)

    async def send(self, part: OutboundPart) -> str | None:
        return None


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


async def accept(message: InboundMessage) -> Acceptance:
    return Accepted()


class Setting:
    """A supervisor over channels, and what was published."""

    def __init__(self, *channels: Scripted) -> None:
        self.time = Time()
        self.published: list[RuntimeEvent] = []
        self.board = ChannelBoard(self.published.append, clock=self.time.clock)
        self.supervisor = Supervisor(
            channels,
            accept=accept,
            board=self.board,
            restarts=QUICK,
            sleep=self.time.sleep,
            jitter=lambda: 0.0,
            clock=self.time.clock,
        )

    def states(self, name: str) -> list[str]:
        return [one.state for one in self.published if isinstance(one, ChannelStatus) and one.channel == name]


async def test_d35_a_failing_channel_is_tried_for_ever_and_ever_more_patiently() -> None:
    """The first tries fail, as behind a network that is away: waits double to a cap, and it comes up in the end."""

    async def listen(count: int) -> None:
        if count <= 6:
            raise SendFailed("no route to host")

    channel = Scripted("one", listen)
    setting = Setting(channel)

    await setting.supervisor.run()

    assert setting.time.waits == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert setting.states("one") == ["starting", "down", "stopped"]
    assert setting.board.facts["one"].restarts == 6


async def test_one_channels_failure_leaves_the_others_alone() -> None:
    """A channel with a fault of ours in it is started again; the other one listens undisturbed, once."""
    done = asyncio.Event()

    async def broken(count: int) -> None:
        if count < 3:
            raise RuntimeError("a fault of ours")
        done.set()

    async def sound(count: int) -> None:
        await done.wait()

    bad, good = Scripted("bad", broken), Scripted("good", sound)
    setting = Setting(bad, good)

    await setting.supervisor.run()

    assert (bad.tries, good.tries) == (3, 1)
    assert next(one.detail for one in setting.published if isinstance(one, ChannelStatus) and one.state == "down") == (
        "a fault of ours"
    )


async def test_a_silent_channel_is_started_again() -> None:
    """A channel that told of rounds and then of none for ``stall_s`` is stopped and started anew."""
    time = Time()

    async def listen(count: int) -> None:
        setting.board.progress_of("one")()
        if count == 1:
            time.now += QUICK.stall_s + 1
            await asyncio.Event().wait()

    channel = Scripted("one", listen)
    setting = Setting(channel)
    time = setting.time

    await setting.supervisor.run()

    assert channel.tries == 2
    assert setting.states("one") == ["starting", "up", "down", "up", "stopped"]


def test_the_last_error_is_told_after_it_is_over() -> None:
    """An operator who comes late reads what was wrong, when, and what the channel has to say itself."""
    time = Time()
    board = ChannelBoard(clock=time.clock)
    progress = board.progress_of("one")
    progress()
    calm = board.facts["one"].told("", now=time.now)
    progress("no network")
    down = board.facts["one"].told("", now=time.now)
    time.now += 60
    progress()

    assert (calm, down) == ("", "no network")
    assert board.facts["one"].told("3 chats are gone", now=time.now) == (
        "last error 60 s ago: no network; 3 chats are gone"
    )


async def test_a_channel_that_is_down_may_wait_longer() -> None:
    """A platform may tell a channel to wait for minutes; only after twenty of them that is silence."""

    async def listen(count: int) -> None:
        setting.board.progress_of("one")("told to wait")
        setting.time.now += QUICK.stall_s + 1
        await asyncio.sleep(0.01)
        if count == 1:
            setting.time.now += QUICK.down_stall_s
            await asyncio.Event().wait()

    channel = Scripted("one", listen)
    setting = Setting(channel)

    await setting.supervisor.run()

    assert channel.tries == 2
    assert setting.board.facts["one"].restarts == 1


async def test_a_channel_that_tells_of_no_rounds_is_never_called_silent() -> None:
    """Channels that cannot know are left in peace."""

    async def listen(count: int) -> None:
        setting.time.now += 10_000
        await asyncio.sleep(0.01)

    channel = Scripted("one", listen)
    setting = Setting(channel)

    await setting.supervisor.run()

    assert channel.tries == 1


async def test_d10_a_listener_that_does_not_stop_is_abandoned_and_started_anew() -> None:
    """Stopping is bounded; after it, a fresh listener runs whatever the old one does."""
    release = asyncio.Event()

    async def listen(count: int) -> None:
        setting.board.progress_of("one")()
        if count == 1:
            setting.time.now += QUICK.stall_s + 1
            await _stubborn(release)

    channel = Scripted("one", listen)
    setting = Setting(channel)

    async with asyncio.timeout(5):
        await setting.supervisor.run()
    left = list(setting.supervisor.abandoned)
    release.set()
    await asyncio.wait(left)

    assert channel.tries == 2
    assert len(left) == 1


async def test_d10_too_many_abandoned_listeners_are_an_error() -> None:
    """After three of them the supervisor gives up, so that the process ends and is started anew."""
    release = asyncio.Event()

    async def listen(count: int) -> None:
        setting.board.progress_of("one")()
        setting.time.now += QUICK.stall_s + 1
        await _stubborn(release)

    setting = Setting(Scripted("one", listen))

    with pytest.raises(ExceptionGroup) as failed:
        await setting.supervisor.run()
    release.set()
    await asyncio.wait(setting.supervisor.abandoned)

    assert failed.group_contains(ChannelError, match="3 listeners")
    assert len(setting.supervisor.abandoned) == 3


async def test_cancelling_is_bounded() -> None:
    """Whoever stops the supervisor does not wait for a listener that does not stop."""
    release = asyncio.Event()
    setting = Setting(Scripted("one", lambda count: _stubborn(release)))
    running = asyncio.create_task(setting.supervisor.run())
    await asyncio.sleep(0.01)

    running.cancel()
    async with asyncio.timeout(2):
        await asyncio.wait({running})
    left = setting.supervisor.abandoned
    release.set()
    await asyncio.wait(left)

    assert running.cancelled()
    assert setting.board.facts["one"].state == "stopped"


async def test_a_steady_channel_starts_from_the_shortest_wait_again() -> None:
    """A channel that was well for long is not punished for failures of long ago."""

    async def listen(count: int) -> None:
        if count == 4:
            setting.time.now += QUICK.steady_s
        if count < 6:
            raise SendFailed("cut")

    setting = Setting(Scripted("one", listen))

    await setting.supervisor.run()

    assert setting.time.waits == [1.0, 2.0, 4.0, 1.0, 2.0]


def test_rounds_tell_the_state() -> None:
    """A round that fails is down with its reason, the next good one is up; repeating either is no news."""
    published: list[RuntimeEvent] = []
    progress = ChannelBoard(published.append).progress_of("one")

    for error in ("timed out", "timed out", None, None):
        progress(error)

    assert published == [ChannelStatus("one", "down", "timed out"), ChannelStatus("one", "up", "")]


async def _stubborn(release: asyncio.Event) -> None:
    while not release.is_set():
        try:
            await release.wait()
        except asyncio.CancelledError:
            continue
