"""Gateways by the dozen: a process that has loaded everything and then forks one gateway at a time, to be killed at will.

``python -m tests.crash.forge`` reads orders (``Order`` as a JSON line) from stdin.  For each it forks, and the child runs
``nanobot gateway`` as the command line does, on a disk that kills the process: right after the ``at``-th line of a session
log, in the middle of that line, or before the ``at``-th system call of the session store.  It answers with the child's process
id, and with how it ended.

Everything but the loading is as in a process of its own; loading takes a second, and there are hundreds of cases.
"""

import asyncio
import importlib
import itertools
import json
import os
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from nanobot.session import jsonl
from nanobot.session.disk import Disk

ROOT = Path(__file__).resolve().parents[2]
NEVER = 0
Moment = Literal["after", "inside", "call"]
LOADED = (  # so that no gateway has to
    "openai.resources.chat",
    "telegram",
    "nanobot.channels.telegram.channel",
    "nanobot.cli.app",
    "nanobot.gateway.process",
    "nanobot.providers.openai",
)
STARTED = "-- a gateway --\n"  # begins its part of the log


@dataclass(frozen=True, slots=True)
class Order:
    """One gateway: where it lives, and when it dies."""

    home: str
    at: int = NEVER
    moment: Moment = "after"


class KillingDisk(Disk):
    """The real disk, until a certain line of a session log or a certain call; then the process is gone, as by ``kill -9``."""

    def __init__(self, at: int, moment: Moment) -> None:
        self._at = at
        self._moment: Moment = moment
        self._lines = 0
        self._calls = itertools.count(1)
        self._logs: set[int] = set()

    def open(self, path: Path, flags: int) -> int:
        self._call()
        fd = super().open(path, flags)
        if path.suffix == ".jsonl":
            self._logs.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._logs.discard(fd)
        super().close(fd)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._call()
        if fd not in self._logs or self._moment == "call":
            return super().write(fd, data)
        lines = bytes(data).splitlines(keepends=True)
        left = self._at - self._lines
        if 0 < left <= len(lines):
            last = lines[left - 1]
            os.write(fd, b"".join(lines[: left - 1]) + (last if self._moment == "after" else last[: len(last) // 2]))
            _die()
        self._lines += len(lines)
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._call()
        super().fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._call()
        super().truncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        self._call()
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._call()
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self._call()
        super().mkdir(path)

    def _call(self) -> None:
        if self._moment == "call" and next(self._calls) == self._at:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# -- the side of tests ---------------------------------------------------------------------------------------------------------


class Forge:
    """Runs one gateway after the other."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._running: Gateway | None = None

    async def start(self, order: Order) -> "Gateway":
        """Fork a gateway."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        self._running = Gateway(await self._number(), asyncio.create_task(self._number()))
        return self._running

    async def close(self) -> None:
        """End what runs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._running is not None:
            await self._running.stop(signal.SIGKILL)
        await self._process.wait()

    async def _number(self) -> int:
        assert self._process.stdout is not None
        return int(await self._process.stdout.readline())


@dataclass(slots=True)
class Gateway:
    """One that runs; ``ended`` is its exit code, negative for a signal."""

    pid: int
    ended: "asyncio.Task[int]"

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, unless it is over; return its exit code."""
        if not self.ended.done():
            with suppress(ProcessLookupError):  # it ended by itself just now
                os.kill(self.pid, number)
        async with asyncio.timeout(20):
            return await asyncio.shield(self.ended)


@asynccontextmanager
async def forge() -> AsyncGenerator[Forge]:
    """Start a forge for the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error::ResourceWarning", "-m", "tests.crash.forge"), stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    one = Forge(process)
    try:
        yield one
    finally:
        await one.close()


# -- the forge -----------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Fork until stdin ends; then nothing is left running."""
    for name in LOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a thread would not survive the fork"
    while line := sys.stdin.buffer.readline():
        order = Order(**json.loads(line))
        log = os.open(f"{order.home}/gateway.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(log, STARTED.encode())
        pid = os.fork()
        if pid == 0:
            _become_gateway(order, log)
        os.close(log)
        _tell(pid)
        _, status = os.waitpid(pid, 0)
        _tell(os.waitstatus_to_exitcode(status))


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _become_gateway(order: Order, log: int) -> None:
    code = 70
    try:
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update({"PATH": os.defpath, "HOME": order.home})
        if order.at != NEVER:
            setattr(jsonl, "Disk", lambda: KillingDisk(order.at, order.moment))  # noqa: B010  # the one seam
        sys.argv = ["nanobot", "gateway", "--config", f"{order.home}/config.yaml"]
        from nanobot.__main__ import main as nanobot_main

        nanobot_main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
