"""The daemon with a Telegram bot: how soon it is there, what it holds and does while idle, and how soon it answers."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import yaml

from bench.botapi import TOKEN, BotApi, bot_api
from bench.contest import ROOT, quick_server
from bench.process import cpu_ms, memory_mb, switches
from bench.table import Row, middle, spread

_SETTLE_S = 5.0  # the SDK is loaded meanwhile
_IDLE_S = 10.0
_ALONE = 60
_USERS = 20
_TURNS = 15
_IMPORTS = "import nanobot.app, nanobot.gateway.daemon, nanobot.channels.telegram.channel, telegram, openai"


async def daemon() -> Sequence[Row]:
    """Measure it."""
    rows: list[Row] = []
    starts: list[float] = []
    async with quick_server() as url, bot_api() as api:
        for _ in range(4):
            async with gateway(url, api, starts):
                pass
        async with gateway(url, api, starts) as pid:
            rows += [
                Row(
                    what="gateway: start to first poll",
                    unit="ms",
                    value=middle(starts),
                    spread=spread(starts),
                    most=800,
                ),
                Row(what="  memory before the first Turn", unit="MB", value=memory_mb(pid), most=60),
                *await _idle(pid),
            ]
            await api.ask(1, "warm up")
            await _alone(api, 5)
            rows.append(
                Row(
                    what="  memory after Turns, floor: the bare imports",
                    unit="MB",
                    value=memory_mb(pid),
                    floor=_imports_mb(),
                    most_over=10,
                )
            )
            rows += [*await _latency(api, pid), *await _crowd(api, pid)]
    return rows


async def _idle(pid: int) -> Sequence[Row]:
    await asyncio.sleep(_SETTLE_S)  # another process has no event for being idle
    before, used = switches(pid), cpu_ms(pid)
    await asyncio.sleep(_IDLE_S)  # what is measured is what happens meanwhile
    return [
        Row(what="  wake-ups while idle", unit="1/s", value=(switches(pid) - before) / _IDLE_S),
        Row(what="  CPU while idle", unit="ms/s", value=(cpu_ms(pid) - used) / _IDLE_S),
    ]


async def _alone(api: BotApi, count: int) -> list[float]:
    return [await api.ask(1, f"What do you make of it? {number}") for number in range(count)]


async def _latency(api: BotApi, pid: int) -> Sequence[Row]:
    used = cpu_ms(pid)
    taken = await _alone(api, _ALONE)
    spent = (cpu_ms(pid) - used) / _ALONE
    return [
        Row(what="Telegram text, update to answer", unit="ms", value=middle(taken), spread=spread(taken), most=15),
        Row(what="  CPU of the daemon", unit="ms", value=spent),
    ]


async def _crowd(api: BotApi, pid: int) -> Sequence[Row]:
    """Have users write at once, each again as soon as the answer is there."""

    async def user(chat: int) -> list[float]:
        return [await api.ask(chat, f"What do you make of it? {number}") for number in range(_TURNS)]

    await asyncio.gather(*(api.ask(100 + number, "hello") for number in range(_USERS)))
    used, began = cpu_ms(pid), perf_counter()
    taken = await asyncio.gather(*(user(100 + number) for number in range(_USERS)))
    wall, count = perf_counter() - began, _USERS * _TURNS
    return [
        Row(what=f"{_USERS} Telegram users at once, Turns a second", unit="1/s", value=count / wall, least=150),
        Row(what="  median of a Turn", unit="ms", value=middle([one for all_of in taken for one in all_of])),
        Row(what="  CPU of the daemon, a Turn", unit="ms", value=(cpu_ms(pid) - used) / count),
    ]


@asynccontextmanager
async def gateway(url: str, api: BotApi, starts: list[float]) -> AsyncGenerator[int]:
    """Run the daemon until its first poll; note how long that took; yield its pid."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(yaml.safe_dump(_config(Path(folder), url, api.url)))  # pyright: ignore[reportUnknownMemberType]  # its stubs
        config.chmod(0o600)
        api.polled.clear()
        began = perf_counter()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nanobot", "gateway", "--config", str(config)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8"},
        )
        try:
            async with asyncio.timeout(30):
                await api.polled.wait()
            starts.append((perf_counter() - began) * 1000)
            yield process.pid
        finally:
            process.terminate()
            await process.wait()


def _config(folder: Path, url: str, bot_url: str) -> dict[str, object]:
    return {
        "workspace": str(folder / "workspace"),
        "data_dir": str(folder / "data"),
        "providers": {"local": {"type": "openai", "api_key": "k", "base_url": f"{url}/v1"}},
        "agent": {"model": "local/bench"},
        "channels": {
            "telegram": {"type": "telegram", "token": TOKEN, "allow_from": [1, *range(100, 120)], "base_url": bot_url}
        },
    }


def _imports_mb() -> float:
    """Return what a Python holds that has only imported what the daemon needs."""
    script = f"{_IMPORTS}\nprint(next(x.split()[1] for x in open('/proc/self/status') if x.startswith('VmRSS')))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    return int(done.stdout) / 1024
