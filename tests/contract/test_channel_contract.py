"""What every channel must do, whatever platform it stands for.

A new channel adds a harness: how a person on its platform says something, and what that person sees.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pytest

from nanobot.bus.events import Acceptance, Accepted, InboundMessage, Media, OutboundMessage, Route, session_key
from nanobot.bus.queue import Mailbox
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.channels.base import Accept, Capabilities, Channel, OutboundPart
from nanobot.channels.cli import TerminalChannel
from nanobot.channels.manager import ChannelManager
from nanobot.channels.terminal.view import Segment
from tests.fakes.loopback import LoopbackChannel
from tests.fakes.telegram.rig import Rig


class Harness(Protocol):
    """One channel, and a person at the other end, who is in ``chat``."""

    channel: Channel
    chat: str

    def say(self, *lines: str) -> None:
        """Let the person say this and leave, once the channel listens."""
        ...

    def seen(self) -> str:
        """Return all that the person sees."""
        ...


class TerminalHarness:
    """The terminal channel with a scripted terminal."""

    chat = "direct"

    def __init__(self, path: Path) -> None:
        self._lines: list[str] = []
        self._seen: list[Segment] = []

        async def stop(key: str) -> bool:
            return False

        channel = TerminalChannel(session_key="cli:direct", events=RuntimeEventBus(), stop=stop)
        channel.attach(self)
        self.channel: Channel = channel

    def say(self, *lines: str) -> None:
        self._lines += lines

    def seen(self) -> str:
        return "\n".join(segment.text for segment in self._seen)

    async def read(self) -> str | None:
        await asyncio.sleep(0)
        return self._lines.pop(0) if self._lines else None

    async def show(self, segments: Iterable[Segment]) -> None:
        self._seen += segments

    def refresh(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return


class TelegramHarness:
    """The Telegram channel on the strict local server.  It ends listening when everything that was said is acknowledged."""

    chat = "1"
    name = "tg"

    def __init__(self, path: Path) -> None:
        self._rig = Rig(path, listens=False)
        self.channel: Channel = self

    @property
    def capabilities(self) -> Capabilities:
        return self._rig.channel.capabilities

    async def listen(self, accept: Accept) -> None:
        listening = asyncio.create_task(self._rig.channel.listen(accept))
        try:
            await self._rig.until(lambda: not self._rig.server.updates.waiting)
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def send(self, part: OutboundPart) -> str | None:
        return await self._rig.channel.send(part)

    def say(self, *lines: str) -> None:
        for line in lines:
            self._rig.server.push_text(1, line)

    def seen(self) -> str:
        shown = [seen for seen in self._rig.server.chat(1).visible if seen.by_bot]
        return "\n".join(f"{seen.file.name} {seen.text}" if seen.file else seen.text for seen in shown)

    async def __aenter__(self) -> Self:
        await self._rig.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._rig.__aexit__(kind, error, traceback)


class LoopbackHarness:
    """The channel that tests of the gateway use.  It ends listening when everything that was said was heard."""

    chat = "1"
    name = "loop"
    capabilities = LoopbackChannel.capabilities

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        self._inner = LoopbackChannel(path, lambda error=None: None)
        self.channel: Channel = self

    async def listen(self, accept: Accept) -> None:
        listening = asyncio.create_task(self._inner.listen(accept))
        try:
            while not (self._path / "in").exists():  # noqa: ASYNC110  # a socket tells nobody that it is there
                await asyncio.sleep(0.005)
            reader, writer = await asyncio.open_unix_connection(self._path / "in")
            try:
                for number, line in enumerate(self._lines):
                    writer.write((json.dumps({"text": line, "id": str(number)}) + "\n").encode())
                    await reader.readline()
            finally:
                writer.close()
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def send(self, part: OutboundPart) -> str | None:
        return await self._inner.send(part)

    def say(self, *lines: str) -> None:
        self._lines += lines

    def seen(self) -> str:
        rows = [json.loads(line) for line in (self._path / "answers").read_text("utf-8").splitlines()]
        return "\n".join(f"{'(may be a repeat) ' * row['may_be_repeat']}{row['text']}" for row in rows)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return


@pytest.fixture(params=[TerminalHarness, TelegramHarness, LoopbackHarness])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    making: AbstractAsyncContextManager[Harness] = request.param(tmp_path)
    async with making as made:
        yield made


async def heard(harness: Harness) -> list[InboundMessage]:
    messages: list[InboundMessage] = []

    async def accept(message: InboundMessage) -> Acceptance:
        messages.append(message)
        return Accepted()

    async with asyncio.timeout(5):
        await harness.channel.listen(accept)
    return messages


def part(harness: Harness, text: str, *, index: int = 0, count: int = 1, may_be_repeat: bool = False) -> OutboundPart:
    route = Route(harness.channel.name, harness.chat)
    return OutboundPart(
        out="o1",
        session_key=session_key(route),
        route=route,
        index=index,
        count=count,
        text=text,
        may_be_repeat=may_be_repeat,
    )


async def test_what_a_person_says_is_handed_in_whole_and_in_order(harness: Harness) -> None:
    """Text is passed on as it was typed, each message once."""
    harness.say("one", "two\nlines 😀", "  indented")
    messages = await heard(harness)

    assert [message.text for message in messages] == ["one", "two\nlines 😀", "  indented"]


async def test_a_message_says_where_its_answer_goes(harness: Harness) -> None:
    """Route and session belong to the channel, ids are unique, and times have a zone."""
    harness.say("a", "a")
    first, second = await heard(harness)

    assert first.route is not None
    assert first.route.channel == harness.channel.name
    assert first.session_key == session_key(first.route)
    assert first.id != second.id
    assert first.id.startswith(f"{first.route.channel}:{first.route.chat}:")
    assert first.at.tzinfo is not None


async def test_nothing_is_handed_in_for_nothing(harness: Harness) -> None:
    """An empty message is not a message."""
    harness.say("", "  \n ")

    assert await heard(harness) == []


async def test_an_answer_is_seen(harness: Harness) -> None:
    """What is sent reaches the person, in all its parts."""
    await harness.channel.send(part(harness, "first\n\n", index=0, count=2))
    await harness.channel.send(part(harness, "second", index=1, count=2))

    assert harness.seen().index("first") < harness.seen().index("second")


async def test_two_equal_answers_are_two_answers(harness: Harness) -> None:
    """Nothing is taken for a repeat because of its text."""
    await harness.channel.send(part(harness, "yes"))
    await harness.channel.send(part(harness, "yes"))

    assert harness.seen().count("yes") == 2


async def test_a_possible_repeat_says_so(harness: Harness) -> None:
    """A person who may see an answer twice is told."""
    await harness.channel.send(part(harness, "answer", may_be_repeat=True))

    assert "may be a repeat" in harness.seen()


async def test_a_file_reaches_the_person_or_is_named(harness: Harness, tmp_path: Path) -> None:
    """A channel that can send files does; for one that cannot, the manager says which file it is and where."""
    (tmp_path / "kept").write_bytes(b"1,2,3")
    media = Media(
        kind="file",
        name="data.csv",
        path=str(tmp_path / "kept"),
        ref="/srv/data.csv",
        sha256=hashlib.sha256(b"1,2,3").hexdigest(),
        size_bytes=5,
        caption="the data",
    )
    await deliver(harness.channel, media)

    assert "data.csv" in harness.seen()
    assert "the data" in harness.seen()


async def test_a_file_that_may_be_a_repeat_says_so(harness: Harness, tmp_path: Path) -> None:
    """As text does."""
    (tmp_path / "kept").write_bytes(b"1")
    digest = hashlib.sha256(b"1").hexdigest()
    media = Media(kind="file", name="data.csv", path=str(tmp_path / "kept"), sha256=digest, size_bytes=1)
    await deliver(harness.channel, media, state="sending")

    assert "may be a repeat" in harness.seen()


async def deliver(channel: Channel, media: Media, *, state: str = "owed") -> None:
    """Deliver a file as the gateway does."""
    route = Route(channel.name, "1")
    message = OutboundMessage(
        out="t1.1",
        session_key=session_key(route),
        route=route,
        text=media.caption,
        parts=((0, len(media.caption)),),
        states=(state,),
        media=media,
    )
    box: Mailbox[OutboundMessage] = Mailbox(1)
    box.put(message)
    box.close()

    async def record(out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        await asyncio.sleep(0)

    await ChannelManager([channel], record=record).run(box)


async def test_listening_ends_when_it_is_cancelled(harness: Harness) -> None:
    """Shutdown is not held up."""
    harness.say(*(str(number) for number in range(10_000)))

    async def accept(message: InboundMessage) -> Acceptance:
        await asyncio.Event().wait()
        return Accepted()

    listening = asyncio.create_task(harness.channel.listen(accept))
    await asyncio.sleep(0.01)
    listening.cancel()
    async with asyncio.timeout(1):
        await asyncio.wait({listening})

    assert listening.cancelled()
