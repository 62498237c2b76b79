"""The writer: what an append costs, whom it holds up, how often it syncs, and what it does while the disk refuses."""

import asyncio
import errno
import gc
import shutil
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.bus.events import Accepted, InboundMessage
from nanobot.errors import DiskRefused, SessionBusy, StaleClaim
from nanobot.messages import AssistantMessage
from nanobot.session.entries import Finished, Step
from nanobot.session.files import Layout
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from tests.fakes.disk import FaultyDisk

KEY = "cli:direct"
MakeStore = Callable[..., JsonlStore]


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
async def make_store(tmp_path: Path, disk: FaultyDisk) -> AsyncIterator[MakeStore]:
    """Yield a function that makes a store with the given settings; all are closed in the end."""
    made: list[JsonlStore] = []

    def make(owner: str = "one", **settings: object) -> JsonlStore:
        values = {"retry_s": 0.02, "close_timeout_s": 0.5, **settings}
        made.append(JsonlStore(tmp_path, settings=SessionSettings.model_validate(values), owner=owner, disk=disk))
        return made[-1]

    yield make
    disk.gate.set()
    disk.heal()
    for store in made:
        await store.close()


def message(number: int) -> InboundMessage:
    return InboundMessage(id=f"m{number}", session_key=KEY, sender="me", text="hi", at=datetime.now(UTC))


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(400):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never happened")


async def ids(root: Path) -> list[str]:
    store = JsonlStore(root, settings=SessionSettings(), owner="reader")
    found = [entry.id for entry in reversed(await store.read(KEY, before=None, limit=10_000))]
    await store.close()
    return found


@pytest.mark.parametrize(("mode", "expected"), [("off", 0), ("turn", 1), ("always", 3)])
async def test_a19_each_mode_syncs_what_it_says(
    make_store: MakeStore, disk: FaultyDisk, mode: str, expected: int
) -> None:
    """``always`` syncs every entry, ``turn`` those that ask for it, ``off`` none."""
    store = make_store(sync=mode)
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    before = disk.calls["fsync"]
    await store.append(claim, Finished(id="e1"), sync=False)
    await store.append(claim, Finished(id="e2"), sync=False)
    await store.append(claim, Finished(id="e3"), sync=True)

    assert disk.calls["fsync"] - before == expected
    assert mode != "off" or disk.calls["fsync"] <= 3  # folders made, and nothing else


async def test_waiting_for_written_does_not_wait_for_a_sync(make_store: MakeStore, disk: FaultyDisk) -> None:
    """An append without ``sync`` is done when written, though the disk is busy syncing what came before."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    disk.gate.clear()
    slow = asyncio.ensure_future(store.append(claim, Finished(id="e1"), sync=True))
    async with asyncio.timeout(5):
        await store.append(claim, Finished(id="e2"), sync=False)
    done_early = slow.done()
    disk.gate.set()
    await slow

    assert not done_early


async def test_c17_a_hanging_disk_stops_neither_the_loop_nor_other_sessions(
    make_store: MakeStore, disk: FaultyDisk
) -> None:
    """While one session's sync hangs, the loop runs and other sessions are opened and written."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    disk.gate.clear()
    hanging = asyncio.ensure_future(store.append(claim, Finished(id="e1"), sync=True))
    gaps: list[float] = []
    for n in range(20):
        start = time.perf_counter()
        await asyncio.sleep(0.001)
        gaps.append(time.perf_counter() - start)
        store.append(claim, Finished(id=f"e{n + 2}"), sync=False)
    other = await store.claim("cli:other", "loop")
    async with asyncio.timeout(5):
        await store.append(other, Finished(id="e1"), sync=False)
    still_hanging = not hanging.done()
    disk.gate.set()
    await hanging

    assert still_hanging
    assert max(gaps) < 0.1


async def test_syncs_of_one_log_are_joined(make_store: MakeStore, disk: FaultyDisk) -> None:
    """Those who ask while a sync runs share the next one."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    before = disk.calls["fsync"]
    disk.gate.clear()
    waits = [store.append(claim, Finished(id="e1"), sync=True)]
    await until(lambda: disk.calls["fsync"] > before)
    waits += [store.append(claim, Finished(id=f"e{n}"), sync=True) for n in range(2, 50)]
    disk.gate.set()
    await asyncio.gather(*waits)

    assert disk.calls["fsync"] - before == 2


async def test_an_append_nobody_waits_for_is_cheap(make_store: MakeStore) -> None:
    """Queueing an entry costs the loop microseconds, whatever the disk does."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    entry = Step(id="e1", turn="t1", message=AssistantMessage("x" * 200))
    best = 1.0
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(200):
            store.append(claim, entry, sync=False)
        best = min(best, (time.perf_counter() - start) / 200)
        await store.append(claim, entry, sync=False)

    assert best < 100e-6  # about 6 µs on the machine this was written on; a wide margin for busy ones


def step(number: int) -> Step:
    return Step(id=f"e{number}", turn="t1", message=AssistantMessage("ok"))


async def test_a_turns_steps_are_one_write(make_store: MakeStore, disk: FaultyDisk, tmp_path: Path) -> None:
    """Lines that nobody waits for go out with the first line that somebody waits for, in their order."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    before = disk.calls["write"]

    for number in range(1, 6):
        store.append(claim, step(number), sync=False)
    await store.append(claim, Finished(id="e6"), sync=True)

    assert disk.calls["write"] == before + 1
    assert await ids(tmp_path) == [f"e{number}" for number in range(7)]


async def test_a_step_that_nobody_waits_for_is_written_soon(make_store: MakeStore, disk: FaultyDisk) -> None:
    """It lingers for a moment, and no longer."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    before = disk.calls["write"]

    store.append(claim, step(1), sync=False)

    await until(lambda: disk.calls["write"] == before + 1)


async def test_who_waits_for_a_step_is_not_kept_waiting(make_store: MakeStore) -> None:
    """Waiting for a line hurries it: a hundred take less time than a hundred lines would linger."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    begin = time.monotonic()

    for number in range(1, 101):
        await store.append(claim, step(number), sync=False)

    assert time.monotonic() - begin < 0.7


async def test_a_hundred_chats_at_once(make_store: MakeStore, disk: FaultyDisk) -> None:
    """A hundred synced appends at once take far less than a hundred syncs one after the other would."""
    store = make_store()
    claims = [await store.claim(f"cli:{n}", "loop") for n in range(100)]
    await asyncio.gather(*(store.append(claim, Finished(id="e0"), sync=True) for claim in claims))
    best = 9.0
    for round_number in range(3):
        start = time.perf_counter()
        entry = Finished(id=f"e{round_number + 1}")
        await asyncio.gather(*(store.append(claim, entry, sync=True) for claim in claims))
        best = min(best, time.perf_counter() - start)

    assert best < 0.5  # 7 ms on the machine this was written on, of which 5 ms were the disk's


async def test_a_retry_timer_recovers_without_anybody_asking(
    make_store: MakeStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """When the disk recovers, what waited in memory is written although nothing new is appended."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    disk.refuse(errno.ENOSPC, "write")
    for n in range(10):
        store.append(claim, Finished(id=f"e{n}"), sync=n == 9)
    await until(lambda: store.refusing(KEY) is not None)
    why = store.refusing(KEY)
    disk.heal()
    await until(lambda: store.refusing(KEY) is None)

    assert why is not None
    assert "No space left on device" in why
    assert await ids(tmp_path) == [f"e{n}" for n in range(10)]


async def test_a_sync_that_fails_for_long_does_not_fill_the_disk(
    make_store: MakeStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """Lines are written again for each new try, but the file holds no more than two copies of them."""
    store = make_store(retry_s=0.005)
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    disk.refuse(errno.EIO, "fsync")
    with pytest.raises(DiskRefused, match="Input/output error"):
        await store.append(claim, Finished(id="e1", content="x" * 1000), sync=True)
    before = disk.calls["fsync"]
    await until(lambda: disk.calls["fsync"] > before + 10)
    size = Layout(tmp_path).log(KEY).stat().st_size
    disk.heal()
    await until(lambda: store.refusing(KEY) is None)

    assert size < 3500
    assert await ids(tmp_path) == ["e0", "e1"]


async def test_one_failed_sync_is_mended_unseen(make_store: MakeStore, disk: FaultyDisk, tmp_path: Path) -> None:
    """After one failed sync the lines are written again to a reopened file, and the waiter learns of success only."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e0"), sync=True)
    opens = disk.calls["open"]
    disk.fail("fsync", 1)
    store.append(claim, Finished(id="e1"), sync=False)
    await store.append(claim, Finished(id="e2"), sync=True)

    assert disk.calls["open"] == opens + 1
    assert Layout(tmp_path).log(KEY).read_bytes().count(b'"e2"') == 2
    assert await ids(tmp_path) == ["e0", "e1", "e2"]


async def test_memory_is_bounded_and_leaves_no_gap(make_store: MakeStore, disk: FaultyDisk, tmp_path: Path) -> None:
    """Past the limit entries are refused for good, and so are those behind them, until what is kept was written."""
    store = make_store(unsaved_max_bytes=2000)
    claim = await store.claim(KEY, "loop")
    disk.refuse(errno.ENOSPC, "write")
    kept = store.append(claim, Finished(id="e1", content="x" * 1000), sync=False)
    await until(lambda: store.refusing(KEY) is not None)
    dropped = store.append(claim, Finished(id="e2", content="x" * 1000), sync=False)
    behind = store.append(claim, Finished(id="e3"), sync=False)
    for outcome in (kept, dropped, behind):
        with pytest.raises(DiskRefused):
            await outcome
    with pytest.raises(DiskRefused):
        await store.accept(KEY, message(1))
    disk.heal()
    await until(lambda: store.refusing(KEY) is None)
    again = await store.accept(KEY, message(1))

    assert again == Accepted()
    assert await ids(tmp_path) == ["e1", "m1"]
    with pytest.raises(DiskRefused):
        await dropped


async def test_a_read_only_disk_still_shows_what_it_has(
    make_store: MakeStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """A session can be claimed, read and run from memory while nothing can be written, and is kept afterwards."""
    first = make_store()
    claim = await first.claim(KEY, "loop")
    await first.append(claim, Finished(id="e1"), sync=True)
    await first.close()
    shutil.rmtree(Layout(tmp_path).locks)
    disk.refuse(errno.EROFS, "open", "write", "mkdir", "fsync", "truncate")
    store = make_store()
    claim = await store.claim(KEY, "loop")
    with pytest.raises(DiskRefused, match="Read-only file system"):
        await store.append(claim, Finished(id="e2"), sync=True)
    disk.heal()
    await store.append(claim, Finished(id="e3"), sync=True)

    assert [entry.id for entry in claim.entries] == ["e1"]
    assert "Read-only" in claim.reports[0]
    assert await ids(tmp_path) == ["e1", "e2", "e3"]


async def test_who_could_not_lock_gives_way_to_who_could(
    make_store: MakeStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """A session claimed while the disk took no lock file loses to a process that took the lock meanwhile."""
    disk.refuse(errno.EROFS, "open", "mkdir")
    store = make_store()
    claim = await store.claim(KEY, "loop")
    disk.heal()
    other = make_store("other")
    theirs = await other.claim(KEY, "other")
    await other.append(theirs, Finished(id="e1"), sync=True)
    with pytest.raises(StaleClaim):
        await store.append(claim, Finished(id="e2"), sync=True)
    with pytest.raises(StaleClaim):
        await store.renew(claim)
    await store.release(claim)
    with pytest.raises(SessionBusy):
        await store.claim(KEY, "loop")

    assert await ids(tmp_path) == ["e1"]


async def test_who_could_not_lock_does_not_write_over_what_came_meanwhile(
    make_store: MakeStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """The same when the other process is gone again: what was read at the claim is no longer the log."""
    disk.refuse(errno.EROFS, "open", "mkdir")
    claim = await (store := make_store()).claim(KEY, "loop")
    disk.heal()
    other = make_store("other")
    await other.append(await other.claim(KEY, "other"), Finished(id="e1"), sync=True)
    await other.close()
    with pytest.raises(StaleClaim):
        await store.append(claim, Finished(id="e1", content="another"), sync=True)
    await store.release(claim)
    again = await store.claim(KEY, "loop")

    assert list(again.entries) == [Finished(id="e1")]


async def test_a_long_backlog_is_written_to_its_end(make_store: MakeStore, disk: FaultyDisk, tmp_path: Path) -> None:
    """What waits is written block by block until nothing waits."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    disk.refuse(errno.ENOSPC, "write")
    for n in range(6):
        store.append(claim, Finished(id=f"e{n}", content="x" * 700_000), sync=False)
    await until(lambda: store.refusing(KEY) is not None)
    disk.heal()
    found: list[str] = []
    for _ in range(200):
        if len(found := await ids(tmp_path)) == 6:
            break
        await asyncio.sleep(0.01)

    assert found == [f"e{n}" for n in range(6)]


async def test_a_healthy_disk_takes_a_line_of_any_size(make_store: MakeStore) -> None:
    """The limit is for what a refusing disk leaves in memory; a line above it is not dropped as if the disk were full."""
    store = make_store(unsaved_max_bytes=2000)
    claim = await store.claim(KEY, "loop")
    store.append(claim, Finished(id="e1", content="small"), sync=False)
    await store.append(claim, Finished(id="e2", content="x" * 50_000), sync=True)
    await store.append(claim, Finished(id="e3", content="after"), sync=True)

    assert [entry.id for entry in await store.read(KEY, before=None, limit=9)] == ["e3", "e2", "e1"]


async def test_much_unsynced_is_synced_unasked_and_insisted_on(make_store: MakeStore, disk: FaultyDisk) -> None:
    """Memory holds a few MB of unsynced lines of a log at most, and a sync for that reason is tried until it succeeds."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e"), sync=True)
    disk.refuse(errno.EIO, "fsync")
    for n in range(7):
        store.append(claim, Finished(id=f"e{n}", content="x" * 700_000), sync=False)
    await until(lambda: store.refusing(KEY) is not None)
    disk.heal()

    await until(lambda: store.refusing(KEY) is None)


async def test_two_torn_writes_cost_nothing_before_them(
    make_store: MakeStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """After a torn write that could not be cut off, cutting off the next one takes nothing else with it."""
    store = make_store(sync="off")
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e1"), sync=False)
    disk.short_writes = True
    for fails_too in ("truncate", None):
        disk.fail("write", 2, errno.ENOSPC)
        if fails_too:
            disk.fail(fails_too, 1)
        with pytest.raises(DiskRefused):
            await store.append(claim, Finished(id=f"e2{fails_too}"), sync=False)
        await until(lambda: store.refusing(KEY) is None)
        await store.append(claim, Finished(id=f"e3{fails_too}"), sync=False)

    assert await ids(tmp_path) == ["e1", "e2truncate", "e3truncate", "e2None", "e3None"]


async def test_a_log_removed_behind_our_back_is_brought_back(make_store: MakeStore, tmp_path: Path) -> None:
    """When the data directory vanishes under an open log, the next entry finds it again, with all that came before."""
    store = make_store()
    await store.accept(KEY, message(1))
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e1"), sync=True)
    shutil.rmtree(tmp_path / "sessions")
    shutil.rmtree(tmp_path / "open")
    await store.accept(KEY, message(2))

    assert await ids(tmp_path) == ["m1", "e1", "m2"]
    assert list(await store.unfinished()) == [KEY]


async def test_errors_that_nobody_looks_at_stay_silent(
    make_store: MakeStore, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """An append that fails and is never awaited makes no noise in the event loop, and neither do cancelled waiters."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    store = make_store()
    claim = await store.claim(KEY, "loop")
    disk.refuse(errno.ENOSPC, "write")
    store.append(claim, Finished(id="e1"), sync=True)
    accepting = asyncio.create_task(store.accept(KEY, message(1)))
    releasing = asyncio.create_task(store.release(claim))
    await asyncio.sleep(0)
    accepting.cancel()
    releasing.cancel()
    await asyncio.wait([accepting, releasing])
    await until(lambda: store.refusing(KEY) is not None)
    await asyncio.sleep(0.03)
    gc.collect()

    assert complaints == []


async def test_a_cancelled_accept_may_be_repeated(make_store: MakeStore, disk: FaultyDisk, tmp_path: Path) -> None:
    """A channel cancelled before it was told asks again, and is told that the message is accepted."""
    store = make_store()
    await store.claim(KEY, "loop")
    disk.gate.clear()
    first = asyncio.create_task(store.accept(KEY, message(1)))
    await asyncio.sleep(0.02)
    first.cancel()
    await asyncio.wait([first])
    disk.gate.set()

    assert await store.accept(KEY, message(1)) == Accepted()
    assert await ids(tmp_path) == ["m1"]


async def test_a_cancelled_claim_leaves_the_session_usable(make_store: MakeStore) -> None:
    """Whoever gives up waiting for a claim keeps nobody else from it."""
    store = make_store()
    first = asyncio.create_task(store.claim(KEY, "impatient"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e1"), sync=False)

    assert claim.owner == "loop"


async def test_close_is_bounded_on_a_hanging_disk(make_store: MakeStore, disk: FaultyDisk) -> None:
    """A shutdown waits for the disk as long as the setting says, and no longer."""
    store = make_store(close_timeout_s=0.05)
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e1"), sync=True)
    disk.gate.clear()
    store.append(claim, Finished(id="e2"), sync=True)
    start = time.perf_counter()
    await store.close()

    assert time.perf_counter() - start < 1


async def test_close_writes_what_is_queued(make_store: MakeStore, tmp_path: Path) -> None:
    """Nothing that was appended before the shutdown is missing after it."""
    store = make_store()
    claim = await store.claim(KEY, "loop")
    for n in range(2000):
        store.append(claim, Finished(id=f"e{n}"), sync=False)
    await store.close()

    assert await ids(tmp_path) == [f"e{n}" for n in range(2000)]
