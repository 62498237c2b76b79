"""Lines of a file of any size, in bounded memory and time.

Works on bytes: UTF-16 and Latin-1 are turned into UTF-8 chunk by chunk, so one scanner serves all.  A line is clipped when it is
longer than anybody wants to read; what comes after the wanted lines is only counted, and only for as long as that is cheap.
"""

import codecs
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from nanobot.agent.tools.files.decode import Text
from nanobot.values import frozen

CHUNK_BYTES = 1 << 18
_SCAN_S = 15.0  # a scan that takes longer stops and says so
_LINE_BYTES = 4_000  # of a line; a longer one is clipped
_COUNT_BYTES = 32 << 20  # lines after the wanted ones are counted this far


@frozen
class Line:
    """One line without its end.  ``full_bytes`` is its whole length in UTF-8 where it was clipped, else 0."""

    number: int
    text: str
    full_bytes: int = 0


@frozen
class Page:
    """The lines that fit.  ``total`` is the file's number of lines, None when it was not counted to the end."""

    lines: tuple[Line, ...]
    total: int | None
    timed_out: bool = False


class _Collector:
    """Keeps the lines of the wanted range while they fit; ``full`` once no more are wanted."""

    def __init__(self, first: int, limit: int, max_chars: int) -> None:
        self.lines: list[Line] = []
        self.full = False
        self._first, self._limit, self._room = first, limit, max_chars
        self._number = 1  # of the line being read
        self._part = bytearray()  # its beginning
        self._length = 0  # all of it so far

    def feed(self, chunk: bytes) -> None:
        start = self._skip(chunk)
        while start < len(chunk) and not self.full:
            end = chunk.find(b"\n", start)
            piece = chunk[start : end if end >= 0 else len(chunk)]
            self._length += len(piece)
            self._part += piece[: max(0, _LINE_BYTES + 1 - len(self._part))]
            if end < 0:
                return
            self._end_line()
            start = end + 1

    def finish(self) -> None:
        """Take the last line if it has no end."""
        if self._length and not self.full:
            self._end_line()

    def _skip(self, chunk: bytes) -> int:
        """Count lines before the wanted ones; return where the wanted ones begin in this chunk."""
        if self._number >= self._first:
            return 0
        newlines = chunk.count(b"\n")
        if self._number + newlines < self._first:
            self._number += newlines
            return len(chunk)
        position = 0
        while self._number < self._first:
            position = chunk.index(b"\n", position) + 1
            self._number += 1
        return position

    def _end_line(self) -> None:
        clipped = self._length > _LINE_BYTES
        raw = bytes(self._part[:_LINE_BYTES]) if clipped else bytes(self._part).removesuffix(b"\r")
        text = raw.decode("utf-8", "ignore" if clipped else "replace")
        cost = len(text) + len(str(self._number)) + (80 if clipped else 2)
        if self.lines and cost > self._room:
            self.full = True
            return
        self._room -= cost
        self.lines.append(Line(self._number, text, self._length if clipped else 0))
        self.full = len(self.lines) >= self._limit
        self._number += 1
        self._part.clear()
        self._length = 0


def read_page(
    file: BinaryIO,
    form: Text,
    *,
    first: int,
    limit: int,
    max_chars: int,
    clock: Callable[[], float] = time.monotonic,
) -> Page:
    """Return up to ``limit`` lines from number ``first`` (from 1) that fit into ``max_chars``; at least one if there is one."""
    collector = _Collector(first, limit, max_chars)
    deadline = clock() + _SCAN_S
    newlines = after = 0
    open_end = False
    for chunk in _utf8_chunks(file, form):
        collector.feed(chunk)
        newlines += chunk.count(b"\n")
        open_end = not chunk.endswith(b"\n")
        after += len(chunk) if collector.full else 0
        late = clock() > deadline
        if late or after > _COUNT_BYTES:
            return Page(tuple(collector.lines), None, timed_out=late)
    collector.finish()
    return Page(tuple(collector.lines), newlines + open_end)


def _utf8_chunks(file: BinaryIO, form: Text) -> Iterator[bytes]:
    file.seek(len(form.bom))
    if form.encoding in ("utf-8", "utf-8-sig"):
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
        return
    decoder = codecs.getincrementaldecoder(form.encoding)("replace")
    while chunk := file.read(CHUNK_BYTES):
        if text := decoder.decode(chunk):
            yield text.encode("utf-8", "replace")
    if text := decoder.decode(b"", final=True):
        yield text.encode("utf-8", "replace")
