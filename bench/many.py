"""Many sessions at once: Turns a second, over the bare SDK with as many requests in flight."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.rig import Cost, Meter, best, bot, model_server, sends, turns, wire_pair
from bench.table import Row

SESSIONS = 50
TURNS = 4
ROUNDS = 3


async def sessions_at_once() -> Sequence[Row]:
    """Measure 50 sessions of 4 Turns each, and the same requests without us; the best of three rounds counts."""
    ours: list[Cost] = []
    floors: list[Cost] = []
    async with model_server() as url:
        with tempfile.TemporaryDirectory() as folder:
            provider, bare = wire_pair("openai", url)
            async with bot(Path(folder), provider, concurrency=SESSIONS) as nanobot:
                await turns(nanobot, 1)
                for _ in range(ROUNDS):
                    provider.requests.clear()
                    meter = Meter()
                    await asyncio.gather(*(turns(nanobot, TURNS, key=f"bench:{n}") for n in range(SESSIONS)))
                    ours.append(meter.cost(SESSIONS * TURNS))
                    bodies = [bare.body(request) for request in provider.requests]
                    meter = Meter()
                    await asyncio.gather(*(sends(bare, bodies[n::SESSIONS]) for n in range(SESSIONS)))
                    floors.append(meter.cost(SESSIONS * TURNS))
            await bare.close()
    return _rows(best(ours), best(floors))


def _rows(ours: Cost, floor: Cost) -> Sequence[Row]:
    return [
        Row(what=f"{SESSIONS} sessions at once", unit="turns/s", value=1000 / ours.wall_ms, floor=1000 / floor.wall_ms),
        Row(what="  a Turn", unit="ms cpu", value=ours.cpu_ms, floor=floor.cpu_ms),
    ]
