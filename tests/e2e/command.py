"""Run the nanobot command as a person would: in a home of its own, with pipes or at a terminal."""

import asyncio
import codecs
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.screen import Screen

_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: bytes
    err: bytes


class Home:
    """A fresh home directory with a configuration, and commands that run in it."""

    def __init__(self, path: Path, config: str = "") -> None:
        self.path = path
        self.workspace = path / ".nanobot" / "workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        if config:
            (path / ".nanobot" / "config.yaml").write_text(config, "utf-8")

    def environ(self, extra: dict[str, str]) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.path), "PYTHONWARNINGS": "error::ResourceWarning", **extra}

    async def start(
        self, *arguments: str, stdin: int = DEVNULL, stdout: int = PIPE, environ: dict[str, str] | None = None
    ) -> Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "nanobot",
            *arguments,
            stdin=stdin,
            stdout=stdout,
            stderr=PIPE,
            env=self.environ(environ or {}),
            cwd=self.path,
        )

    async def run(self, *arguments: str, stdin: bytes | None = None, environ: dict[str, str] | None = None) -> Ended:
        process = await self.start(*arguments, stdin=DEVNULL if stdin is None else PIPE, environ=environ)
        return await finish(process, stdin)

    @asynccontextmanager
    async def at_terminal(self, *arguments: str, **environ: str) -> AsyncGenerator["Typist"]:
        """Run a command on a terminal of 80 by 24; it is killed when the block is left."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _TAKE_TERMINAL,
            sys.executable,
            "-m",
            "nanobot",
            *arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self.environ({"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **environ}),
            cwd=self.path,
            start_new_session=True,
        )
        typist = Typist(process, master, slave)
        try:
            yield typist
        finally:
            typist.close()
            if process.returncode is None:
                process.kill()
            await process.wait()
            os.close(master)
            os.close(slave)


class Typist:
    """A person at a terminal: types, reads, and knows how the terminal was set at the beginning."""

    def __init__(self, process: Process, master: int, slave: int) -> None:
        self.process = process
        self._master = master
        self._slave = slave
        self._settings = termios.tcgetattr(slave)
        self._read = ""
        self.screen = Screen()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._news = asyncio.Event()
        os.set_blocking(master, False)
        asyncio.get_running_loop().add_reader(master, self._take)

    def types(self, text: str) -> None:
        """Type this."""
        os.write(self._master, text.encode())

    async def sees(self, text: str, *, times: int = 1) -> str:
        """Wait until this stands on the screen or above it, so many times; return all that stands there."""
        try:
            async with asyncio.timeout(20):
                while self.screen.text.count(text) < times:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"{text!r} never came; on the screen:\n{self.screen.text}") from None
        return self.screen.text

    async def leaves(self) -> int:
        """Type Ctrl-D and return the exit code."""
        self.types("\x04")
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(20):
            return await self.process.wait()

    def signals(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def terminal_is_as_before(self) -> bool:
        return termios.tcgetattr(self._slave) == self._settings

    @property
    def raw(self) -> str:
        """All that was written to the terminal."""
        return self._read

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)

    def _take(self) -> None:
        try:
            data = self._decoder.decode(os.read(self._master, 65_536))
            self._read += data
            self.screen.feed(data)
        except OSError:
            self.close()
        self._news.set()


async def finish(process: Process, stdin: bytes | None = None) -> Ended:
    """Wait for the end of a command."""
    async with asyncio.timeout(40):
        out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return Ended(process.returncode, out, err)


def config_for(url: str, wire: str = "openai", **agent: Any) -> str:  # Any: values of the agent's settings
    """Return a configuration that talks to the strict local server."""
    base = f"{url}/v1" if wire == "openai" else url
    more = "".join(f"  {name}: {value}\n" for name, value in agent.items())
    return (
        f"providers:\n  local:\n    type: {wire}\n    api_key: test-key\n    base_url: {base}\n"
        f"agent:\n  model: local/test-model\n{more}"
    )
