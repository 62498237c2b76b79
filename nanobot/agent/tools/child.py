"""A program that is run for its output: off the loop, in bounded memory, and always ended.

It is killed, with what it started, at its time limit, when it has said enough, and when the caller is cancelled.  Of our variables
it gets none but those it is given.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanobot.values import frozen


@frozen
class Found:
    """What a program printed; ``stopped`` says why it was not allowed to end by itself."""

    output: bytes
    errors: str
    code: int
    stopped: str = ""  # "" | "output" | "time"


async def run_child(
    argv: Sequence[str],
    *,
    timeout_s: float,
    max_bytes: int,
    cwd: Path = Path("/"),
    stdin: bytes | None = None,
    pass_fds: Sequence[int] = (),
    environ: Mapping[str, str] | None = None,
) -> Found:
    """Run a program to its end, its time limit or ``max_bytes`` of output.

    It inherits ``pass_fds``; its variables are ``environ``, or a path and a language.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"} if environ is None else environ,
        cwd=cwd,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    output, errors = bytearray(), bytearray()
    stopped = ""
    try:
        async with asyncio.timeout(timeout_s):
            async with asyncio.TaskGroup() as tasks:
                if stdin is not None:
                    tasks.create_task(_feed(process, stdin), name="child stdin")
                tasks.create_task(_keep(process.stderr, errors, 4_096), name="child stderr")
                if await _read(process.stdout, output, max_bytes):
                    stopped = "output"
                    _kill(process)
            if not stopped:
                await process.wait()  # its output ends before it does: killed now, it would lose its exit code
    except TimeoutError:
        stopped = "time"
    finally:
        _kill(process)
        for stream in (process.stdout, process.stderr):  # read to their ends, or their transports stay open
            await _keep(stream, bytearray(), 0)
        await process.wait()
    return Found(bytes(output), errors.decode("utf-8", "replace"), process.returncode or 0, stopped)


def _kill(process: asyncio.subprocess.Process) -> None:
    """End a program that still runs, and what it started, which is in its group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    writer = process.stdin
    assert writer is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it ended early; its exit says why
        writer.write(data)
        await writer.drain()
    writer.close()


async def _read(stream: asyncio.StreamReader | None, into: bytearray, limit: int) -> bool:
    """Read to the end, or past the limit; return whether the limit was passed."""
    assert stream is not None
    while len(into) <= limit:
        data = await stream.read(1 << 16)
        if not data:
            return False
        into += data
    return True


async def _keep(stream: asyncio.StreamReader | None, into: bytearray, limit: int) -> None:
    """Read to the end and keep the beginning."""
    assert stream is not None
    while data := await stream.read(1 << 16):
        into += data[: max(0, limit - len(into))]
