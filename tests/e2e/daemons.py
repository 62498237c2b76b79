"""Gateways as people run them: processes with a config file, signals, a notify socket, and somebody talking to them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nanobot.gateway.status import ask
from tests.fakes.llm_server import LLMServer

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0


class Place:
    """A home directory with a config, in which gateways with the loopback channel run one after the other."""

    def __init__(self, home: Path, server: LLMServer | None = None, **more: Any) -> None:  # Any: the config's values
        self.home = home
        self.data = home / "data"
        self.config = home / "config.yaml"
        self.loopback = home / "loop"
        self.loopback.mkdir(parents=True)
        self._server = server
        self.write(**more)

    def write(self, **more: Any) -> None:  # Any: as above
        """Write the configuration file."""
        settings: dict[str, Any] = {"workspace": str(self.home / "work"), "data_dir": str(self.data)}
        if self._server is not None:
            provider = {"type": "openai", "api_key": "test-key", "base_url": f"{self._server.url}/v1"}
            settings |= {"providers": {"local": provider}, "agent": {"model": "local/test-model", "join_within_s": 0}}
        self.config.write_text(json.dumps(settings | more))

    @property
    def answers(self) -> list[dict[str, Any]]:  # Any: JSON
        """What the person saw."""
        path = self.loopback / "answers"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def texts(self) -> list[str]:
        """The texts of it."""
        return [answer["text"] for answer in self.answers]

    @asynccontextmanager
    async def gateway(self, *, is_ready: bool = True, **environ: str) -> AsyncGenerator["Daemon"]:
        """Run a gateway for the block; what is left of it then is killed."""
        notify = self.home / f"notify-{os.urandom(4).hex()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(notify))
            told.setblocking(False)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.fakes.loopback",
                "--config",
                str(self.config),
                stdout=PIPE,
                stderr=PIPE,
                cwd=ROOT,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.home),
                    "LOOPBACK": str(self.loopback),
                    "NOTIFY_SOCKET": str(notify),
                    "PYTHONWARNINGS": "error::ResourceWarning",
                    **environ,
                },
            )
            daemon = Daemon(self, process, told)
            try:
                if is_ready:
                    await daemon.tells("READY=1")
                yield daemon
            finally:
                await daemon.gone()


class Daemon:
    """One running gateway."""

    def __init__(self, place: Place, process: Process, told: socket.socket) -> None:
        self.process = process
        self.log = ""
        self.told: list[str] = []
        self._place = place
        self._told = told
        assert process.stderr is not None
        self._reading = asyncio.create_task(self._read(process.stderr))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(65_536):
            self.log += data.decode("utf-8", "replace")

    def listen(self) -> list[str]:
        """Return all that systemd was told so far."""
        if self._told.fileno() < 0:
            return self.told
        with contextlib.suppress(BlockingIOError):
            while True:
                self.told += self._told.recv(4_096).decode().splitlines()
        return self.told

    async def tells(self, text: str, *, times: int = 1) -> None:
        """Wait until systemd was told this, so many times."""
        await self.until(lambda: self.listen().count(text) >= times, f"{text} x{times}")

    async def logs(self, text: str, *, times: int = 1) -> None:
        """Wait until this stands in the log."""
        await self.until(lambda: self.log.count(text) >= times, text)

    async def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until it holds."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds():  # noqa: ASYNC110  # another process has no event to wait for
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"never: {what}\ntold: {self.listen()}\nlog:\n{self.log}") from None

    async def say(self, text: str, *, number: str, chat: str = "1") -> str:
        """Say something; return how it was accepted."""
        reader, writer = await asyncio.open_unix_connection(self._place.loopback / "in")
        writer.write((json.dumps({"text": text, "id": number, "chat": chat}) + "\n").encode())
        async with asyncio.timeout(PATIENCE_S):
            line = await reader.readline()
        writer.close()
        return line.decode().strip()

    async def answers(self, count: int) -> list[str]:
        """Wait for so many answers in all; return their texts."""
        await self.until(lambda: len(self._place.texts) >= count, f"{count} answers")
        return self._place.texts

    async def status(self) -> dict[str, Any]:  # Any: JSON
        """Return what it says of itself."""
        found = await asyncio.to_thread(ask, self._place.data)
        assert found is not None, self.log
        return found

    def signals(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ends(self) -> int:
        """Wait for its end; return the exit code."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                code = await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"it did not end:\n{self.log}") from None
        await self._reading
        return code

    async def stop(self) -> int:
        """End it as systemd does; return the exit code."""
        self.signals(signal.SIGTERM)
        return await self.ends()

    async def gone(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading
        self.listen()


async def get(url: str) -> tuple[int, str]:
    """Return status and text of a page on this machine."""
    host, _, rest = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    writer.write(f"GET /{rest} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE_S):
        answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body
