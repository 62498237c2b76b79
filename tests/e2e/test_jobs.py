"""Background jobs in the real daemon: told to people and to the model, and ended with it, however it ends."""

import asyncio
import os
from pathlib import Path
from uuid import uuid4

import pytest

from tests.e2e.daemons import Daemon, Place
from tests.fakes.llm_server import Call, LLMServer, Reply

MARK = uuid4().hex


def alive(mark: str = MARK) -> list[str]:
    """Return the processes that hold a mark."""
    found: list[str] = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and pid != str(os.getpid()):
            found.append(pid)
    return found


async def none_alive() -> bool:
    """Wait for the end of all of them; a supervisor that lost its daemon ends its command in a second or two."""
    for _ in range(100):
        if not alive():
            return True
        await asyncio.sleep(0.05)
    return False


async def start_job(server: LLMServer, daemon: Daemon) -> None:
    """Have a job started that ignores TERM and has a child in a session of its own."""
    command = f"trap '' TERM; setsid sh -c 'sleep 600; : {MARK}' & echo working; while :; do sleep 1; : {MARK}; done"
    server.queue(Reply(tool_calls=[Call("exec", {"command": command, "background": True})]), Reply("it runs"))
    await daemon.say("start it", number="1")
    await daemon.answers(1)


@pytest.mark.parametrize("mode", ["off", "auto"])
async def test_jobs_are_told_and_end_with_a_killed_daemon(tmp_path: Path, mode: str) -> None:
    """/stop and the next message say what goes on; after kill -9 nothing is left, and the model learns that it is over."""
    async with LLMServer() as server:
        place = Place(tmp_path, server, tools={"sandbox": {"mode": mode}})
        async with place.gateway() as daemon:
            await start_job(server, daemon)
            running = alive()
            await daemon.say("/stop", number="2")
            stop = (await daemon.answers(2))[-1]
            server.queue(Reply("yes"))
            await daemon.say("does it run?", number="3")
            await daemon.answers(3)
            told = str(server.requests[-1].body["messages"][-1]["content"])
            status = await daemon.status()
            daemon.process.kill()
            await daemon.ends()
        ended = await none_alive()
        async with place.gateway() as daemon:
            server.queue(Reply(tool_calls=[Call("exec_status", {})]), Reply("it ended"))
            await daemon.say("and now?", number="4")
            await daemon.answers(4)
        result = str(server.requests[-1].body["messages"][-1]["content"])

    assert running
    assert "Nothing is running.\nIn the background goes on: j" in stop
    assert "background jobs: j" in told
    assert status["jobs"] == 1
    assert ended
    assert "ended with the restart of nanobot" in result
    assert not server.refusals


async def test_an_orderly_end_ends_jobs_too(tmp_path: Path) -> None:
    """SIGTERM: within the deadline, and the exit is clean."""
    async with LLMServer() as server:
        place = Place(tmp_path, server, tools={"sandbox": {"mode": "off"}})
        async with place.gateway() as daemon:
            await start_job(server, daemon)
            code = await daemon.stop()
        left = alive()

    assert code == 0
    assert left == []


async def test_a_stop_in_the_middle_of_a_command_ends_it_and_no_job(tmp_path: Path) -> None:
    """The foreground command of a stopped Turn is gone when the stop is answered; the job goes on."""
    async with LLMServer() as server:
        place = Place(tmp_path, server, tools={"sandbox": {"mode": "off"}})
        async with place.gateway() as daemon:
            await start_job(server, daemon)
            mark = uuid4().hex
            server.queue(Reply(tool_calls=[Call("exec", {"command": f"touch begun; sleep 600; : {mark}"})]))
            await daemon.say("wait", number="2")
            await daemon.until((tmp_path / "work" / "begun").exists, "a command")
            await daemon.say("/stop", number="3")
            await daemon.logs("ended (user_stop)")
            left = alive(mark)
            status = await daemon.status()

    assert left == []
    assert status["jobs"] == 1
