"""A command's output in a file of bounded size: its beginning, its end, and how long it was; readable while it grows.

Layout: the total twice (8 bytes each, little endian; different while it is being written), ``HEAD_BYTES`` of the beginning, then a
ring of the rest.  One writer; readers need no lock and never see bytes that were overwritten while they read.
"""

import contextlib
import os
from typing import NamedTuple

HEAD_BYTES = 64 << 10
TAIL_BYTES = 192 << 10
CHUNK_BYTES = (
    64 << 10
)  # most bytes of one ``add``: a reader distrusts so much of the ring, as it may be being overwritten

_RING_BYTES = TAIL_BYTES + CHUNK_BYTES
_NUMBER = 8
_HEADER = 2 * _NUMBER
_TRIES = 20


class RingWriter:
    """Writes the file.  ``error`` says why output could not be kept; it is counted all the same."""

    def __init__(self, path: str) -> None:
        self.total = 0
        self.error = ""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.add(b"")

    def add(self, data: bytes) -> None:
        """Take the next piece, of at most ``CHUNK_BYTES``.  A full disk is noted and does not raise."""
        at, self.total = self.total, self.total + len(data)
        if self.error:
            return
        try:
            while data:
                offset, room = _place(at)
                done = os.pwrite(self._fd, data[:room], offset)
                at, data = at + done, data[done:]
            self._put_total()
        except OSError as error:
            self.error = error.strerror or str(error)

    def _put_total(self) -> None:
        number = self.total.to_bytes(_NUMBER, "little")
        os.pwrite(self._fd, number + number, 0)


class Captured(NamedTuple):
    """What a reader got: ``head`` begins at 0, ``tail`` at ``start``; ``total`` bytes were written."""

    total: int
    head: bytes
    start: int
    tail: bytes

    @property
    def left_out(self) -> int:
        """How many bytes lie between head and tail and are lost."""
        return self.start - len(self.head)

    def since(self, offset: int) -> tuple[int, bytes]:
        """Return how many bytes from ``offset`` on are lost, and those that are not."""
        if not self.left_out:
            return 0, (self.head + self.tail)[offset:]
        if offset >= self.start:
            return 0, self.tail[offset - self.start :]
        return self.start - offset, self.tail


def read_ring(path: str | os.PathLike[str]) -> Captured | None:
    """Return what the file holds now; None if there is none or it is damaged."""
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        for _ in range(_TRIES):
            if (captured := _read(file.fileno())) is not None:
                return captured
    return None


def _read(fd: int) -> Captured | None:
    before = _total(fd)
    if before is None:
        return None
    data = os.pread(fd, HEAD_BYTES + _RING_BYTES, _HEADER)
    after = _total(fd)
    if after is None or len(data) < min(before, HEAD_BYTES + _RING_BYTES):
        return None
    head = data[: min(before, HEAD_BYTES)]
    start = len(head) if after <= HEAD_BYTES + TAIL_BYTES else max(len(head), after - TAIL_BYTES)
    if start > before:
        return None  # overtaken while reading
    return Captured(before, head, start, _slice(data[HEAD_BYTES:], start, before) if start < before else b"")


def _total(fd: int) -> int | None:
    header = os.pread(fd, _HEADER, 0)
    first, second = header[:_NUMBER], header[_NUMBER:]
    return int.from_bytes(first, "little") if len(second) == _NUMBER and first == second else None


def _slice(ring: bytes, start: int, end: int) -> bytes:
    first, last = (start - HEAD_BYTES) % _RING_BYTES, (end - HEAD_BYTES) % _RING_BYTES
    return ring[first:last] if first < last else ring[first:_RING_BYTES] + ring[:last]


def _place(at: int) -> tuple[int, int]:
    """Return where in the file the byte at ``at`` lies, and how many may be written from there on."""
    if at < HEAD_BYTES:
        return _HEADER + at, HEAD_BYTES - at
    within = (at - HEAD_BYTES) % _RING_BYTES
    return _HEADER + HEAD_BYTES + within, _RING_BYTES - within
