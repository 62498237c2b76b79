"""Real MCP servers in a real daemon: they work, and what happens to one of them is that one's affair."""

import asyncio
import json
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemons import Daemon, Place
from tests.e2e.real_mcp import INSTALL_S, RealServers, install
from tests.fakes.llm.recorded import Recorded
from tests.fakes.llm_server import Call, LLMServer, Reply

pytestmark = pytest.mark.timeout(INSTALL_S + 120)


@pytest.fixture(scope="module")
def real() -> RealServers:
    return install()


def obedient(recorded: Recorded) -> Reply:
    """Be a model that does what it is told (``call NAME {...}``) and says what came of it."""
    last: dict[str, Any] = json.loads(recorded.raw)["messages"][-1]
    if last["role"] == "tool":
        return Reply(str(last["content"]))
    _, name, arguments = str(last["content"]).split("\n")[0].split(" ", 2)
    return Reply("", [Call(name, json.loads(arguments))])


class Person:
    """Somebody who has the daemon's model call tools."""

    def __init__(self, place: Place, daemon: Daemon) -> None:
        self.daemon = daemon
        self._place = place
        self._count = 0

    async def call(self, name: str, **arguments: Any) -> str:  # Any: JSON
        """Return the tool's result."""
        self._count += 1
        await self.daemon.say(f"call {name} {json.dumps(arguments)}", number=str(self._count))
        return (await self.daemon.answers(self._count))[-1]

    async def state(self, server: str) -> str:
        """Return how the daemon says that a server is."""
        return next(one["state"] for one in (await self.daemon.status())["mcp"] if one["name"] == server)

    def process(self, part: str) -> int:
        """Return the process of a server, by a part of its command line."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                    if int(parent) == self.daemon.process.pid and part in (entry / "cmdline").read_text():
                        return int(entry.name)
                except OSError:
                    continue
        raise AssertionError(f"no process {part}")


def server(real: RealServers, name: str, *args: str, **more: Any) -> dict[str, Any]:  # Any: the config's values
    command, *rest = real.command(name)
    return {"command": command, "args": [*rest, *args], "timeout_s": 3, "effect": "idempotent", **more}


@asynccontextmanager
async def person(tmp_path: Path, servers: dict[str, Any]) -> AsyncGenerator[Person]:
    async with LLMServer() as llm:
        llm.responder = obedient
        place = Place(tmp_path, llm, tools={"mcp": {"wait_s": 30, "servers": servers}})
        async with place.gateway() as daemon:
            yield Person(place, daemon)
            code = await daemon.stop()
    assert code == 0, daemon.log
    assert "Traceback" not in daemon.log


async def test_servers_over_stdio_work_and_one_s_trouble_is_its_own(real: RealServers, tmp_path: Path) -> None:
    """Tools, resources and prompts of real servers; then one is killed, one hangs, one writes nonsense, and all go on."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/note.txt").write_text("remember the milk")
    servers = {
        "time": server(real, "mcp_server_time"),
        "fetch": server(real, "mcp_server_fetch"),
        "files": server(real, "server-filesystem", str(tmp_path / "work")),
        "all": server(real, "server-everything"),
        "gone": {"command": "no-such-program"},
    }
    async with person(tmp_path, servers) as it:
        now = await it.call("mcp_time_get_current_time", timezone="UTC")
        note = await it.call("mcp_files_read_text_file", path=str(tmp_path / "work/note.txt"))
        echo = await it.call("mcp_all_echo", message="hello")
        resources = await it.call("mcp_list_resources", server="all")
        prompts = await it.call("mcp_get_prompt", server="all")
        refused = await it.call("mcp_fetch_fetch", url="http://127.0.0.1:1/")
        gone = await it.state("gone")

        os.kill(it.process("server_time"), signal.SIGKILL)
        await it.daemon.logs("mcp time: down")
        after_kill = await it.call("mcp_time_get_current_time", timezone="UTC")

        os.kill(it.process("server-filesystem"), signal.SIGSTOP)
        await it.call("mcp_files_read_text_file", path=str(tmp_path / "work/note.txt"))
        meanwhile = await it.call("mcp_all_echo", message="still here")
        await it.daemon.logs("mcp files: down")
        after_hang = await it.call("mcp_files_read_text_file", path=str(tmp_path / "work/note.txt"))

        garble(it.process("server-everything"))
        await it.daemon.logs("mcp all: down: what it writes is no MCP")
        after_noise = await it.call("mcp_all_echo", message="and again")

    assert '"timezone": "UTC"' in now
    assert "remember the milk" in note
    assert "hello" in echo
    assert "://" in resources
    assert "simple" in prompts
    assert "Error while running mcp_fetch_fetch" in refused
    assert gone == "down"
    assert '"timezone": "UTC"' in after_kill
    assert "still here" in meanwhile
    assert "remember the milk" in after_hang
    assert "and again" in after_noise


async def test_a_server_over_http_works_and_is_found_again_after_a_restart(real: RealServers, tmp_path: Path) -> None:
    """Streamable HTTP with a real server, which is restarted between two calls."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = await listening(real, port)
    try:
        async with person(tmp_path, {"web": {"url": f"http://127.0.0.1:{port}/mcp", "timeout_s": 5}}) as it:
            before = await it.call("mcp_web_echo", message="first")
            await ended(first)
            first = await listening(real, port)
            after = await it.call("mcp_web_echo", message="second")
    finally:
        await ended(first)

    assert "first" in before
    assert "second" in after


async def listening(real: RealServers, port: int) -> Process:
    """Start a server behind a port, and wait until it listens."""
    command = real.command("server-everything")
    environ = {"PORT": str(port), "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec(
        *command, "streamableHttp", env=environ, stdout=DEVNULL, stderr=DEVNULL
    )
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)  # another process has no event for it
                continue
            writer.close()
            return process


async def ended(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def garble(pid: int) -> None:
    """Write what is no message into a process's output."""
    with Path(f"/proc/{pid}/fd/1").open("wb", buffering=0) as pipe:
        for _ in range(300):
            pipe.write(b"Segmentation fault, or so\n")
