"""What must not get worse, as counts that do not depend on the machine's mood.  ``make bench`` has the times.

A budget that a change has to raise is raised here, with the reason in the commit.
"""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.messages import UserMessage
from nanobot.providers.adapter import resolve
from nanobot.providers.anthropic import AnthropicWire
from nanobot.providers.base import Emit, LLMRequest, LLMResponse, ToolCallRequest
from nanobot.providers.openai import OpenAIWire
from nanobot.providers.settings import AnthropicSettings, OpenAISettings
from nanobot.session.disk import Disk

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class CountingDisk(Disk):
    """A disk that counts what is asked of it."""

    counts: dict[str, int] = field(default_factory=dict[str, int])

    def _count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def open(self, path: Path, flags: int) -> int:
        self._count("open")
        return super().open(path, flags)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._count("write")
        self._count("bytes", len(data))
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._count("fsync")
        super().fsync(fd)


class Instant:
    """A provider that answers at once, after so many calls of ``list_dir``, one at a time."""

    name = "instant"

    def __init__(self, calls: int = 0) -> None:
        self._calls = calls

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        done = next(at for at, one in enumerate(reversed(request.messages)) if isinstance(one, UserMessage)) // 2
        if done < self._calls:
            call = ToolCallRequest("list_dir", {"path": f"d{done}"})
            return LLMResponse(tool_calls=(call,), finish="tool_calls", provider=self.name, model=request.model)
        return LLMResponse(text="It is what it is.", provider=self.name, model=request.model)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return []

    async def close(self) -> None:
        """Nothing to close."""


def bot(folder: Path, disk: Disk | None = None, *, calls: int = 0) -> Nanobot:
    """Return a bot with the default settings, but for a window that holds whatever is said."""
    settings = Settings.model_validate(
        {
            "workspace": folder / "workspace",
            "data_dir": folder / "data",
            "agent": {"context_window": 10_000_000, "compaction": {"enabled": False}},
        }
    )
    return Nanobot(settings, provider=Instant(calls), environ={}, disk=disk)


async def turns(nanobot: Nanobot, count: int, *, key: str = "budget:1") -> None:
    """Run so many Turns of one session."""
    for number in range(count):
        result = await nanobot.process_direct(f"What do you make of it? {number}", session_key=key)
        assert result.error is None


async def calls_of(work: Callable[[], Awaitable[None]], name: str = "") -> int:
    """Return how many Python functions the work calls, on this thread: all, or those of a name."""
    counted = 0

    def profiler(frame: FrameType, event: str, argument: Any) -> None:  # Any: as the interpreter gives it
        nonlocal counted
        counted += event == "call" and name in ("", frame.f_code.co_name)

    sys.setprofile(profiler)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return counted


# -- the start -----------------------------------------------------------------------------------------------------------------


LATER = (
    "httpx2",
    "idna",
    "nanobot.agent.tools.documents",
    "nanobot.agent.tools.files.changing",
    "nanobot.agent.tools.files.decode",
    "nanobot.agent.tools.files.patcher",
    "nanobot.agent.tools.files.reader",
    "nanobot.agent.tools.mcp.server",
    "nanobot.agent.tools.sandbox.policy",
    "nanobot.agent.tools.shell.running",
    "nanobot.agent.tools.web.pages",
    "nanobot.agent.tools.web.targets",
    "nanobot.agent.undo",
    "nanobot.providers.faults",
)
"""What a start does not need: it runs tools, carries out rare commands, or reads errors."""


def imports(arguments: Sequence[str], folder: Path) -> list[str]:
    """Return what the command line imports, in order."""
    command = [sys.executable, "-X", "importtime", "-m", "nanobot", *arguments]
    home = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=home, capture_output=True, text=True, check=True)
    return [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]


@pytest.mark.parametrize(
    ("arguments", "most"),
    [(["--help"], 157), (["agent", "-m", "hi"], 500)],
    ids=["help", "agent"],
)
def test_the_start_imports_no_more_than_it_needs(arguments: Sequence[str], most: int, tmp_path: Path) -> None:
    """Each import costs time and memory at every start, on the smallest machine."""
    imported = imports(arguments, tmp_path)

    assert len(imported) <= most, f"{len(imported)} modules; the newest are {imported[-20:]}"
    assert [name for name in imported if f"{name}.".startswith(tuple(f"{one}." for one in LATER))] == []


_ENDED = """\
import atexit, gc, sys
from nanobot.__main__ import main
atexit.register(lambda: print(gc.get_freeze_count(), gc.get_stats()[0]["collections"], file=sys.stderr))
main()
"""


def test_a_run_does_not_look_for_garbage_all_the_time(tmp_path: Path) -> None:
    """Neither while it imports, some thousand objects a module, nor once more over all of them at its end."""
    command = [sys.executable, "-c", _ENDED, "agent", "-m", "hi"]
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=ROOT, env=home, capture_output=True, text=True, check=True)
    left_alone, looks = map(int, done.stderr.split())

    assert left_alone > 10_000
    assert looks <= 60


# -- a Turn --------------------------------------------------------------------------------------------------------------------


async def test_what_a_turn_asks_of_the_disk(tmp_path: Path) -> None:
    """A Turn of text opens nothing, syncs at its barriers alone, and writes little more than what was said."""
    disk = CountingDisk()
    async with bot(tmp_path, disk) as nanobot:
        await turns(nanobot, 3)
        disk.counts.clear()
        await turns(nanobot, 10)

    assert disk.counts.get("open", 0) == 0
    assert disk.counts["fsync"] <= 2 * 10 + 1  # and one of the Turn before
    assert disk.counts["write"] <= 2 * 10 + 1
    assert disk.counts["bytes"] <= 1_000 * 10


async def test_what_a_new_session_asks_of_the_disk(tmp_path: Path) -> None:
    """Its names are synced, and what it shares with others (prompt, tools) is not written again."""
    disk = CountingDisk()
    async with bot(tmp_path, disk) as nanobot:
        await turns(nanobot, 1)
        disk.counts.clear()
        for number in range(10):
            await turns(nanobot, 1, key=f"budget:new-{number}")

    assert disk.counts["fsync"] <= 10 * 10
    assert disk.counts["bytes"] <= 4_000 * 10  # half of it the lock's note


async def test_what_a_call_of_a_tool_costs(tmp_path: Path) -> None:
    """One change of thread, one write for several, and some hundred function calls."""
    disk = CountingDisk()
    async with bot(tmp_path, disk, calls=10) as nanobot:
        for number in range(10):
            (tmp_path / "workspace" / f"d{number}").mkdir(parents=True)
        await turns(nanobot, 3)
        threads = await calls_of(lambda: turns(nanobot, 1), "submit")
        disk.counts.clear()
        calls = await calls_of(lambda: turns(nanobot, 1))

    assert threads <= 10 + 2
    assert disk.counts["write"] <= 8
    assert calls <= 8_000


async def test_the_calls_of_a_turn(tmp_path: Path) -> None:
    """A Turn of text is a few thousand function calls, and no more after a thousand others."""
    async with bot(tmp_path) as nanobot:
        await turns(nanobot, 5)
        young = await calls_of(lambda: turns(nanobot, 10))
        await turns(nanobot, 500)
        old = await calls_of(lambda: turns(nanobot, 10))

    assert young <= 1_250 * 10
    assert old <= 1.1 * young


async def test_what_a_turn_leaves_in_memory(tmp_path: Path) -> None:
    """A session in use grows by what was said, a few objects a Turn."""
    async with bot(tmp_path) as nanobot:
        await turns(nanobot, 50)
        tracemalloc.start()
        try:
            await turns(nanobot, 20)  # what is made once while it is traced
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            await turns(nanobot, 100)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (after - before) / 100 <= 2_600


# -- a stream ------------------------------------------------------------------------------------------------------------------


def _openai(count: int) -> list[object]:
    piece = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
    return [piece] * count


def _anthropic(count: int) -> list[object]:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
    return [{"type": "message_start", "message": {"usage": {}}}, start, *[piece] * count]


def _wire(name: str) -> tuple[OpenAIWire | AnthropicWire, Callable[[int], list[object]]]:
    url = "http://127.0.0.1:9"
    if name == "openai":
        settings = OpenAISettings(base_url=url)
        return OpenAIWire(
            settings, resolve(name, settings, base_url=url, key_variable="", environ={}), environ={}
        ), _openai
    other = AnthropicSettings(base_url=url)
    remote = resolve(name, other, base_url=url, key_variable="", environ={})
    return AnthropicWire(other, remote, environ={}), _anthropic


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_piece_of_a_stream_costs_the_same_at_the_end(name: str) -> None:
    """Reading an answer is linear in its pieces: calls and memory, the ten thousandth like the first."""
    wire, events = _wire(name)

    async def read(count: int) -> None:
        fold = wire.new_fold(LLMRequest(model="m", system="", messages=(), max_tokens=100_000))
        for event in events(count):
            for _ in fold.feed(event):
                pass

    await read(10)
    few, many = await calls_of(lambda: read(1_000)), await calls_of(lambda: read(10_000))

    assert few <= 45 * 1_000
    assert many <= 10.5 * few
