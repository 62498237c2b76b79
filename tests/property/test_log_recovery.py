"""Logs cut short at every byte and damaged at random: what is whole is read, the rest is kept aside, and the log goes on."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.bus.events import InboundMessage
from nanobot.errors import SessionError
from nanobot.messages import AssistantMessage, user_text
from nanobot.session.codec import BadLine, from_line, to_line
from nanobot.session.entries import Cut, Entry, Finished, Header, Repaired, Started, Step, Unknown
from nanobot.session.files import Layout
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings

KEY = "cli:é"
AT = datetime(2026, 11, 30, tzinfo=UTC)
OFF = SessionSettings(sync="off")
ENTRIES: list[Entry] = [
    InboundMessage(id="cli:é:1", session_key=KEY, sender="me", text="hé\u2028", at=AT),
    Started(id="e1", turn="t1", inbound=("cli:é:1",), message=user_text("hé", entry="e1")),
    Step(id="e2", turn="t1", message=AssistantMessage("🦀", entry="e2"), finish="stop"),
    Finished(id="e3", turn="t1", answer="e2"),
    Cut(id="e4", pass_name="snip", at="e1"),
    InboundMessage(id="cli:é:2", session_key=KEY, sender="me", text="x" * 50, at=AT),
]
HEADER = to_line(Header(key=KEY, created_at=AT))
LINES = [to_line(entry) for entry in ENTRIES]
LOG = HEADER + b"".join(LINES)
NEXT = Finished(id="e90", turn="t9")


@dataclass
class Opening:
    """What a claim gave."""

    entries: Sequence[Entry]
    reports: Sequence[str]

    @property
    def without_repairs(self) -> list[Entry]:
        return [entry for entry in self.entries if not isinstance(entry, Repaired)]


async def open_twice(root: Path, log: bytes) -> tuple[Opening, Opening]:
    """Write the log, claim it, append to it, and claim it again in another store."""
    path = Layout(root).log(KEY)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log)
    found: list[Opening] = []
    for number in range(2):
        store = JsonlStore(root, settings=OFF, owner="test")
        try:
            claim = await store.claim(KEY, "test")
            found.append(Opening(claim.entries, tuple(claim.reports)))
            if number == 0:
                await store.append(claim, NEXT, sync=True)
        finally:
            await store.close()
    return found[0], found[1]


def run(log: bytes) -> tuple[Opening, Opening, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        first, second = asyncio.run(open_twice(root, log))
        aside = b"".join(path.read_bytes() for path in sorted(Layout(root).quarantine.glob("*")))
        return first, second, aside + Layout(root).log(KEY).read_bytes()


def test_a11_a_log_cut_short_at_any_byte_gives_all_its_whole_lines() -> None:
    """Whatever byte the end of the file is lost at, every line with its newline is read, and appending goes on."""
    for size in range(len(LOG) + 1):
        first, second, kept = run(LOG[:size])
        whole = max(LOG[:size].count(b"\n") - 1, 0)

        assert first.entries == ENTRIES[:whole], size
        assert second.entries == [*ENTRIES[:whole], NEXT], size
        assert second.reports == (), size
        torn = LOG[:size].rpartition(b"\n")[2]
        assert torn in kept, size


def test_a_header_damaged_at_any_byte_costs_no_entry() -> None:
    """A damaged header is replaced, unless it names another key or a newer version; then nothing is touched."""
    for at in range(len(HEADER)):
        for damage in (b"~", b"\0", b"9", b"\n"):
            log = LOG[:at] + damage + LOG[at + 1 :]
            if b'"version":9' in log or _names_another_key(log):
                with pytest.raises(SessionError):
                    run(log)
                continue
            first, second, _ = run(log)
            shown = [entry for entry in first.without_repairs if not isinstance(entry, Unknown)]
            if damage == b"\n" or at == len(HEADER) - 1:
                assert shown == ENTRIES[-len(shown) :], (at, damage)
                assert len(shown) >= len(ENTRIES) - 1, (at, damage)
            else:
                assert shown == ENTRIES, (at, damage)
            assert second.entries == [*first.entries, NEXT], (at, damage)


def _names_another_key(log: bytes) -> bool:
    try:
        header = from_line(log.partition(b"\n")[0], key=KEY)
    except BadLine:
        return False
    return isinstance(header, Header) and header.key != KEY


BODY = st.integers(len(HEADER), len(LOG) - 1)
PIECES = st.sampled_from(
    [b"\0", b"\0" * 5000, b"\xff", b"\n", b"\r\n", b"{", b'"', b"garbage\n", b"[]\n", b"\xed\xa0\x80"]
)
DAMAGE = st.lists(st.tuples(BODY, st.integers(0, 200), PIECES | st.just(b"")), max_size=4)


@settings(max_examples=250, derandomize=True, deadline=None)
@given(DAMAGE)
def test_random_damage_costs_only_the_lines_it_touches(damage: list[tuple[int, int, bytes]]) -> None:
    """After any damage to the body, every undamaged line is read, in order; the second claim equals the first; no byte is lost."""
    log = LOG
    for at, length, piece in sorted(damage, reverse=True):
        log = log[:at] + piece + log[at + length :]
    undamaged = [ENTRIES[LINES.index(line + b"\n")] for line in log.split(b"\n")[:-1] if line + b"\n" in LINES]
    first, second, kept = run(log)

    survivors = [entry for entry in first.without_repairs if entry in undamaged]
    assert survivors == list(dict.fromkeys(undamaged))
    assert second.entries == [*first.entries, NEXT]
    assert second.reports == ()
    for line in log.split(b"\n"):
        assert line in kept


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_a_log_of_noise_is_no_crash(lines: list[bytes]) -> None:
    """A file that never was a log is opened, kept aside and written on."""
    first, second, _ = run(b"\n".join(lines))

    assert second.entries == [*first.entries, NEXT]
