"""What durability costs: what a Turn that waits for the disk takes longer than one that does not, however long the session is."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.history import seed
from bench.rig import KEY, Instant, bot, turns
from bench.table import Row

LONG = 10_000
TURNS = 100
SHORT = 10
MOST_OVER_MS = 2.0


async def latency() -> Sequence[Row]:
    """Measure Turns with a model that answers at once, after few messages and after many; medians."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # not /tmp, which may be memory
        for messages in (SHORT, LONG):
            synced = await _median_ms(Path(folder) / f"turn-{messages}", "turn", messages)
            off = await _median_ms(Path(folder) / f"off-{messages}", "off", messages)
            what = f"a Turn after {messages} messages, session.sync: turn over off"
            rows.append(Row(what=what, unit="ms", value=synced, floor=off, most_over=MOST_OVER_MS))
        rows.append(
            Row(
                what="  a bare append and fsync (a Turn waits for two)",
                unit="ms",
                value=_fsync_ms(Path(folder) / "raw"),
            )
        )
    return rows


async def _median_ms(folder: Path, sync: str, messages: int) -> float:
    await seed(folder / "data", messages, key=KEY)
    async with bot(folder, Instant(), sync=sync) as nanobot:
        await turns(nanobot, 5)
        taken: list[float] = []
        for _ in range(TURNS):
            began = perf_counter()
            await turns(nanobot, 1)
            taken.append((perf_counter() - began) * 1000)
        return median(taken)


def _fsync_ms(path: Path) -> float:
    taken: list[float] = []
    with path.open("ab", buffering=0) as file:
        for _ in range(TURNS):
            began = perf_counter()
            file.write(b"x" * 400 + b"\n")
            os.fsync(file.fileno())
            taken.append((perf_counter() - began) * 1000)
    return median(taken)
