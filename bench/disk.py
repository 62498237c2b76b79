"""What lies on disk: many idle sessions, a long session to be read, and many to be gone on with after a kill."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from bench.contest import ROOT
from bench.history import seed
from bench.process import ran
from bench.rig import Instant, bot, turns
from bench.table import Row, middle, spread
from nanobot.bus.events import InboundMessage, Route
from nanobot.bus.runtime_events import RuntimeEvent, TurnFinished
from nanobot.messages import AssistantMessage, user_text
from nanobot.session.codec import to_line
from nanobot.session.entries import Finished, Started, Step
from nanobot.session.files import Layout
from nanobot.session.jsonl import JsonlStore
from nanobot.session.repair import header_line
from nanobot.session.settings import SessionSettings

_IDLE = 100_000
_UNFINISHED = 1_000
_OPEN = """\
import asyncio, sys
from pathlib import Path
from nanobot import Nanobot
from nanobot.config.settings import Settings

async def main():
    folder = Path(sys.argv[1])
    async with Nanobot(Settings(workspace=folder / "workspace", data_dir=folder / "data")) as bot:
        await bot.process_direct("hello")

asyncio.run(main())
"""


async def idle_sessions() -> Sequence[Row]:
    """Compare a start, a Turn and an end beside 100,000 idle sessions with the same beside none; and list them."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        empty, full = Path(folder) / "empty", Path(folder) / "full"
        for place in (empty, full):
            (place / "data").mkdir(parents=True)
        await asyncio.to_thread(_lay_out, full / "data", _IDLE)
        none = [ran((sys.executable, "-c", _OPEN, str(empty))) for _ in range(5)]
        some = [ran((sys.executable, "-c", _OPEN, str(full))) for _ in range(5)]
        listing, bare = await _listed(full / "data")
    walls = [one.wall_ms for one in some]
    return [
        Row(
            what=f"start, a Turn and end beside {_IDLE:,} sessions, floor: none",
            unit="ms",
            value=middle(walls),
            spread=spread(walls),
            floor=middle([one.wall_ms for one in none]),
            most_times=1.3,
        ),
        Row(
            what="  peak memory",
            unit="MB",
            value=middle([one.peak_mb for one in some]),
            floor=middle([one.peak_mb for one in none]),
            most_over=5,
        ),
        Row(what="  list all keys, floor: the directory alone", unit="ms", value=listing, floor=bare),
    ]


async def restore() -> Sequence[Row]:
    """Measure the first Turn after a restart, in a short session and in long ones, and the restart of many unfinished Turns."""
    rows: list[Row] = []
    short = 0.0
    for messages in (10, 10_000, 100_000):
        taken = [await _first_turn(messages) for _ in range(3)]
        short = short or middle(taken)
        what = f"first Turn after a restart, {messages:,} messages never summarized"
        rows.append(Row(what=what, unit="ms", value=middle(taken), spread=spread(taken), floor=short))
    return [*rows, await _many_unfinished()]


def _lay_out(data_dir: Path, count: int) -> None:
    at = Layout(data_dir)
    at.sessions.mkdir(parents=True)
    for number in range(count):
        key = f"telegram:{number}"
        began = Started(id="e1", turn="t1", inbound=(f"{key}:1",), message=user_text("hello", entry="e1"))
        said = Step(id="e2", turn="t1", message=AssistantMessage("hello yourself", entry="e2"), finish="stop")
        lines = [to_line(one) for one in (began, said, Finished(id="e3", turn="t1", answer="e2", iterations=1))]
        at.log(key).write_bytes(header_line(key, datetime.now(UTC)) + b"".join(lines))


async def _listed(data_dir: Path) -> tuple[float, float]:
    """Return how long the keys take, and how long the bare directory takes, in ms."""
    store = JsonlStore(data_dir, settings=SessionSettings(sync="off"), owner="benchmark")
    began = perf_counter()
    keys = await store.keys()
    ours = (perf_counter() - began) * 1000
    assert len(keys) >= _IDLE
    began = perf_counter()
    for path in Layout(data_dir).sessions.iterdir():
        with path.open("rb") as file:
            file.readline()
    await store.close()
    return ours, (perf_counter() - began) * 1000


async def _first_turn(messages: int) -> float:
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        await seed(Path(folder) / "data", messages, key="bench:1")
        async with bot(Path(folder), Instant()) as nanobot:
            began = perf_counter()
            await turns(nanobot, 1)
            return (perf_counter() - began) * 1000


async def _many_unfinished() -> Row:
    """Accept messages without working on them, as before a kill; then measure until all are answered."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        async with bot(Path(folder), Instant()) as nanobot:
            kept: list[Awaitable[object]] = [nanobot.accept(_message(number)) for number in range(_UNFINISHED)]
            await asyncio.gather(*kept)
        async with bot(Path(folder), Instant()) as nanobot:
            answered, all_are = set[str](), asyncio.Event()

            def note(event: RuntimeEvent) -> None:
                if isinstance(event, TurnFinished):
                    answered.add(event.session_key)
                    if len(answered) == _UNFINISHED:
                        all_are.set()

            nanobot.events.observe(note)
            began = perf_counter()
            await nanobot.loop.recover()
            async with asyncio.timeout(120):
                await all_are.wait()
            taken = (perf_counter() - began) * 1000
        return Row(
            what=f"restart with {_UNFINISHED:,} unanswered chats, until all are answered", unit="ms", value=taken
        )


def _message(number: int) -> InboundMessage:
    return InboundMessage(
        id=f"bench:{number}:1",
        session_key=f"bench:{number}",
        text="hello",
        sender="1",
        role="owner",
        route=Route(channel="bench", chat=str(number)),
        at=datetime.now(UTC),
    )
