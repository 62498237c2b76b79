"""A whole Turn on a disk that fails: whichever call fails, nothing accepted is lost, and what is not kept is said."""

import asyncio
import difflib
import errno
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.settings import ToolSettings
from nanobot.app import Nanobot
from nanobot.bus.events import Acceptance, Accepted, Duplicate, InboundMessage, Route, Unkept, session_key
from nanobot.bus.runtime_events import RuntimeEvent, ToolStarted, Waiting
from nanobot.channels.base import Accept, Capabilities, OutboundPart
from nanobot.channels.manager import ChannelManager
from nanobot.config.settings import Settings
from nanobot.errors import DiskRefused
from nanobot.providers.settings import OpenAISettings
from nanobot.session.entries import Finished
from nanobot.session.settings import SessionSettings
from tests.crash import scripted
from tests.fakes.disk import FaultyDisk
from tests.fakes.llm_server import Call, LLMServer, Reply

CODES = (errno.ENOSPC, errno.EIO, errno.EROFS)
MOST_CALLS = 400  # of one kind in the Turn; far more than there are
AT_ONCE = 6
RETRY_S = 0.02


@dataclass
class Person:
    """A channel and who sits at it.  ``kept`` says for each part whether its answer was on disk when it came."""

    data_dir: Path
    name: str = "test"
    capabilities: Capabilities = field(default_factory=Capabilities)
    got: list[OutboundPart] = field(default_factory=list[OutboundPart])
    kept: list[bool] = field(default_factory=list[bool])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, accept: Accept) -> None:
        await asyncio.Event().wait()

    async def send(self, part: OutboundPart) -> str | None:
        found = scripted.entries(self.data_dir, part.session_key)
        self.kept.append(any(part.out == owed.out for one in found if isinstance(one, Finished) for owed in one.owed))
        self.got.append(part)
        self.changed.set()
        return f"{part.out}/{part.index}"

    async def has(self, parts: int) -> None:
        async with asyncio.timeout(20):
            while len(self.got) < parts:
                self.changed.clear()
                await self.changed.wait()

    @property
    def texts(self) -> list[str]:
        return [part.text for part in self.got]


@dataclass
class Process:
    """One nanobot, its channel, and what became of the messages sent to it."""

    bot: Nanobot
    person: Person
    accepted: list[Acceptance] = field(default_factory=list[Acceptance])

    async def say(self, text: str, *, number: int, chat: str = "1") -> Acceptance:
        route = Route("test", chat)
        key = session_key(route)
        message = InboundMessage(
            id=f"{key}:{number}", session_key=key, sender="42", text=text, route=route, at=datetime.now(UTC)
        )
        for _ in range(50):
            with suppress(DiskRefused):  # not taken and not acknowledged: the platform brings it again
                self.accepted.append(await self.bot.accept(message))
                return self.accepted[-1]
            await asyncio.sleep(RETRY_S)
        raise AssertionError("the message was never taken")


def settings(server: LLMServer, home: Path) -> Settings:
    provider = OpenAISettings.model_validate({"api_key": "test-key", "base_url": f"{server.url}/v1"})
    return Settings(
        workspace=home / "work",
        data_dir=home / "data",
        providers={"local": provider},
        agent=AgentSettings.model_validate({"model": "local/test-model", "join_within_s": 0}),
        session=SessionSettings(retry_s=RETRY_S, close_timeout_s=1.0),
    )


@asynccontextmanager
async def process(server: LLMServer, home: Path, disk: FaultyDisk | None = None) -> AsyncGenerator[Process]:
    """Run a nanobot with a channel over ``home``, as the gateway puts them together; recover first."""
    bot = Nanobot(settings(server, home), environ={}, split=scripted.split, disk=disk)
    person = Person(home / "data")
    manager = ChannelManager([person], record=bot.record)
    async with bot, asyncio.TaskGroup() as group:
        group.create_task(bot.run())
        group.create_task(manager.run(bot.bus.outbound))
        await bot.loop.recover()
        yield Process(bot, person)
        bot.bus.close()


async def scripted_turn(one: Process, script: scripted.Script, work: Path) -> None:
    """Ask, steer when the command runs, and wait for the answer."""
    counting = asyncio.Event()

    def watch(event: RuntimeEvent) -> None:
        if isinstance(event, ToolStarted) and event.name == "exec":
            counting.set()

    one.bot.events.observe(watch)
    await one.say(scripted.ASKED, number=1)
    async with asyncio.timeout(20):
        await counting.wait()
    await one.say(scripted.STEERED, number=2)
    (work / "go").touch()
    script.gate.set()
    await one.person.has(2)


async def undisturbed(tmp_path: Path) -> tuple[list[str], FaultyDisk]:
    """Return the transcript of the Turn when nothing fails, and the disk with its counts."""
    disk = FaultyDisk()
    await one_case(tmp_path / "undisturbed", disk)
    return scripted.transcript(scripted.folded(tmp_path / "undisturbed" / "data", "test:1")), disk


async def one_case(home: Path, disk: FaultyDisk) -> Person:
    """Run the Turn on this disk, then start again on a good one until all is settled."""
    work = home / "work"
    scripted.prepare(work)
    script = scripted.Script(gate=asyncio.Event())
    async with LLMServer() as server:
        server.responder = script
        async with process(server, home, disk) as one:
            await scripted_turn(one, script, work)
        assert all(isinstance(acceptance, Accepted | Unkept) for acceptance in one.accepted), one.accepted
        async with process(server, home) as two:
            await settled(home / "data", "test:1")
        assert not server.refusals
    assert script.asked == Counter0, script.asked
    assert two.person.got == []
    return one.person


Counter0 = {0: 1, 1: 1, 2: 1, 3: 1}


async def settled(data_dir: Path, key: str) -> None:
    async with asyncio.timeout(20):
        while not scripted.folded(data_dir, key).settled():  # noqa: ASYNC110  # the log on disk is all that counts here
            await asyncio.sleep(0.01)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "op", ["open", "open_read", "write", "fsync", "truncate", "rename", "unlink", "mkdir", "pread"]
)
async def test_any_call_of_a_turn_may_fail_once(tmp_path: Path, op: str) -> None:
    """The answer arrives once, says so when it is not kept, every effect is done once, and the log ends up whole."""
    expected, counts = await undisturbed(tmp_path)
    limit = asyncio.Semaphore(AT_ONCE)
    assert counts.calls[op] < MOST_CALLS

    async def case(nth: int, code: int) -> str | None:
        async with limit:
            home = tmp_path / f"{nth}-{code}"
            disk = FaultyDisk()
            disk.short_writes = nth % 2 == 0
            disk.fail(op, nth, code)
            person = await one_case(home, disk)
            return _wrong(person, home, expected)

    cases = [(nth, code) for nth in range(1, counts.calls[op] + 1) for code in CODES]
    wrong = await asyncio.gather(*(case(nth, code) for nth, code in cases))

    found = [f"{op} {nth} fails with {code}: {what}" for (nth, code), what in zip(cases, wrong, strict=True) if what]
    assert not found, "\n".join(found)


def _wrong(person: Person, home: Path, expected: list[str]) -> str | None:
    """Return what is not as it should be."""
    found = scripted.entries(home / "data", "test:1")
    log = scripted.folded(home / "data", "test:1")
    if faults := scripted.log_faults(found, log):
        return f"the log: {faults}"
    if scripted.transcript(log) != expected:
        return "the transcript:\n" + "\n".join(difflib.unified_diff(expected, scripted.transcript(log), lineterm=""))
    if scripted.effects(home / "work") != {"note": "noted\n", "edits": 1, "commands": 1}:
        return f"the effects: {scripted.effects(home / 'work')}"
    text = "".join(person.texts)
    if not text.endswith(scripted.ANSWER):
        return f"the answer: {text!r}"
    if not person.kept[0] and not text.startswith("⚠ "):
        return "the answer was not kept and nobody was told"
    return None


# -- one line refused ----------------------------------------------------------------------------------------------------------


class RefusesLine(FaultyDisk):
    """A disk that refuses, once, the write that holds ``marker``."""

    def __init__(self, marker: bytes) -> None:
        super().__init__()
        self._marker = marker

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if self._marker and self._marker in bytes(data):
            self._marker = b""
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(fd, data)


@pytest.mark.parametrize("text", ["short", scripted.ANSWER, "x" * (scripted.PART_CHARS - 10)])
async def test_an_answer_that_was_not_kept_arrives_whole_behind_a_notice(tmp_path: Path, text: str) -> None:
    """The line that closes the Turn is refused: people read that, then the whole answer, in parts that fit, once."""
    async with LLMServer([Reply(text)]) as server, process(server, tmp_path, RefusesLine(b'"type":"finished"')) as one:
        await one.say("hi", number=1)
        await settled(tmp_path / "data", "test:1")

    got = "".join(one.person.texts)
    assert got.startswith("⚠ This conversation cannot be kept at the moment: ")
    assert got.endswith(f"No space left on device.\n\n{text}")
    assert all(len(part) <= scripted.PART_CHARS or "\n" not in part.rstrip("\n") for part in one.person.texts)


async def test_a_command_that_was_not_kept_says_so(tmp_path: Path) -> None:
    """What a command did may be undone by a crash then, so its answer says it first."""
    async with LLMServer() as server, process(server, tmp_path, RefusesLine(b'"type":"finished"')) as one:
        await one.say("/new", number=1)
        await one.person.has(1)
        await settled(tmp_path / "data", "test:1")

    assert one.person.texts[0].startswith("⚠ This conversation cannot be kept at the moment: ")


# -- refused for long ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
async def test_a_disk_that_refuses_for_long(tmp_path: Path, code: int) -> None:
    """Answers come from memory and say so, /status says so, and when the disk takes it all again, nothing is missing."""
    disk = FaultyDisk()
    async with LLMServer() as server:
        async with process(server, tmp_path, disk) as one:
            await one.say("before", number=1)
            await one.person.has(1)
            await settled(tmp_path / "data", "test:1")
            disk.refuse(code, "write", "open", "fsync", "mkdir", "truncate")
            during = [await one.say("during", number=2)]
            await one.person.has(2)
            during.append(await one.say("/status", number=3))
            await one.person.has(3)
            during.append(await one.say("a stranger to the disk", number=1, chat="2"))
            await one.person.has(4)
            disk.heal()
            await settled(tmp_path / "data", "test:1")
            await settled(tmp_path / "data", "test:2")
            after = await one.say("after", number=4)
            await one.person.has(5)
            await settled(tmp_path / "data", "test:1")
        async with process(server, tmp_path) as two:
            again = await two.say("during", number=2)

    first, second, status, other, last = one.person.texts
    assert first.startswith("echo: ")
    for text in (second, other):
        assert text.startswith("⚠ This conversation cannot be kept at the moment: ")
        assert "echo: " in text
    assert "Disk: cannot keep this conversation now" in status
    assert "⚠" not in last
    assert [isinstance(one, Unkept) for one in during] == [True, True, True]
    assert (after, again) == (Accepted(), Duplicate())
    assert two.person.got == []
    for key, said in (("test:1", ["before", "during", "after"]), ("test:2", ["a stranger to the disk"])):
        found = scripted.entries(tmp_path / "data", key)
        log = scripted.folded(tmp_path / "data", key)
        assert scripted.log_faults(found, log) == []
        assert [row.message.text.split("\n")[0] for row in log.rows][::2] == said


async def test_a_data_directory_that_vanishes(tmp_path: Path) -> None:
    """Somebody removes it under the running daemon: it answers, and what is still in memory or open is on disk again afterwards."""
    async with LLMServer() as server, process(server, tmp_path) as one:
        await one.say("before", number=1)
        await one.person.has(1)
        await settled(tmp_path / "data", "test:1")
        await asyncio.to_thread(shutil.rmtree, tmp_path / "data")
        await one.say("after", number=2)
        await one.person.has(2)
        await settled(tmp_path / "data", "test:1")

    log = scripted.folded(tmp_path / "data", "test:1")
    assert [row.message.text.split("\n")[0] for row in log.rows][::2] == ["before", "after"]
    assert len(one.person.got) == 2


async def test_a_log_that_cannot_be_read_is_done_without(tmp_path: Path) -> None:
    """Messages are taken and answered from memory, which is said first; when the log can be read again, it is as it was."""
    disk = FaultyDisk()
    async with LLMServer() as server:
        async with process(server, tmp_path) as one:
            await one.say("before", number=1)
            await one.person.has(1)
            await settled(tmp_path / "data", "test:1")
        disk.refuse(errno.EIO, "pread")
        async with process(server, tmp_path, disk) as two:
            during = [await two.say("during", number=2)]
            await two.person.has(1)
            during += [await two.say("/status", number=3), await two.say("during", number=2)]
            await two.person.has(2)
            disk.heal()
            after = await two.say("after", number=4)
            await two.person.has(3)
            await settled(tmp_path / "data", "test:1")
        told = server.chats[-1].body["messages"]

    first, status, last = two.person.texts
    assert first.startswith("⚠ This conversation cannot be kept at the moment: ")
    assert "echo: during" in first
    assert "Disk: cannot keep this conversation now" in status
    assert last.startswith("echo: after")
    assert [type(one) for one in during] == [Unkept, Unkept, Duplicate]
    assert after == Accepted()
    assert ["before" in str(told), "during" in str(told)] == [True, False]
    log = scripted.folded(tmp_path / "data", "test:1")
    assert [row.message.text.split("\n")[0] for row in log.rows][::2] == ["before", "after"]
    assert scripted.log_faults(scripted.entries(tmp_path / "data", "test:1"), log) == []


async def test_a_log_that_cannot_be_read_for_a_moment_is_read_again(tmp_path: Path) -> None:
    """One failing read costs nothing at all."""
    disk = FaultyDisk()
    async with LLMServer() as server:
        async with process(server, tmp_path) as one:
            await one.say("before", number=1)
            await one.person.has(1)
            await settled(tmp_path / "data", "test:1")
        async with process(server, tmp_path, disk) as two:
            disk.fail("pread", 1)
            taken = await two.say("after", number=2)
            await two.person.has(1)

    assert taken == Accepted()
    assert two.person.texts[0].startswith("echo: after")


async def test_a_decision_is_synced_before_it_is_answered(tmp_path: Path) -> None:
    """Whoever decides about a call that waits hears of it when it is on the disk, and not before."""
    disk = FaultyDisk()
    async with LLMServer([Reply(tool_calls=[Call("exec", {"command": "true"})]), Reply("done")]) as server:
        asking = settings(server, tmp_path).model_copy(update={"tools": ToolSettings(ask_before=("exec",))})
        bot = Nanobot(asking, environ={}, disk=disk)
        waiting = asyncio.Event()
        bot.events.observe(lambda event: waiting.set() if isinstance(event, Waiting) else None)
        async with bot, asyncio.TaskGroup() as group:
            running = group.create_task(bot.run())
            route = Route("test", "1")
            await bot.accept(
                InboundMessage(
                    id="test:1:1", session_key="test:1", sender="42", text="go", route=route, at=datetime.now(UTC)
                )
            )
            await waiting.wait()
            disk.gate.clear()
            deciding = asyncio.create_task(bot.decide("test:1", "deny", by="42", role="owner"))
            await asyncio.wait({deciding}, timeout=0.1)
            early = deciding.done()
            disk.gate.set()
            told = await deciding
            running.cancel()

    assert (early, told) == (False, "exec may not run.")
