"""The orders that everything else rests on, looked at in the moment; and each of them broken on purpose, to see that it is noticed.

A message is on disk before it is acknowledged, an intent before its effect, an answer before it is sent, and a part is crossed off
only after it was confirmed.  The sabotage is done from outside, through the seams that tests have.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.base import BaseTool, Planned, ToolContext
from nanobot.app import Nanobot
from nanobot.bus.events import Acceptance, Accepted, InboundMessage, Route
from nanobot.channels.base import Accept, Capabilities, OutboundPart, Record
from nanobot.channels.manager import ChannelManager
from nanobot.config.settings import Settings
from nanobot.providers.settings import OpenAISettings
from nanobot.session.disk import Disk
from nanobot.session.entries import Effect, Finished, Intent
from tests.crash import scripted
from tests.fakes.agent import EchoArguments
from tests.fakes.disk import PowerDisk
from tests.fakes.llm_server import Call, LLMServer, Reply

KEY = "test:1"


@dataclass(frozen=True, slots=True)
class Sabotage:
    """What is broken: the sync after lines with ``unsynced`` in them, or one of three orders."""

    unsynced: bytes = b""
    effect_before_intent: bool = False
    acknowledged_before_append: bool = False
    crossed_off_before_confirmed: bool = False


class ForgetfulDisk(PowerDisk):
    """A disk whose power may be cut, and that leaves out the sync after certain lines."""

    def __init__(self, root: Path, unsynced: bytes) -> None:
        super().__init__(root)
        self._unsynced = unsynced
        self._last: dict[int, bytes] = {}

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._last[fd] = bytes(data)
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        if not self._unsynced or self._unsynced not in self._last.get(fd, b""):
            super().fsync(fd)


@dataclass
class Moments:
    """What is on disk at the moments that count; ``wrong`` is what should have been there."""

    home: Path
    disk: ForgetfulDisk
    wrong: list[str] = field(default_factory=list[str])
    count: int = 0

    def needs(self, kind: type, what: str) -> None:
        """Cut the power (in a copy) and note if no entry of this kind survives."""
        self.count += 1
        into = self.home.parent / f"cut-{self.count}"
        self.disk.cut_power(into)
        if not any(isinstance(one, kind) for one in scripted.entries(into / "data", KEY)):
            self.wrong.append(what)


class Press(BaseTool[EchoArguments]):
    """Changes the world, and looks at the disk when it does."""

    name = "press"
    description = "Press the button."
    arguments = EchoArguments
    effect: Effect = "opaque"

    def __init__(self, moments: Moments, *, is_early: bool) -> None:
        self._moments = moments
        self._is_early = is_early
        self.pressed = 0

    async def plan(self, arguments: EchoArguments, context: ToolContext) -> Planned:
        if self._is_early:
            self._press()
        return Planned()

    async def run(self, arguments: EchoArguments, context: ToolContext) -> str:
        if not self._is_early:
            self._press()
        return "pressed"

    def _press(self) -> None:
        self.pressed += 1
        self._moments.needs(Intent, "an effect without its intent on disk")


@dataclass
class Person:
    """A channel that looks at the disk when something is sent; ``at_send`` may look at more."""

    moments: Moments
    at_send: Callable[[], None]
    name: str = "test"
    capabilities: Capabilities = field(default_factory=Capabilities)
    got: list[OutboundPart] = field(default_factory=list[OutboundPart])
    has: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, accept: Accept) -> None:
        await asyncio.Event().wait()

    async def send(self, part: OutboundPart) -> str | None:
        if not self.got:
            self.moments.needs(Finished, "a send without its answer on disk")
            self.at_send()
        self.got.append(part)
        self.has.set()
        return "1"


def _settings(server: LLMServer, home: Path) -> Settings:
    provider = OpenAISettings.model_validate({"api_key": "k", "base_url": f"{server.url}/v1"})
    return Settings(
        workspace=home / "work",
        data_dir=home / "data",
        providers={"local": provider},
        agent=AgentSettings(model="local/test-model"),
    )


async def broken_orders(tmp_path: Path, sabotage: Sabotage) -> list[str]:
    """Run one Turn with a tool and an answer; return which orders were broken in it."""
    home = tmp_path / "home"
    home.mkdir()
    disk = ForgetfulDisk(home, sabotage.unsynced)
    moments = Moments(home, disk)
    press = Press(moments, is_early=sabotage.effect_before_intent)
    killed = tmp_path / "killed"
    person = Person(moments, lambda: shutil.copytree(home, killed, ignore=shutil.ignore_patterns("*.lock")) and None)
    async with LLMServer([Reply(tool_calls=[Call("press", {})]), Reply("done")]) as server:
        bot = Nanobot(_settings(server, home), environ={}, tools=[press], disk=disk)
        async with bot, asyncio.TaskGroup() as group:
            manager = ChannelManager([person], record=_record(bot, sabotage))
            group.create_task(bot.run())
            group.create_task(manager.run(bot.bus.outbound))
            await _accept(bot, sabotage, group)
            moments.needs(InboundMessage, "an acknowledgement without its message on disk")
            async with asyncio.timeout(10):
                await person.has.wait()
            bot.bus.close()
        if not await _arrives_after_a_kill(server, killed):
            moments.wrong.append("an answer that never arrives after a kill at its send")
    assert press.pressed == 1
    return moments.wrong


def _record(bot: Nanobot, sabotage: Sabotage) -> Record:
    async def record(out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        early = sabotage.crossed_off_before_confirmed and state == "sending"
        await bot.record(out, session_key, part, "sent" if early else state, ref)

    return record


async def _accept(bot: Nanobot, sabotage: Sabotage, group: asyncio.TaskGroup) -> Acceptance:
    message = InboundMessage(
        id=f"{KEY}:1", session_key=KEY, sender="1", text="press it", route=Route("test", "1"), at=datetime.now(UTC)
    )
    if not sabotage.acknowledged_before_append:
        return await bot.accept(message)
    group.create_task(bot.accept(message))
    return Accepted()


async def _arrives_after_a_kill(server: LLMServer, home: Path) -> bool:
    """Start again on what a kill at the first send left; say whether the answer comes."""
    bot = Nanobot(_settings(server, home), environ={})
    async with bot:
        await bot.resume(KEY)
        return [message.text for message in bot.bus.outbound.waiting] == ["done"]


async def test_every_order_is_kept(tmp_path: Path) -> None:
    """On disk before it is acknowledged, done or sent; crossed off after it was confirmed."""
    assert await broken_orders(tmp_path, Sabotage()) == []


@pytest.mark.parametrize(
    ("sabotage", "noticed"),
    [
        (Sabotage(unsynced=b'"type":"inbound"'), "an acknowledgement without its message on disk"),
        (Sabotage(unsynced=b'"type":"intent"'), "an effect without its intent on disk"),
        (Sabotage(unsynced=b'"type":"finished"'), "a send without its answer on disk"),
        (Sabotage(effect_before_intent=True), "an effect without its intent on disk"),
        (Sabotage(acknowledged_before_append=True), "an acknowledgement without its message on disk"),
        (Sabotage(crossed_off_before_confirmed=True), "an answer that never arrives after a kill at its send"),
    ],
    ids=[
        "no sync of inbound",
        "no sync of intent",
        "no sync of finished",
        "effect first",
        "ack first",
        "crossed off first",
    ],
)
async def test_sabotage_is_noticed(tmp_path: Path, sabotage: Sabotage, noticed: str) -> None:
    """Each barrier left out, and each order turned round, breaks the test above, for its own reason."""
    assert noticed in await broken_orders(tmp_path, sabotage)


def test_a_sync_asks_the_system() -> None:
    """The one call that every barrier comes down to reaches the system, which refuses to sync a pipe."""
    reader, writer = os.pipe()  # what cannot be synced
    try:
        with pytest.raises(OSError, match="Invalid argument"):
            Disk().fsync(writer)
    finally:
        os.close(reader)
        os.close(writer)
