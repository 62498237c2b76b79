"""What durability costs: the time of a Turn that waits for the disk, one that does not, and the disk's own share."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bench.rig import Instant, Meter, bot, turns
from bench.table import Row

TURNS = 100
BARRIERS = 2  # of a direct Turn without tools: the message in, the answer out


async def latency() -> Sequence[Row]:
    """Measure Turns with a model that answers at once."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # not /tmp, which may be memory
        fsync_ms = _fsync_ms(Path(folder) / "raw")
        waits = await _wall_ms(Path(folder) / "turn", "turn")
        off = await _wall_ms(Path(folder) / "off", "off")
    return [
        Row(what="a Turn that syncs (session.sync: turn)", unit="ms", value=waits, floor=off + BARRIERS * fsync_ms),
        Row(what="a Turn that does not (session.sync: off)", unit="ms", value=off),
        Row(what="a bare append and fsync", unit="ms", value=fsync_ms),
    ]


async def _wall_ms(folder: Path, sync: str) -> float:
    async with bot(folder, Instant(), sync=sync) as nanobot:
        await turns(nanobot, 5)
        meter = Meter()
        await turns(nanobot, TURNS)
        return meter.cost(TURNS).wall_ms


def _fsync_ms(path: Path) -> float:
    with path.open("ab", buffering=0) as file:
        began = perf_counter()
        for _ in range(TURNS):
            file.write(b"x" * 400 + b"\n")
            os.fsync(file.fileno())
        return (perf_counter() - began) * 1000 / TURNS
