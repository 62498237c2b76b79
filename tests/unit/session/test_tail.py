"""Reading a log from its end, and setting aside what is no entry."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.bus.events import InboundMessage
from nanobot.errors import SessionBusy, SessionCorrupt, SessionError
from nanobot.messages import AssistantMessage, JsonObject
from nanobot.session.codec import to_line
from nanobot.session.entries import Cut, Entry, Finished, Header, Repaired, Step, Unknown
from nanobot.session.files import Layout
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from nanobot.session.store import Claim
from nanobot.session.tail import BLOCK_BYTES, lines_back, read_tail
from tests.fakes.disk import FaultyDisk

KEY = "cli:direct"
AT = datetime(2026, 11, 30, tzinfo=UTC)
HEADER = to_line(Header(key=KEY, created_at=AT))
ONE, TWO, THREE = (Finished(id=f"e{n}") for n in (1, 2, 3))

OpenLog = Callable[[bytes | None], Awaitable[Claim]]


@pytest.fixture
async def open_log(tmp_path: Path) -> AsyncIterator[OpenLog]:
    """Yield a function that writes a log (None: leaves the one that is there) and claims it."""
    stores: list[JsonlStore] = []

    async def claim(log: bytes | None) -> Claim:
        for store in stores:
            await store.close()
        if log is not None:
            path = Layout(tmp_path).log(KEY)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(log)
        stores.append(JsonlStore(tmp_path, settings=SessionSettings(), owner="test"))
        return await stores[-1].claim(KEY, "test")

    yield claim
    for store in stores:
        await store.close()


def lines(*entries: Entry) -> bytes:
    return b"".join(map(to_line, entries))


def quarantined(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(Layout(root).quarantine.glob("*"))]


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES])
def test_lines_come_back_at_any_block_border(tmp_path: Path, size: int) -> None:
    """Wherever a block ends, lines and their offsets are those of a plain split."""
    path = tmp_path / "log"
    data = b"first\n" + b"x" * size + b"\n\n\nlast\ntorn"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    found = list(lines_back(FaultyDisk(), fd, len(data)))
    os.close(fd)

    assert [line for _, line in reversed(found)] == data.split(b"\n")
    assert all(data[at : at + len(line)] == line for at, line in found)


def test_a_long_log_costs_its_tail_only(tmp_path: Path) -> None:
    """Of 25 MB only the blocks that hold the live tail are read, in a small part of the time of a whole parse."""
    path, disk = tmp_path / "log", FaultyDisk()
    old = to_line(Step(id="e1", turn="t1", message=AssistantMessage("x" * 180)))
    tail = lines(ONE, TWO, Cut(id="e4", pass_name="snip", at="e2", floor="e2"), THREE)
    path.write_bytes(HEADER + old * (25_000_000 // len(old)) + tail)
    fd = os.open(path, os.O_RDONLY)
    start = time.perf_counter()
    found = read_tail(disk, fd, KEY)
    took_s = time.perf_counter() - start
    start = time.perf_counter()
    for line in path.read_bytes().split(b"\n"):
        _ = len(line)
    split_only_s = time.perf_counter() - start
    os.close(fd)

    assert [entry.id for entry in found.entries] == ["e2", "e4", "e3"]
    assert disk.read_bytes <= 2 * BLOCK_BYTES
    assert took_s < split_only_s


async def test_a_line_of_many_megabytes(open_log: OpenLog) -> None:
    """Long lines are put together once, not once for each block."""
    big = Step(id="e2", turn="t1", message=AssistantMessage("é" * 8_000_000))
    start = time.perf_counter()
    claim = await open_log(HEADER + lines(ONE, big, THREE))

    assert [entry.id for entry in claim.entries] == ["e1", "e2", "e3"]
    assert time.perf_counter() - start < 5


async def test_an_editors_traces_are_nothing(open_log: OpenLog, tmp_path: Path) -> None:
    """A byte order mark, carriage returns and blank lines are passed over without a report."""
    log = (HEADER + b"\n  \n" + lines(ONE, TWO) + b"\n").replace(b"\n", b"\r\n")
    claim = await open_log(b"\xef\xbb\xbf" + log)

    assert list(claim.entries) == [ONE, TWO]
    assert claim.reports == []
    assert quarantined(tmp_path) == []


async def test_bad_lines_are_set_aside_once(open_log: OpenLog, tmp_path: Path) -> None:
    """Bad lines are kept in quarantine and named by an entry; the next claim has nothing to report."""
    bad = [b"garbage", b"\xff\xfe\x00", b"[1]", b'{"type":"message","id":"e7"}', b"\0" * 5000]
    log = HEADER + lines(ONE) + b"".join(line + b"\n" for line in bad) + lines(TWO)
    first = await open_log(log)
    second = await open_log(None)
    third = await open_log(None)

    repaired = [entry for entry in first.entries if isinstance(entry, Repaired)]
    assert [entry for entry in first.entries if not isinstance(entry, Repaired)] == [ONE, TWO]
    assert [entry.lines for entry in repaired] == [(3, 4, 5, 6, 7)]
    assert repaired[0].id == "e8"  # e7 was given out, though its line is damaged
    assert len(first.reports) == 1
    assert list(first.entries) == list(second.entries) == list(third.entries)
    assert second.reports == third.reports == []
    assert quarantined(tmp_path) == [b"\n".join(bad) + b"\n"]


async def test_an_entry_behind_a_block_of_nuls_is_read(open_log: OpenLog) -> None:
    """A power cut may leave NUL bytes where a line's beginning should be; the line behind them is whole."""
    claim = await open_log(HEADER + lines(ONE) + b"\0" * 4096 + lines(TWO))

    assert list(claim.entries) == [ONE, TWO]


async def test_a11_a_torn_last_line_is_cut_and_kept(open_log: OpenLog, tmp_path: Path) -> None:
    """What stands after the last newline does not count, even when it is whole, and is kept aside."""
    claim = await open_log(HEADER + lines(ONE) + lines(TWO)[:-1])

    assert list(claim.entries) == [ONE]
    assert len(claim.reports) == 1
    assert quarantined(tmp_path) == [lines(TWO)[:-1]]
    assert Layout(tmp_path).log(KEY).read_bytes() == HEADER + lines(ONE)


async def test_a_second_header_is_passed_over(open_log: OpenLog) -> None:
    """Two processes that made one log, or two logs joined by hand, are read as one."""
    claim = await open_log(HEADER + lines(ONE) + HEADER + lines(TWO))

    assert list(claim.entries) == [ONE, TWO]
    assert claim.reports == []


async def test_another_sessions_log_is_refused(open_log: OpenLog, tmp_path: Path) -> None:
    """A log that says it is another session's is neither read nor touched."""
    log = to_line(Header(key="cli:other", created_at=AT)) + lines(ONE)
    with pytest.raises(SessionCorrupt, match="cli:other"):
        await open_log(log)

    assert Layout(tmp_path).log(KEY).read_bytes() == log


async def test_a_log_of_a_newer_version_is_read_only(tmp_path: Path) -> None:
    """What a newer nanobot wrote can be read; nothing is written to it, cut or set aside."""
    path = Layout(tmp_path).log(KEY)
    path.parent.mkdir(parents=True)
    log = HEADER.replace(b'"version":1', b'"version":2') + lines(ONE) + b"garbage\ntorn"
    path.write_bytes(log)
    store = JsonlStore(tmp_path, settings=SessionSettings(), owner="test")
    claim = await store.claim(KEY, "test")

    with pytest.raises(SessionError, match="written by a newer nanobot"):
        await store.append(claim, TWO, sync=True)
    with pytest.raises(SessionError, match="written by a newer nanobot"):
        await store.accept(KEY, InboundMessage(id="x", session_key=KEY, sender="me", text="hi", at=AT))
    assert list(claim.entries) == [ONE]
    assert [entry.id for entry in await store.read(KEY, before=None, limit=5)] == ["e1"]
    assert "newer" in claim.reports[0]
    await store.close()
    assert path.read_bytes() == log
    assert quarantined(tmp_path) == []


async def test_of_repeated_ids_the_first_wins(open_log: OpenLog) -> None:
    """Lines written again after a failed sync are one entry; a platform's id never hides one of ours."""
    inbound = InboundMessage(id="e1", session_key=KEY, sender="me", text="hi", at=AT)
    claim = await open_log(HEADER + lines(ONE, TWO, inbound, ONE, TWO, inbound, THREE))

    assert list(claim.entries) == [ONE, TWO, inbound, THREE]


async def test_an_unknown_type_is_kept_and_may_set_the_floor(open_log: OpenLog) -> None:
    """What this version does not know is handed on as it is."""
    raw: JsonObject = {"type": "later", "id": "e5", "floor": "e2", "x": [1]}
    claim = await open_log(HEADER + lines(ONE, TWO) + b'{"type":"later","id":"e5","floor":"e2","x":[1]}\n')

    assert list(claim.entries) == [TWO, Unknown(id="e5", type="later", raw=raw)]


async def test_a_floor_that_is_nowhere_reads_everything(open_log: OpenLog) -> None:
    """A floor whose entry is lost costs time, not entries."""
    cut = Cut(id="e9", pass_name="snip", at="e1", floor="e77")
    claim = await open_log(HEADER + lines(ONE, TWO, cut))

    assert list(claim.entries) == [ONE, TWO, cut]


async def test_keys_are_found_when_the_header_is_damaged(open_log: OpenLog, tmp_path: Path) -> None:
    """A header that cannot be read is written again at the end, so that the session is still listed."""
    claim = await open_log(b"garbage\n" + lines(ONE))
    store = JsonlStore(tmp_path, settings=SessionSettings(), owner="other")
    keys: list[str] = []
    for _ in range(100):  # the repair is written beside us
        if keys := list(await store.keys()):
            break
    await store.close()

    assert keys == [KEY]
    assert [entry for entry in claim.entries if not isinstance(entry, Repaired)] == [ONE]


async def test_a_refused_open_gives_the_lock_back(open_log: OpenLog, tmp_path: Path) -> None:
    """When a log cannot be used, nobody is kept from looking at it."""
    with pytest.raises(SessionCorrupt):
        await open_log(to_line(Header(key="cli:other", created_at=AT)))
    Layout(tmp_path).log(KEY).unlink()
    store = JsonlStore(tmp_path, settings=SessionSettings(), owner="other")
    try:
        await store.claim(KEY, "other")
    except SessionBusy:
        pytest.fail("the lock was not given back")
    finally:
        await store.close()
