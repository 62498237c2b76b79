"""A hundred hostile commands at once: every Turn ends in time, memory stays bounded, nothing is left running."""

import asyncio
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.shell.command import Launcher, child_environment
from nanobot.agent.tools.shell.exec import Exec
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.messages import JsonObject, ToolMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.supervisor import SCRIPT
from tests.fakes.agent import Agent
from tests.fakes.provider import calls, says

TIMEOUT_S = 2.0
HOSTILE = (
    "yes",
    "while :; do sleep 600 & sleep 0.1; done",
    "trap '' TERM HUP INT; while :; do echo again; done",
    "(setsid bash -c \"trap '' TERM; sleep 600 & sleep 600\" &); sleep 600",
    "(sleep 600 &); (setsid sleep 600 &); echo done",
)
MARK = f"NANOBOT_TEST_WAVE={uuid4().hex}"


class Model:
    """Has one of the commands run in each session, then is done."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands

    async def __call__(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        if isinstance(request.messages[-1], ToolMessage):
            return says("done")
        number = int(request.cache_key.rpartition(":")[2])
        name, _, value = MARK.partition("=")
        arguments: JsonObject = {
            "command": self._commands[number % len(self._commands)],
            "timeout_s": TIMEOUT_S,
            "env": {name: value},
        }
        return calls(("exec", arguments))


class Watch:
    """Looks at our supervisors from time to time."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = str(scratch)
        self.most_kb = 0
        self.most = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            sizes = await asyncio.to_thread(self._sizes)
            self.most, self.most_kb = max(self.most, len(sizes)), max(self.most_kb, *sizes, 0)
            await asyncio.sleep(0.4)

    def _sizes(self) -> list[int]:
        found: list[int] = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            words = _read(f"/proc/{pid}/cmdline").split(b"\0")
            if SCRIPT.encode() in words and any(word.startswith(self._scratch.encode()) for word in words):
                found += [
                    int(line.split()[1]) for line in _read(f"/proc/{pid}/status").splitlines() if b"VmRSS" in line
                ]
        return found


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def marked() -> list[str]:
    """Return the processes that were started by the wave, however they got away."""
    pids = filter(str.isdigit, os.listdir("/proc"))
    return [pid for pid in pids if MARK.encode() in _read(f"/proc/{pid}/environ").split(b"\0")]


async def wave(agent: Agent) -> tuple[set[str], float]:
    """Run a hundred Turns at once; return how they ended and how long the longest took."""

    async def turn(number: int) -> tuple[str, float]:
        start = time.monotonic()
        result = await agent.loop.process_direct("go", session_key=f"test:{number}")
        return result.stop_reason, time.monotonic() - start

    ended = await asyncio.gather(*(turn(number) for number in range(100)))
    return {reason for reason, _ in ended}, max(took_s for _, took_s in ended)


@pytest.mark.timeout(120)
async def test_h02_h04_a_hundred_hostile_commands_at_once(tmp_path: Path) -> None:
    """They print without end, fork, ignore TERM, fork twice, hold pipes: all Turns end within their timeout and two seconds."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    tool = Exec(Launcher(PathRules(), child_environment(os.environ)), Jobs(tmp_path / "jobs"))
    watch = Watch(tmp_path)
    settings = AgentSettings(concurrency=100)
    async with Agent([Model(("true",))] * 200, tools=[tool], settings=settings, workspace=workspace) as agent:
        _, harmless_s = await wave(agent)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async with Agent([Model(HOSTILE)] * 200, tools=[tool], settings=settings, workspace=workspace) as agent:
        watching = asyncio.create_task(watch.run())
        reasons, worst_s = await wave(agent)
        watching.cancel()

    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert reasons == {"completed"}
    assert marked() == []
    assert worst_s < TIMEOUT_S + 2 + harmless_s  # a busy machine takes that long for any hundred commands
    assert watch.most_kb < 30_000
    assert grown_kb < 100_000
