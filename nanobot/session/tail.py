"""Read a log from its end: only as far back as something still needs.

A log is bytes that people edit, disks damage and kills cut short.  Nothing here fails for bad content: what is no entry comes
back as ``Bad``, with its place, for ``session.repair`` to keep aside.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nanobot.bus.events import InboundMessage, SessionKey
from nanobot.session.codec import BadLine, NewerVersion, from_line
from nanobot.session.disk import Disk, read_block
from nanobot.session.entries import Entry, Header, Unknown
from nanobot.values import frozen

BLOCK_BYTES = 64 * 1024
_BOM = b"\xef\xbb\xbf"
_HEADER_MAX_BYTES = 1024 * 1024


@frozen
class Bad:
    """Bytes that hold no entry, where they begin in the file, and why."""

    offset: int
    data: bytes
    why: str


@dataclass(slots=True)
class Tail:
    """A log's live tail: ``entries`` oldest first, without repeated ids.

    ``torn`` is what stands after the last newline.  ``newer`` says that a newer nanobot wrote this log.  ``foreign`` is the key of
    a first header that is not ours.
    """

    size: int
    entries: list[Entry] = field(default_factory=list[Entry])
    bad: list[Bad] = field(default_factory=list[Bad])
    torn: bytes = b""
    newer: str | None = None
    foreign: SessionKey | None = None
    whole: bool = False  # read back to the file's beginning
    headed: bool = False  # a header of ours was seen


def read_tail(disk: Disk, fd: int, key: SessionKey, *, whole: bool = False) -> Tail:
    """Read back to the newest floor's entry (inclusive), or to the beginning; with ``whole`` to the beginning in any case.

    Raises:
        OSError: the disk cannot be read.
    """
    size = disk.stat(fd).st_size
    tail = Tail(size=size)
    _check_first(tail, disk, fd, key)
    lines = lines_back(disk, fd, size)
    tail.torn = next(lines)[1]
    tail.whole = _collect(tail, lines, key, past_floor=whole)
    tail.entries = list(without_repeats(reversed(tail.entries)))
    tail.bad.reverse()
    return tail


def lines_back(disk: Disk, fd: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line without newline) from the end; the first is what follows the last newline, mostly nothing."""
    pieces: list[bytes] = []  # of the line at hand, last piece first
    at = size
    while at > 0:
        start = max(0, at - BLOCK_BYTES)
        block = read_block(disk, fd, at - start, start)
        at = start
        first, *rest = block.split(b"\n")
        offset = start + len(block)
        for line in reversed(rest):
            offset -= len(line)
            pieces.append(line)
            yield offset, b"".join(reversed(pieces))
            pieces = []
            offset -= 1
        pieces.append(first)
    yield 0, b"".join(reversed(pieces))


def parse(line: bytes, key: SessionKey, *, first: bool) -> Entry | Header | None:
    """Return what a line holds; None for a blank one.

    A byte order mark before the first line, a carriage return at the end and NUL bytes in front (a block that a crash left
    unwritten) are passed over.

    Raises:
        BadLine: nothing usable.
    """
    if first:
        line = line.removeprefix(_BOM)
    if not line or line.isspace():
        return None
    return from_line(line.lstrip(b"\0") or line, key=key)


def floor_of(entry: Entry) -> str | None:
    """Return the id of the oldest entry that is still needed, where this entry says so."""
    found: object = entry.raw.get("floor") if isinstance(entry, Unknown) else getattr(entry, "floor", None)
    return found if isinstance(found, str) and found else None


def without_repeats(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Keep the first of each id: a failed sync makes the writer write again what may be there already."""
    seen: set[tuple[bool, str]] = set()
    for entry in entries:
        mark = isinstance(entry, InboundMessage), entry.id  # platforms' ids and ours are two name spaces
        if mark in seen and entry.id:
            continue
        seen.add(mark)
        yield entry


def first_line(disk: Disk, fd: int) -> bytes:
    """Return the file's first line, or as much of it as a header may take."""
    line = b""
    while b"\n" not in line and len(line) < _HEADER_MAX_BYTES:
        block = read_block(disk, fd, 4096, len(line))
        if not block:
            return b""  # a line without its newline does not count
        line += block
    return line.partition(b"\n")[0]


def _check_first(tail: Tail, disk: Disk, fd: int, key: SessionKey) -> None:
    try:
        header = parse(first_line(disk, fd), key, first=True)
    except NewerVersion as error:
        tail.newer = str(error)
    except BadLine:
        return  # found again, as a bad line, if it is within reach
    else:
        if isinstance(header, Header):
            tail.headed = header.key == key
            tail.foreign = None if tail.headed else header.key


def _collect(tail: Tail, lines: Iterator[tuple[int, bytes]], key: SessionKey, *, past_floor: bool) -> bool:
    """Gather entries, newest first; return whether the file's beginning was reached."""
    floor: str | None = None
    for offset, line in lines:
        try:
            found = parse(line, key, first=offset == 0)
        except NewerVersion as error:
            tail.newer = str(error)
            continue
        except BadLine as error:
            tail.bad.append(Bad(offset, line, str(error)))
            continue
        if isinstance(found, Header):
            _second_header(tail, found, Bad(offset, line, f"a header of {found.key!r}"), key)
        elif found is not None:
            tail.entries.append(found)
            floor = floor or floor_of(found)
            if found.id == floor and not past_floor:
                return False
    return True


def _second_header(tail: Tail, header: Header, line: Bad, key: SessionKey) -> None:
    if header.key == key:
        tail.headed = True
    elif line.offset:
        tail.bad.append(line)
