"""Ask the extractor, and end it when it takes too long: no page can hold the daemon up, and none reaches its memory."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nanobot.errors import ToolError

Kind = Literal["html", "plain", "pdf"]

_SCRIPT = Path(__file__).with_name("extractor.py")
_PASSED = ("PATH", "HOME", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR")
_MAX_ANSWER_BYTES = 16_000_000
_AT_ONCE = 3  # each takes up to a processor and a hundred megabytes


@dataclass(frozen=True, slots=True)
class Extracted:
    """A document's title (or nothing) and text, in its author's words."""

    title: str
    text: str


class Extractor:
    """Starts a process for each document.

    Args:
        environ: our environment; the process gets what Python needs of it, and no keys.
        limit_s: how long one may take.
        script: the program; tests give worse ones.
    """

    def __init__(self, environ: Mapping[str, str], *, limit_s: float = 15.0, script: Path = _SCRIPT) -> None:
        self._environ = {name: environ[name] for name in _PASSED if name in environ}
        self._limit_s = limit_s
        self._script = script
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def longest_s(self) -> float:
        """How long ``extract`` takes at most, once it is its turn."""
        return 2 * self._limit_s + 2

    async def extract(self, kind: Kind, data: bytes) -> Extracted:
        """Return the text; a page that is too much for the good way is read in the plain one.

        Raises:
            ToolError: it cannot be read; says why.
        """
        async with self._slots:
            answer = await self._run(kind, data)
            if answer is None and kind == "html":
                answer = await self._run("plain", data)
        if answer is None:
            raise ToolError(
                f"the document could not be read within {self._limit_s:g} s and the memory there is for it."
            )
        if fault := answer.get("fault"):
            raise ToolError(f"{fault}.")
        return Extracted(answer.get("title", ""), answer.get("text", ""))

    async def _run(self, kind: Kind, data: bytes) -> dict[str, str] | None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-B", str(self._script), kind),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environ,
            cwd=os.sep,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limit_s):
                return await _exchange(process, data)
        except TimeoutError:
            return None
        finally:
            await _end(process)


async def _exchange(process: asyncio.subprocess.Process, data: bytes) -> dict[str, str] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(ConnectionError):  # it ended early; what it said counts
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()
    answer = bytearray()
    while piece := await process.stdout.read(1 << 16):
        answer += piece
        if len(answer) > _MAX_ANSWER_BYTES:
            return None
    try:
        found = json.loads(answer)
        return {str(name): str(value) for name, value in found.items()}
    except (ValueError, AttributeError):
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):  # asyncio notices no end behind a full pipe
        pass
    await process.wait()
