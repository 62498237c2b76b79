"""Every system call of the session store failing once, in every way that disks fail: nothing kept is lost, nothing is doubled."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from nanobot.bus.events import Accepted, Duplicate, InboundMessage
from nanobot.errors import DiskRefused
from nanobot.messages import user_text
from nanobot.session.entries import Cut, Entry, Finished, Started
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from tests.fakes.disk import FaultyDisk, PowerDisk

T = TypeVar("T")
KEY = "telegram:42"
MOST_CALLS = 200  # of one kind in the scenario; far more than there are
SETTINGS = SessionSettings(retry_s=0.01, close_timeout_s=3)


def inbound(number: int) -> InboundMessage:
    return InboundMessage(
        id=f"{KEY}:{number}", session_key=KEY, sender="42", text="hi", at=datetime(2026, 11, 30, tzinfo=UTC)
    )


def started(entry: str, number: int) -> Started:
    return Started(id=entry, turn="t1", inbound=(f"{KEY}:{number}",), message=user_text("hi", entry=entry))


EXPECTED: list[Entry] = [
    inbound(1),
    started("e1", 1),
    Cut(id="e2", pass_name="snip", at="e1"),
    inbound(2),
    Finished(id="e3", turn="t1", answer="e1"),
    started("e10", 2),
    Finished(id="e11", turn="t1"),
]


async def insist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Try until the disk takes it, as a channel or a Turn would; only an honest refusal is forgiven."""
    for _ in range(50):
        with suppress(DiskRefused):
            return await attempt()
        await asyncio.sleep(0.005)
    raise AssertionError("the disk never recovered")


async def scenario(store: JsonlStore) -> list[object]:
    """Live through two messages and a restart of the session; return what the accepts said."""
    said: list[object] = [await insist(lambda: store.accept(KEY, inbound(1)))]
    claim = await insist(lambda: store.claim(KEY, "loop"))
    store.append(claim, EXPECTED[1], sync=False)
    await insist(lambda: store.put_blob(claim, b"data"))
    store.append(claim, EXPECTED[2], sync=False)
    said.append(await insist(lambda: store.accept(KEY, inbound(2))))
    said.append(await insist(lambda: store.accept(KEY, inbound(2))))
    store.append(claim, EXPECTED[4], sync=True)
    await insist(lambda: store.release(claim))
    claim = await insist(lambda: store.claim(KEY, "loop"))
    store.append(claim, EXPECTED[5], sync=False)
    last = store.append(claim, EXPECTED[6], sync=True)
    await insist(lambda: _again(last))
    await insist(lambda: store.release(claim, settled=True))
    await store.close()
    return said


async def _again(outcome: Awaitable[None]) -> None:
    await outcome


async def left(root: Path) -> list[Entry]:
    store = JsonlStore(root, settings=SETTINGS, owner="after")
    try:
        claim = await store.claim(KEY, "after")
        assert claim.reports == []
        return list(claim.entries)
    finally:
        await store.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize(
    "op", ["open", "open_read", "write", "fsync", "truncate", "rename", "unlink", "mkdir", "pread"]
)
async def test_any_call_may_fail_once(tmp_path: Path, op: str, code: int) -> None:
    """Whichever call fails, every entry is in the log once, in order, and every message was accepted once."""
    for nth in range(1, MOST_CALLS):
        disk = FaultyDisk()
        disk.short_writes = nth % 2 == 0
        disk.fail(op, nth, code)
        root = tmp_path / str(nth)
        said = await scenario(JsonlStore(root, settings=SETTINGS, owner="one", disk=disk))

        assert await left(root) == EXPECTED, nth
        assert said == [Accepted(), Accepted(), Duplicate()], nth
        if not disk.hit:
            return
    raise AssertionError("the scenario makes more calls than expected")


@pytest.mark.parametrize("first", ["write", "fsync"])
async def test_a_failed_write_whose_cleaning_up_fails_too(tmp_path: Path, first: str) -> None:
    """When the torn bytes cannot be cut off, they stay one bad line, and the entries around them are whole."""
    for nth in range(1, MOST_CALLS):
        disk = FaultyDisk()
        disk.short_writes = True
        disk.fail(first, nth, errno.ENOSPC)
        disk.fail("truncate", 1, errno.EIO)
        root = tmp_path / str(nth)
        await scenario(JsonlStore(root, settings=SETTINGS, owner="one", disk=disk))
        store = JsonlStore(root, settings=SETTINGS, owner="after")
        entries = (await store.claim(KEY, "after")).entries
        await store.close()

        assert [entry for entry in entries if entry.__class__.__name__ != "Repaired"] == EXPECTED, nth
        if first not in disk.hit:
            return
    raise AssertionError("the scenario makes more calls than expected")


@pytest.mark.parametrize("mode", ["turn", "always"])
async def test_a19_what_was_promised_survives_a_power_cut(tmp_path: Path, mode: str) -> None:
    """Once an accept or a synced append returned, no power cut takes it back, also when any one sync before had failed."""
    for nth in range(MOST_CALLS):
        disk = PowerDisk(tmp_path / str(nth))
        if nth:
            disk.fail("fsync", nth)
        settings = SessionSettings.model_validate({**SETTINGS.model_dump(), "sync": mode})
        store = JsonlStore(tmp_path / str(nth) / "data", settings=settings, owner="one", disk=disk)
        (tmp_path / str(nth)).mkdir()
        await insist(lambda store=store: store.accept(KEY, inbound(1)))
        await check_survivors(disk, tmp_path / f"{nth}-a", EXPECTED[:1], unfinished=[KEY])
        claim = await insist(lambda store=store: store.claim(KEY, "loop"))
        blob = await insist(lambda store=store, claim=claim: store.put_blob(claim, b"data"))
        store.append(claim, EXPECTED[1], sync=False)
        outcome = store.append(claim, EXPECTED[2], sync=True)
        await insist(lambda outcome=outcome: _again(outcome))
        await check_survivors(disk, tmp_path / f"{nth}-b", EXPECTED[:3], unfinished=[KEY], blob=blob)
        await store.close()
        if nth and "fsync" not in disk.hit:
            return
    raise AssertionError("the scenario makes more calls than expected")


async def check_survivors(
    disk: PowerDisk, root: Path, expected: list[Entry], *, unfinished: list[str], blob: str | None = None
) -> None:
    disk.cut_power(root)
    store = JsonlStore(root / "data", settings=SETTINGS, owner="after")
    try:
        assert list(await store.unfinished()) == unfinished
        entries = (await store.claim(KEY, "after")).entries
        assert [entry for entry in entries if entry.__class__.__name__ != "Repaired"] == expected
        if blob is not None:
            assert await store.get_blob(KEY, blob) == b"data"
    finally:
        await store.close()
