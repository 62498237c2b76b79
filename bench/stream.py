"""A streamed answer of many pieces: what a piece costs, the last as the first, and how soon it is on its way to the chat."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

from bench.botapi import bot_api
from bench.contest import ROOT, quick_server
from bench.contestants.driver import Job
from bench.contestants.ours import opened
from bench.gateway import gateway
from bench.process import cpu_ms
from bench.table import Row, middle, spread

_SHORT, _LONG = 1_000, 10_000
_REPEATS = 5


async def deltas() -> Sequence[Row]:
    """Measure answers of 1,000 and of 10,000 pieces, through ``process_direct`` and to Telegram."""
    async with quick_server() as url:
        short, long = await _costs(url, _SHORT), await _costs(url, _LONG)
        least, each = min(short), [(all_of - min(short)) * 1000 / (_LONG - _SHORT) for all_of in long]
        first = least * 1000 / _SHORT
        rows = [
            Row(
                what=f"a piece of an answer of {_LONG:,}, CPU, floor: the first {_SHORT:,}",
                unit="µs",
                value=middle(each),
                spread=spread(each),
                floor=first,
                most=50,
                most_times=1.3,
            )
        ]
        async with bot_api() as api, gateway(url, api, []) as pid:
            await api.ask(1, "warm up")
            used = cpu_ms(pid)
            await api.ask(1, f"[bench deltas={_LONG}] 1")
            await asyncio.sleep(2)  # the rest of the answer, in further messages
            piece = (cpu_ms(pid) - used) * 1000 / _LONG
        rows.append(Row(what="  and to Telegram, drafts included", unit="µs", value=piece))
    return rows


async def _costs(url: str, count: int) -> list[float]:
    """Return what an answer of so many pieces costs, several times, in ms of CPU."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        (Path(folder) / "workspace").mkdir()
        async with opened(Job(url=url, folder=folder)) as turn:
            await turn("s0", "warm up")
            taken: list[float] = []
            for number in range(_REPEATS):
                began = process_time()
                await turn(f"s{number + 1}", f"[bench deltas={count}] {number}")
                taken.append((process_time() - began) * 1000)
            return taken
