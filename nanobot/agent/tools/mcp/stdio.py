"""A server as a child process: started in its own group, bounded in what it may say, ended with its group.

The SDK has such a transport; ours differs in what a daemon needs: a line without an end costs bounded memory, what is no message
is skipped and counted instead of filling the log, the last words on stderr are kept for the status, and whatever the server
started in its group is ended with it, also when it ended by itself.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from nanobot.agent.tools.mcp.remote import Lost
from nanobot.values import frozen

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 8 << 20
MAX_NOISE_LINES = 200  # without a message among them
_NOISE_CHARS = 200
_EXIT_S = 1.0  # to end by itself once its input has ended
_TERM_S = 1.0  # to comply with SIGTERM
_KILL_S = 2.0
_LOOK_S = 0.5  # how often it is seen whether the process is still there
_KEPT_STDERR_LINES = 5


@frozen(kw_only=True)
class Program:
    """What to run, with its whole environment."""

    name: str
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


class StdioTransport:
    """A transport as the SDK's client wants it.

    ``ended`` is set once the server's output has ended or makes no sense; ``failure`` then says why.
    """

    def __init__(self, program: Program) -> None:
        self.ended = asyncio.Event()
        self.failure = "it ended"
        self._program = program
        self._last_words: deque[str] = deque(maxlen=_KEPT_STDERR_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]:
        self._process = process = await self._start()
        into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, out_of = anyio.create_memory_object_stream[SessionMessage](0)
        name = self._program.name
        self._tasks = [
            asyncio.create_task(self._listen(process, into), name=f"mcp {name} stdout"),
            asyncio.create_task(self._speak(process, out_of), name=f"mcp {name} stdin"),
            asyncio.create_task(self._hear(process), name=f"mcp {name} stderr"),
            asyncio.create_task(self._outlive(process), name=f"mcp {name} process"),
        ]
        return read, write

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None
        ending = asyncio.create_task(self._end(self._process), name=f"mcp {self._program.name} ends")
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait({ending})  # bounded; a process left behind would be nobody's
            raise

    @property
    def last_words(self) -> str:
        """The newest lines of stderr, as one."""
        return " | ".join(self._last_words)

    async def _start(self) -> asyncio.subprocess.Process:
        program = self._program
        try:
            return await asyncio.create_subprocess_exec(
                program.command,
                *program.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(program.env),
                cwd=program.cwd,
                limit=MAX_LINE_BYTES,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            if not program.cwd.is_dir():
                raise Lost(f"its cwd is no directory: {program.cwd}", reached=False) from None
            why = getattr(error, "strerror", None) or str(error)
            raise Lost(f"{program.command!r} cannot be run: {why}", reached=False) from None

    async def _listen(
        self, process: asyncio.subprocess.Process, into: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        try:
            async with into:
                noise = 0
                while line := await _line(process.stdout):
                    message = _message(line)
                    noise = 0 if message else noise + 1
                    if message:
                        await into.send(message)
                    elif noise > MAX_NOISE_LINES:
                        self.failure = f"what it writes is no MCP, such as {_shown(line)}"
                        return
        except asyncio.LimitOverrunError:
            self.failure = f"it wrote a line of more than {MAX_LINE_BYTES:,} bytes"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # we are leaving
        finally:
            self.ended.set()

    async def _speak(
        self, process: asyncio.subprocess.Process, out_of: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError, anyio.ClosedResourceError):
            async with out_of:
                async for message in out_of:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                    await process.stdin.drain()

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(1 << 16):
            for line in data.decode("utf-8", "replace").splitlines():
                if line.strip():
                    self._last_words.append(line.strip()[:_NOISE_CHARS])
                    log.debug("mcp %s stderr: %s", self._program.name, line.strip()[:_NOISE_CHARS])

    async def _outlive(self, process: asyncio.subprocess.Process) -> None:
        """Notice that it has ended, although a child of its own may hold its output open.

        By looking: ``process.wait()`` waits for the pipes, too.
        """
        while process.returncode is None:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(_LOOK_S)  # what it started has no event for its end
        await asyncio.sleep(_LOOK_S)  # for its last answers to be read
        self._tasks[0].cancel()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        process.stdin.close()
        if not await self._exits(process, _EXIT_S):
            _signal_group(process.pid, signal.SIGTERM)
            await self._exits(process, _TERM_S)
        _signal_group(process.pid, signal.SIGKILL)  # and whoever outlived it in its group
        for pipe in (process.stdout, process.stderr):
            self._tasks.append(asyncio.create_task(_drain(pipe), name=f"mcp {self._program.name} drain"))
        if not await self._exits(process, _KILL_S):
            log.error("mcp %s: process %d cannot be ended and is left behind", self._program.name, process.pid)
        _, late = await asyncio.wait(self._tasks, timeout=0.2)  # for the pipes to run dry
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        code = process.returncode
        if code is not None and self.failure == "it ended":
            self.failure = f"it ended with exit status {code}" if code >= 0 else f"it was ended by signal {-code}"

    @staticmethod
    async def _exits(process: asyncio.subprocess.Process, within_s: float) -> bool:
        for _ in range(int(within_s / 0.02)):
            if process.returncode is not None:
                return True
            await asyncio.sleep(0.02)  # as in ``_outlive``
        return process.returncode is not None


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, empty at the end.

    Raises:
        LimitOverrunError: it is longer than the stream's limit.
    """
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial


async def _drain(pipe: asyncio.StreamReader | None) -> None:
    """Read what is left in a pipe, so that it can be closed."""
    with contextlib.suppress(RuntimeError):  # somebody else still reads it
        while pipe is not None and await pipe.read(1 << 16):
            pass


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


def _shown(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace").strip())


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
