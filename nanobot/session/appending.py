"""One log file that only grows, by whole lines.

An append that fails leaves no part of it behind where the disk allows that: the file is cut back to its last whole line, and where
even that fails the next append begins with a newline, so that what is torn stays one bad line.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nanobot.session.disk import Disk, make_dirs, read_block, write_all

_COPY_BYTES = 1 << 20


class AppendFile:
    """Opened when first written to.  Used by one thread, except that ``fd`` may be synced by another meanwhile.

    ``reopened`` turns true with each opening: the name may be new, or left unsynced by a process that died, so its folder must be
    synced with the next lines.
    """

    def __init__(self, disk: Disk, path: Path, *, header: Callable[[], bytes], sync: bool) -> None:
        self.fd: int | None = None
        self.reopened = False
        self._disk = disk
        self._path = path
        self._header = header
        self._sync = sync
        self._size = 0
        self._torn = False
        self._headed = False
        self._twice_from: int | None = None  # where the second copy of unsynced lines begins
        self._doubted = False
        self._nameless: list[int] = []  # replaced descriptors; a sync may still be using one

    def append(self, lines: bytes) -> None:
        """Write all of it, or raise OSError and (as far as the disk allows) none of it."""
        if self.fd is None:
            self._open()
        elif self.is_gone():
            self._bring_back()
        assert self.fd is not None
        if self._torn:
            self._size = self._disk.stat(self.fd).st_size
        data = (b"\n" if self._torn else b"") + (b"" if self._headed else self._header()) + lines
        try:
            write_all(self._disk, self.fd, data)
        except OSError:
            self._cut_back(self.fd)
            raise
        self._size += len(data)
        self._torn, self._headed = False, True

    def is_gone(self) -> bool:
        """Say whether the open file lost its name: what is written to it would vanish with the process."""
        return self.fd is not None and self._disk.stat(self.fd).st_nlink == 0

    def doubt(self) -> None:
        """Stop believing this descriptor: a sync on it failed, and no later success would mean anything."""
        self._doubted = True
        self.close()

    def trust(self) -> None:
        """Take note of a sync that went well."""
        self._twice_from = None

    def close(self) -> None:
        """Close the descriptor.  The next append opens the file again."""
        fds = [*self._nameless] if self.fd is None else [*self._nameless, self.fd]
        self.fd, self._nameless = None, []
        for fd in fds:
            self._disk.close(fd)

    def _open(self) -> None:
        make_dirs(self._disk, self._path.parent, sync=self._sync)
        fd = self._disk.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = self._disk.stat(fd).st_size
            if self._doubted:
                size = self._drop_third_copy(fd, size)
            last = read_block(self._disk, fd, 1, size - 1) if size else b"\n"
        except OSError:
            self._disk.close(fd)
            raise
        self.reopened = True
        # what was not synced may read as anything from now on, the header and the last newline too
        self._torn = last != b"\n" or self._doubted
        self._headed = size > 0 and not self._doubted
        self._doubted = False
        self.fd, self._size = fd, size

    def _drop_third_copy(self, fd: int, size: int) -> int:
        """Keep the first copy of what was never synced, and one more: a disk that fails for hours must not fill up with copies."""
        if self._twice_from is None or size <= self._twice_from:
            self._twice_from = size
        else:
            self._disk.truncate(fd, self._twice_from)
        return self._twice_from

    def _cut_back(self, fd: int) -> None:
        try:
            self._disk.truncate(fd, self._size)
        except OSError:
            self._torn = True

    def _bring_back(self) -> None:
        """Give the lines that are still readable through the nameless file a new one."""
        old, self.fd = self.fd, None
        assert old is not None
        length, at = self._size, 0
        try:
            self._open()
            assert self.fd is not None
            while self._size < length and at == self._size and (block := read_block(self._disk, old, _COPY_BYTES, at)):
                write_all(self._disk, self.fd, block)
                at += len(block)
                self._size += len(block)
                self._headed = True
        except OSError:
            self._give_up_copy(old, length)
            raise
        self._nameless.append(old)

    def _give_up_copy(self, old: int, length: int) -> None:
        if self.fd is not None:
            with suppress(OSError):
                self._disk.truncate(self.fd, 0)
            self._disk.close(self.fd)
        self.fd, self._size, self._torn, self._headed = old, length, False, True
