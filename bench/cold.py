"""From nothing: ``--help`` and one question on the command line, over a bare Python and a bare script that does the same."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from bench.contest import PEER_LIST, PEERS, quick_server
from bench.process import Ran, ran
from bench.table import Row, middle, spread

_TIMES = 7
_NANOBOT = (sys.executable, "-m", "nanobot")
_BARE = (sys.executable, "-c", "pass")
_SCRIPT = """\
import asyncio, sys
from openai import AsyncOpenAI

async def main():
    client = AsyncOpenAI(api_key="k", base_url=sys.argv[1])
    asked = [{"role": "user", "content": "hi"}]
    async for chunk in await client.chat.completions.create(model="bench", messages=asked, stream=True):
        pass

asyncio.run(main())
"""


async def command_line(*, peers: bool) -> Sequence[Row]:
    """Measure both: time on the wall, CPU and peak memory."""
    async with quick_server() as url:
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            env = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "AGENT_MINI_HOME": folder}
            runs: dict[str, Sequence[str]] = {
                "help": (*_NANOBOT, "--help"),
                "bare": _BARE,
                "offline": (*_NANOBOT, "agent", "-m", "hi", "--config", _config(home, "offline", {"type": "offline"})),
                "online": (*_NANOBOT, "agent", "-m", "hi", "--config", _config(home, "online", _openai(url))),
                "script": (sys.executable, "-c", _SCRIPT, f"{url}/v1"),
                **(_peer_runs(home, url) if peers else {}),
            }
            found = _repeated(runs, env)
    return [*_help(found), *_one_shot(found)]


def _help(found: Mapping[str, Sequence[Ran]]) -> list[Row]:
    return [
        _row("nanobot --help, wall", "ms", found, "help", "bare", _wall, most=166),
        _row("  peak memory", "MB", found, "help", "bare", _peak, most=32),
    ]


def _one_shot(found: Mapping[str, Sequence[Ran]]) -> list[Row]:
    return [
        _row("agent -m hi, offline, wall", "ms", found, "offline", "bare", _wall, most=310),
        _row("  peak memory", "MB", found, "offline", "bare", _peak, most=39),
        _row("agent -m hi, openai, wall; floor: a bare script", "ms", found, "online", "script", _wall, most_over=250),
        _row("  CPU", "ms", found, "online", "script", lambda one: one.cpu_ms),
        _row("  peak memory", "MB", found, "online", "script", _peak, most_over=20),
    ]


def _repeated(runs: Mapping[str, Sequence[str]], env: Mapping[str, str]) -> dict[str, list[Ran]]:
    """Run each so many times, in turn; a peer that fails is left out, and said on stderr."""
    found: dict[str, list[Ran]] = {name: [] for name in runs}
    for _ in range(_TIMES + 1):
        for name, command in runs.items():
            try:
                found[name].append(ran(command, env=env))
            except RuntimeError as error:
                if " " not in name:
                    raise
                if not found[name]:
                    sys.stderr.write(f"left out: {error}\n")
    return {name: runs_of[1:] for name, runs_of in found.items() if runs_of}  # the first of each writes byte code


def _peer_runs(home: Path, url: str) -> dict[str, Sequence[str]]:
    """Return how each installed peer is asked for its help and for one answer; names hold whose and which."""
    defaults = {"workspace": str(home / "peer"), "model": "bench", "provider": "custom"}
    theirs = {"agents": {"defaults": defaults}, "providers": {"custom": {"apiKey": "k", "apiBase": f"{url}/v1"}}}
    (home / "peer.json").write_text(json.dumps(theirs))
    local = {"baseUrl": f"{url}/v1", "model": "bench", "apiKey": "k"}
    (home / "config.json").write_text(json.dumps({"provider": "local", "providers": {"local": local}}))
    programs = {"nanobot-ai": "nanobot", "agent-mini": "agent-mini", "hermes-agent": "hermes"}
    asks = {
        "nanobot-ai": ("agent", "-m", "hi", "-c", str(home / "peer.json")),
        "agent-mini": ("chat", "-m", "hi"),
    }
    out: dict[str, Sequence[str]] = {}
    for peer in PEER_LIST:
        if peer.is_installed and peer.name in programs:
            program = str(PEERS / peer.name / "bin" / programs[peer.name])
            out[f"help {peer.name}"] = (program, "--help")
            if peer.name in asks:
                out[f"online {peer.name}"] = (program, *asks[peer.name])
    return out


def _openai(url: str) -> dict[str, str]:
    return {"type": "openai", "api_key": "k", "base_url": f"{url}/v1"}


def _config(home: Path, name: str, provider: Mapping[str, str]) -> str:
    path = home / f"{name}.yaml"
    places = {"workspace": str(home / name), "data_dir": str(home / f"{name}-data")}
    model = "local/phrases" if name == "offline" else "local/bench"
    text = yaml.safe_dump({**places, "providers": {"local": dict(provider)}, "agent": {"model": model}})  # pyright: ignore[reportUnknownMemberType]  # its stubs
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def _row(
    what: str,
    unit: str,
    found: Mapping[str, Sequence[Ran]],
    name: str,
    floor: str,
    pick: Callable[[Ran], float],
    *,
    most_over: float | None = None,
    most: float | None = None,
) -> Row:
    values = [pick(one) for one in found[name]]
    beside = {
        other.removeprefix(f"{name} "): middle([pick(one) for one in runs])
        for other, runs in found.items()
        if other.startswith(f"{name} ")
    }
    return Row(
        what=what,
        unit=unit,
        value=middle(values),
        spread=spread(values),
        floor=middle([pick(one) for one in found[floor]]),
        beside=beside,
        most_over=most_over,
        most=most,
    )


def _wall(one: Ran) -> float:
    return one.wall_ms


def _peak(one: Ran) -> float:
    return one.peak_mb
