"""Open a session's log for writing: lock it, read its tail, and set aside what is no entry.

Nothing is thrown away: bytes that leave a log lie in ``quarantine`` first, synced.  What a newer nanobot wrote is read and not
touched.
"""

import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.errors import SessionCorrupt, SessionError
from nanobot.session.codec import to_line
from nanobot.session.disk import Disk, make_dirs, read_block, refusal, sync_dir, write_new
from nanobot.session.entries import VERSION, Entry, Repaired
from nanobot.session.files import Layout, stem
from nanobot.session.locks import FileLock, take
from nanobot.session.tail import Tail, read_tail
from nanobot.values import frozen

_COUNTER = re.compile(rb'"id": ?"e(\d{1,15})"')
_MAX_QUARANTINED = 10_000  # files of one session; more than that is not kept by number


@dataclass(slots=True)
class Opened:
    """A log as it was found.  ``repairs`` are the lines that must be appended to it before anything else.

    ``lock`` is None when the disk did not even take the lock file: the log may then be read, and the lock must be taken before the
    first write.
    """

    lock: FileLock | None
    size: int = 0
    entries: list[Entry] = field(default_factory=list[Entry])
    repairs: list[bytes] = field(default_factory=list[bytes])
    reports: list[str] = field(default_factory=list[str])
    read_only: str | None = None


@frozen
class Opener:
    """What opening a log takes."""

    disk: Disk
    at: Layout
    owner: str
    sync: bool
    now: Callable[[], datetime]

    def lock(self, key: SessionKey) -> FileLock:
        """Take the session's lock.

        Raises:
            SessionBusy: another process holds it.
            OSError: the disk does not take the lock file.
        """
        return take(self.disk, self.at.lock(key), owner=self.owner, what=f"Session {key!r:.80}")

    def open(self, key: SessionKey, *, whole: bool = False) -> Opened:
        """Lock, read and repair; only the live tail, or the ``whole`` log.  Blocks.

        Raises:
            SessionBusy: another process holds the session.
            SessionCorrupt: the log is another session's.
            DiskRefused: the log cannot be read.
        """
        found = Opened(lock=None)
        try:
            found.lock = self.lock(key)
        except OSError as error:
            found.reports.append(str(refusal(error, "Locking", self.at.lock(key))))
        try:
            self._read(found, key, whole=whole)
        except OSError as error:
            _release(found)
            raise refusal(error, "Reading", self.at.log(key)) from error
        except SessionError:
            _release(found)
            raise
        return found

    def _read(self, found: Opened, key: SessionKey, *, whole: bool) -> None:
        path = self.at.log(key)
        try:
            fd = self.disk.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            tail = read_tail(self.disk, fd, key, whole=whole)
            if tail.foreign is not None:
                raise SessionCorrupt(
                    f"{path} is the log of {tail.foreign!r:.80}, not of {key!r:.80}.", path=path, line=1
                )
            found.entries, found.size, found.read_only = tail.entries, tail.size, tail.newer
            if tail.newer is not None:
                found.reports.append(f"{path} can be read only: {tail.newer}.")
            elif found.lock is not None:
                self._mend(found, tail, key, fd)
        finally:
            self.disk.close(fd)

    def _mend(self, found: Opened, tail: Tail, key: SessionKey, fd: int) -> None:
        self._mend_lines(found, tail, key, fd)
        if tail.torn:
            self._cut_torn(found, tail, key)
        if tail.whole and tail.size > len(tail.torn) and not tail.headed:
            found.repairs.insert(0, header_line(key, self.now()))
            found.reports.append(f"{self.at.log(key)} had no readable header; a new one was added.")

    def _mend_lines(self, found: Opened, tail: Tail, key: SessionKey, fd: int) -> None:
        if not tail.bad:
            return
        numbers = _line_numbers(self.disk, fd, [bad.offset for bad in tail.bad])
        known = {number for entry in tail.entries if isinstance(entry, Repaired) for number in entry.lines}
        new = {number: bad for number, bad in zip(numbers, tail.bad, strict=True) if number not in known}
        if not new:
            return
        kept = self._set_aside(key, b"".join(bad.data + b"\n" for bad in new.values()), found.reports)
        if kept is None:
            return
        why = next(iter(new.values())).why[:200]
        repaired = Repaired(id=f"e{_last_counter(tail) + 1}", lines=tuple(new), why=why)
        found.entries.append(repaired)
        found.repairs.append(to_line(repaired))
        where = ", ".join(map(str, list(new)[:20]))
        found.reports.append(f"Unreadable lines ({where}) of {self.at.log(key)} were kept aside in {kept}: {why}.")

    def _cut_torn(self, found: Opened, tail: Tail, key: SessionKey) -> None:
        """Cut what a crash left of an unfinished line.  Where that fails, the next append begins with a newline."""
        kept = self._set_aside(key, tail.torn, found.reports) if tail.torn.strip() else Path()
        if kept is None:
            return
        path = self.at.log(key)
        try:
            fd = self.disk.open(path, os.O_RDWR)
        except OSError as error:
            found.reports.append(str(refusal(error, "Mending", path)))
            return
        try:
            self.disk.truncate(fd, tail.size - len(tail.torn))
            found.size = tail.size - len(tail.torn)
        except OSError as error:
            found.reports.append(str(refusal(error, "Mending", path)))
        finally:
            self.disk.close(fd)
        if kept.name:
            found.reports.append(f"The unfinished last line of {path} was kept aside in {kept}.")

    def _set_aside(self, key: SessionKey, data: bytes, reports: list[str]) -> Path | None:
        """Keep bytes in quarantine; return where, or None (and a report) when the disk does not take them."""
        folder = self.at.quarantine
        try:
            make_dirs(self.disk, folder, sync=self.sync)
            for number in range(1, _MAX_QUARANTINED):
                path = folder / f"{stem(key)}.{number}"
                with suppress(FileExistsError):
                    write_new(self.disk, path, data, sync=self.sync)
                    if self.sync:
                        sync_dir(self.disk, folder)
                    return path
        except OSError as error:
            reports.append(str(refusal(error, "Keeping unreadable lines in", folder)))
        return None


def header_line(key: SessionKey, created_at: datetime) -> bytes:
    """Return a log's first line.  In ASCII, so that any key comes back exactly, whatever is in it."""
    header = {"type": "session", "version": VERSION, "key": key, "created_at": created_at.isoformat()}
    return json.dumps(header, separators=(",", ":")).encode() + b"\n"


def _line_numbers(disk: Disk, fd: int, offsets: Iterable[int]) -> list[int]:
    """Return the numbers (from 1) of the lines that begin at these offsets, which rise."""
    numbers: list[int] = []
    at, line = 0, 1
    for offset in offsets:
        while at < offset:
            block = read_block(disk, fd, min(offset - at, 1 << 20), at)
            if not block:
                break
            line += block.count(b"\n")
            at += len(block)
        numbers.append(line)
    return numbers


def _last_counter(tail: Tail) -> int:
    """Return the highest ``e<n>`` in reach, also in damaged lines: their ids were given out."""
    ids = [entry.id[1:] for entry in tail.entries if entry.id[:1] == "e" and entry.id[1:].isdecimal()]
    lost = [match.decode() for bad in tail.bad for match in _COUNTER.findall(bad.data)]
    return max(map(int, ids + lost), default=0)


def _release(found: Opened) -> None:
    if found.lock is not None:
        found.lock.release()
