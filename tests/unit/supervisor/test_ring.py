"""The bounded file of a command's output, against the whole output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.supervisor.ring import CHUNK_BYTES, HEAD_BYTES, TAIL_BYTES, RingWriter, read_ring


def output(length: int) -> bytes:
    """Return bytes that tell where they stand."""
    return b"".join(b"%07d\n" % number for number in range(length // 8 + 1))[:length]


@given(st.lists(st.integers(0, CHUNK_BYTES), max_size=12), st.integers(0, 800_000))
def test_head_and_tail_are_the_output_and_the_rest_is_counted(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], since: int
) -> None:
    """Whatever the pieces, a reader gets the true bytes or a true count of what is lost."""
    path = tmp_path_factory.mktemp("ring") / "output"
    whole = output(sum(sizes))
    ring, at = RingWriter(str(path)), 0
    for size in sizes:
        ring.add(whole[at : at + size])
        at += size

    captured = read_ring(path)

    assert captured is not None
    assert captured.total == len(whole)
    assert captured.head == whole[:HEAD_BYTES]
    assert captured.tail == whole[captured.start :]
    assert len(captured.tail) >= min(len(whole) - len(captured.head), TAIL_BYTES)
    offset = min(since, len(whole))
    lost, data = captured.since(offset)
    assert data == whole[offset + lost :]
    assert path.stat().st_size <= HEAD_BYTES + TAIL_BYTES + CHUNK_BYTES + 16


def test_what_is_no_such_file_is_none(tmp_path: Path) -> None:
    """Missing, empty or torn: nothing is made up."""
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "torn").write_bytes(b"\x05" + b"\0" * 7 + b"\x09" + b"\0" * 7 + b"hello")
    (tmp_path / "short").write_bytes((100).to_bytes(8, "little") * 2 + b"hello")

    assert [read_ring(tmp_path / name) for name in ("missing", "empty", "torn", "short")] == [None] * 4


def test_a_full_disk_is_noted_and_all_of_it_counted() -> None:
    """The command goes on; its record says what is missing."""
    ring = RingWriter("/dev/full")
    ring.add(b"lost")

    assert ring.error == "No space left on device"
    assert ring.total == 4
