"""A command under its supervisor, as the daemon sees it: started, fed, waited for, ended; and the record that it leaves.

The supervisor is a process of its own, so reading gigabytes of output costs the event loop nothing, and the command dies with the
daemon while the record of one that ended survives it: ``output`` and ``status`` in its directory.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self, cast

from nanobot.agent.tools.shell.command import Launch
from nanobot.supervisor import SCRIPT
from nanobot.supervisor.ring import Captured, read_ring
from nanobot.values import frozen

Input = Literal["none", "pipe", "terminal"]

_END_S = 6.0  # the supervisor needs at most about two seconds to end a command; the machine may be busy


@frozen
class Ended:
    """What the supervisor recorded: why the command is over, and how.

    ``reason`` is ``exited``, ``timeout``, ``killed`` (by order), ``stopped`` (the daemon let go) or ``failed`` (never started).
    ``rest`` counts the processes that it left running and that were ended.  ``lost`` says why output was not kept.
    """

    reason: str
    exit: int | None
    signal: int | None
    rest: int
    duration_s: float
    total_bytes: int
    cwd: str = ""
    error: str = ""
    lost: str = ""


class Supervised:
    """A command that runs, or ran, under a supervisor of this process.

    Whoever starts one calls ``end`` in any case.  ``waits`` is ``certain`` or ``likely`` while it waits for input, or empty.
    """

    def __init__(self, process: asyncio.subprocess.Process, directory: Path) -> None:
        self.directory = directory
        self.began = time.monotonic()
        self.waits = ""
        self.pending_input = 0
        self.input_closed = False
        self._process = process
        self._stirred = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(), name=f"supervisor {process.pid}")

    @classmethod
    async def start(cls, launch: Launch, directory: Path, *, stdin: Input, timeout_s: float | None) -> Self:
        """Start it; ``directory`` exists, is private and empty.  The time begins now, not when the machine gets to it."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", SCRIPT, str(directory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.defpath},
            cwd="/",
            start_new_session=True,  # Ctrl-C at our terminal stops the Turn, which stops this
        )
        supervised = cls(process, directory)
        supervised.order(argv=launch.argv, cwd=str(launch.cwd), env=dict(launch.env), deadline=deadline, input=stdin)
        return supervised

    @property
    def over(self) -> bool:
        """Whether the supervisor has ended, and with it the command."""
        return self._listening.done()

    def order(self, **order: Any) -> None:  # Any: JSON
        """Tell the supervisor something: ``input``, ``eof``, ``until``, ``end``."""
        lifeline = self._process.stdin
        if lifeline is not None and not lifeline.is_closing():
            lifeline.write(json.dumps(order).encode() + b"\n")

    async def until(self, true: Callable[[], bool], *, timeout_s: float | None = None) -> bool:
        """Wait until something holds that news from the supervisor change, or it is over; return whether it holds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not true() and not self.over:
                    self._stirred.clear()
                    await self._stirred.wait()
        return true()

    async def end(self) -> None:
        """Let go, and wait until everything of it is ended; do that ourselves if the supervisor cannot."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait({self._listening}, timeout=_END_S)
        finally:
            if self._process.returncode is None or self._process.returncode < 0:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                kill_group(self.directory)
        await asyncio.wait({self._listening})

    async def _listen(self) -> None:
        """Take note of what the supervisor tells, until it has ended."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = cast("dict[str, Any]", json.loads(line))
            self.waits = event.get("waits", self.waits)
            self.pending_input = event.get("pending", self.pending_input)
            self.input_closed = event.get("closed", self.input_closed)
            self._stirred.set()
        await self._process.wait()
        self._stirred.set()


def kill_group(directory: Path) -> None:
    """Kill the process group of a command whose supervisor is gone."""
    with contextlib.suppress(OSError, ValueError):
        os.killpg(int((directory / "pid").read_text()), signal.SIGKILL)


def command_lives(directory: Path) -> bool:
    """Whether the command's process still exists, so that a status may still come."""
    try:
        os.kill(int((directory / "pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def read_record(directory: Path) -> tuple[Ended, Captured] | None:
    """Return how a command ended and what it printed; None if it is not over or the record is not whole.  Blocks."""
    try:
        status = cast("dict[str, Any]", json.loads((directory / "status").read_bytes()))
    except (OSError, ValueError):
        return None
    captured = read_ring(directory / "output")
    if captured is None or (captured.total != status["total_bytes"] and "lost" not in status):
        return None
    ended = Ended(
        reason=status["reason"],
        exit=status.get("exit"),
        signal=status.get("signal"),
        rest=status.get("rest", 0),
        duration_s=status["duration_s"],
        total_bytes=status["total_bytes"],
        cwd=status.get("cwd", ""),
        error=status.get("error", ""),
        lost=status.get("lost", ""),
    )
    return ended, captured
