"""The same jobs for nanobot, its floors and its peers: each run a fresh process, interleaved, medians and spread of repeats.

The floors carry the very requests that nanobot sent: ``sdk`` with the bare SDK's low-level ``post``, ``http`` with its HTTP client.
Peers run in virtual environments of their own (``make bench-peers`` installs them), through their documented interface.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.contestants.driver import Figures, Job

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".bench"
_HERE = Path(__file__).parent / "contestants"
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """Who runs a job: ``command`` without the job, and where."""

    name: str
    command: tuple[str, ...]
    tool: str = "list_dir"
    arguments: str = ""
    package: str = ""  # of a peer, with its version

    @property
    def is_peer(self) -> bool:
        """Whether it is another project."""
        return bool(self.package)

    @property
    def is_installed(self) -> bool:
        """Whether it can be run here."""
        return Path(self.command[0]).exists()


def _peer(name: str, version: str, script: str, tool: str, arguments: str = "") -> Contestant:
    python = str(PEERS / name / "bin/python")
    return Contestant(name, (python, str(_HERE / script)), tool, arguments, f"{name}=={version}")


OURS = Contestant("nanobot", (sys.executable, "-m", "bench.contestants.ours"))
SDK = Contestant("sdk", (sys.executable, "-m", "bench.contestants.floors", "sdk"))
PAUSED = Contestant("sdk, paused", (sys.executable, "-m", "bench.contestants.floors", "paused"))
HTTP = Contestant("http", (sys.executable, "-m", "bench.contestants.floors", "http"))
PEER_LIST = (
    _peer("nanobot-ai", "0.3.5", "nanobot_ai.py", "list_dir"),
    _peer("agent-mini", "0.5.0", "mini.py", "list_files"),
    _peer("hermes-agent", "0.19.0", "hermes.py", "search_files", '{"pattern":"x%d"}'),
    _peer("pydantic-ai", "2.62.0", "pydantic_agent.py", "list_dir"),
)


@asynccontextmanager
async def quick_server() -> AsyncGenerator[str]:
    """Run the cheap model server in another process and yield its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.server", stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def run(who: Contestant, job: Job, url: str) -> Figures:
    """Run the job once.

    Raises:
        RuntimeError: it failed; the last line of what it said is in the text.
    """
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:  # not /tmp, which may be memory
        given = replace(job, url=url, folder=folder)
        process = await asyncio.create_subprocess_exec(
            *who.command,
            json.dumps(vars(given)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder if who.is_peer else ROOT,
            env={"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8"},
        )
        async with asyncio.timeout(_PATIENCE_S):
            out, err = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{who.name}: {(err.decode().strip().splitlines() or ['?'])[-1][:300]}")
        found: Mapping[str, Any] = json.loads(out.splitlines()[-1])  # Any: JSON
        return Figures(**found)


async def compete(job: Job, contestants: Sequence[Contestant], *, repeats: int) -> dict[str, list[Figures]]:
    """Run the job so many times with each, in turn; a peer that cannot is left out, and said on stderr."""
    found: dict[str, list[Figures]] = {who.name: [] for who in contestants}
    out: set[str] = set()
    async with quick_server() as url:
        with tempfile.NamedTemporaryFile() as bodies:
            for _ in range(repeats):
                for who in contestants:
                    if who.name in out:
                        continue
                    own = replace(job, text=job.text.replace("TOOL", _tool(who)), bodies=bodies.name)
                    try:
                        found[who.name].append(await run(who, own, url))
                    except (RuntimeError, TimeoutError) as error:
                        if not who.is_peer:
                            raise
                        sys.stderr.write(f"left out: {error or 'took too long'}\n")
                        out.add(who.name)
    return {name: figures for name, figures in found.items() if figures}


def _tool(who: Contestant) -> str:
    return f"name={who.tool}" + (f" args={who.arguments}" if who.arguments else "")
