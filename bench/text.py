"""A Turn of text, over the bare SDK call that carries the same request: in a new session, and after 10,000 messages."""

import asyncio
import tempfile
from collections.abc import Awaitable, Sequence
from pathlib import Path

from bench.rig import KEY, Bare, Cost, Meter, Recording, WireName, best, bot, model_server, sends, turns, wire_pair
from bench.table import Row
from nanobot.app import Nanobot
from nanobot.messages import AssistantMessage, user_text
from nanobot.session.entries import Entry, EntryId, Finished, Started, Step
from nanobot.session.jsonl import JsonlStore
from nanobot.session.manager import SessionManager
from nanobot.session.settings import SessionSettings

ROUNDS = 5
TURNS = 40
WIRES: tuple[WireName, ...] = ("anthropic", "openai")
LONG = 10_000
_AT = "2026-11-30T12:00:00+00:00"


async def short_session() -> Sequence[Row]:
    """Measure Turns of a young session, on each wire."""
    rows: list[Row] = []
    async with model_server() as url:
        for wire in WIRES:
            with tempfile.TemporaryDirectory() as folder:
                provider, bare = wire_pair(wire, url)
                async with bot(Path(folder), provider) as nanobot:
                    await turns(nanobot, 3)  # the first imports the SDK
                    ours, floor = await _compare(nanobot, provider, bare, turns_a_round=TURNS)
                await bare.close()
            rows += _rows(f"text Turn, {wire}", ours, floor, most_over_ms=2.0)
    return rows


async def long_session() -> Sequence[Row]:
    """Measure Turns of a session that holds 10,000 messages, on each wire."""
    rows: list[Row] = []
    async with model_server() as url:
        for wire in WIRES:
            with tempfile.TemporaryDirectory() as folder:
                await seed(Path(folder) / "data", LONG)
                provider, bare = wire_pair(wire, url)
                async with bot(Path(folder), provider) as nanobot:
                    meter = Meter()
                    await turns(nanobot, 1)
                    first = meter.cost(1)
                    before = _bytes(folder)
                    ours, floor = await _compare(nanobot, provider, bare, turns_a_round=4)
                    written = (_bytes(folder) - before) / (4 * ROUNDS)
                await bare.close()
            rows += _rows(f"text Turn after {LONG} messages, {wire}", ours, floor)
            rows.append(
                Row(what="  the first one after a restart, with all it loads", unit="ms cpu", value=first.cpu_ms)
            )
            rows.append(Row(what="  bytes written", unit="bytes", value=written))
    return rows


async def _compare(nanobot: Nanobot, provider: Recording, bare: Bare, *, turns_a_round: int) -> tuple[Cost, Cost]:
    """Return the cheapest round of Turns, and the cheapest round of the same requests without us."""
    ours: list[Cost] = []
    floors: list[Cost] = []
    for _ in range(ROUNDS):
        provider.requests.clear()
        meter = Meter()
        await turns(nanobot, turns_a_round)
        ours.append(meter.cost(turns_a_round))
        bodies = [bare.body(request) for request in provider.requests]
        meter = Meter()
        await sends(bare, bodies)
        floors.append(meter.cost(turns_a_round))
    return best(ours), best(floors)


def _rows(what: str, ours: Cost, floor: Cost, *, most_over_ms: float | None = None) -> list[Row]:
    return [
        Row(what=what, unit="ms cpu", value=ours.cpu_ms, floor=floor.cpu_ms, most_over=most_over_ms),
        Row(what="  on the wall", unit="ms", value=ours.wall_ms, floor=floor.wall_ms),
    ]


async def seed(data_dir: Path, messages: int) -> None:
    """Write a session's log as if it had been talked in."""
    store = JsonlStore(data_dir, settings=SessionSettings(sync="off"), owner="benchmark")
    manager = SessionManager(store, owner="benchmark")
    async with manager.open(KEY) as session:
        await session.restore()
        written: list[Awaitable[None]] = []
        for turn in range(messages // 2):
            asked, said, end = (session.log.new_id() for _ in range(3))
            written = [session.append(entry) for entry in _turn(f"t{turn + 1}", asked, said, end)]
        await asyncio.gather(*written)
    await manager.close()
    await store.close()


def _turn(turn: str, asked: EntryId, said: EntryId, end: EntryId) -> list[Entry]:
    question = user_text(f"Question {turn}: what do you make of it?\n\n[2026-11-30 12:00 +00:00 · bench]", entry=asked)
    answer = AssistantMessage(f"About {turn} I would say that it is what it is, all things considered.", entry=said)
    return [
        Started(id=asked, turn=turn, inbound=(f"direct:{turn}",), message=question, at=_AT),
        Step(id=said, turn=turn, message=answer, finish="stop"),
        Finished(id=end, turn=turn, iterations=1, answer=said),
    ]


def _bytes(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
