"""Look at logs without claiming them: a session's newest entries, the keys there are, the sessions with unsettled work.

Blocks: to be called from threads.  A log may grow while it is read; what is not whole yet is not seen.
"""

import json
import os
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice
from pathlib import Path
from typing import cast

from nanobot.bus.events import SessionKey
from nanobot.session.codec import BadLine
from nanobot.session.disk import Disk
from nanobot.session.entries import Entry, EntryId, Header
from nanobot.session.files import Layout, stem
from nanobot.session.tail import first_line, lines_back, parse, without_repeats
from nanobot.values import frozen


@frozen
class Browser:
    """Reads what lies in the data directory."""

    disk: Disk
    at: Layout

    def read(
        self, key: SessionKey, *, before: EntryId | None, limit: int, unwritten: Sequence[Entry] = ()
    ) -> list[Entry]:
        """Return up to ``limit`` entries older than ``before``, newest first; ``unwritten`` are those not in the file yet.

        Raises:
            OSError: the disk cannot be read.
        """
        entries = without_repeats(self._newest_first(key, unwritten))
        if before is not None:
            entries = islice(dropwhile(lambda entry: entry.id != before, entries), 1, None)
        return list(islice(entries, limit))

    def keys(self) -> list[SessionKey]:
        """Return the keys in the headers of all logs."""
        found = (self._key(path) for path in self._files(self.at.sessions, ".jsonl"))
        return [key for key in found if key is not None]

    def unfinished(self) -> list[SessionKey]:
        """Return the keys in the markers; a marker that a crash left empty is looked up in its log."""
        found = (self._marked(path) for path in self._files(self.at.markers, ""))
        return [key for key in found if key is not None]

    def _newest_first(self, key: SessionKey, unwritten: Sequence[Entry]) -> Iterator[Entry]:
        yield from reversed(unwritten)
        try:
            fd = self.disk.open(self.at.log(key), os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            lines = lines_back(self.disk, fd, self.disk.stat(fd).st_size)
            next(lines)  # not whole yet, or torn
            for offset, line in lines:
                try:
                    entry = parse(line, key, first=offset == 0)
                except BadLine:
                    continue
                if entry is not None and not isinstance(entry, Header):
                    yield entry
        finally:
            self.disk.close(fd)

    def _files(self, folder: Path, suffix: str) -> list[Path]:
        try:
            return sorted(path for path in folder.iterdir() if path.name.endswith(suffix) and path.name[:1] != ".")
        except FileNotFoundError:
            return []

    def _key(self, path: Path) -> SessionKey | None:
        """Return the key that a log's header names, if it is the key of a file of this name."""
        try:
            fd = self.disk.open(path, os.O_RDONLY)
        except OSError:
            return None
        try:
            size = self.disk.stat(fd).st_size
            for line in (first_line(self.disk, fd), *self._later_headers(fd, size)):
                key = _header_key(line)
                if key is not None and stem(key) == path.stem:
                    return key
        except OSError:
            return None
        finally:
            self.disk.close(fd)
        return None

    def _later_headers(self, fd: int, size: int) -> Iterator[bytes]:
        """Yield lines that may be headers, newest first: one is added when the first line cannot be read."""
        return (line for _, line in lines_back(self.disk, fd, size) if b'"session"' in line[:64])

    def _marked(self, path: Path) -> SessionKey | None:
        try:
            key: object = json.loads(path.read_bytes())
        except (OSError, ValueError):
            key = None
        if isinstance(key, str) and stem(key) == path.name:
            return key
        return self._key(self.at.sessions / f"{path.name}.jsonl")


def _header_key(line: bytes) -> SessionKey | None:
    """Return the key in a header of any version; None for anything else."""
    try:
        raw: object = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    header = cast("dict[str, object]", raw)
    key = header.get("key")
    return key if header.get("type") == "session" and isinstance(key, str) else None
