"""Disks that fail: on demand, at the n-th call, or by losing what was never synced."""

import errno
import os
import threading
from collections import Counter
from pathlib import Path

from nanobot.session.disk import Disk

OPS = ("open", "write", "fsync", "truncate", "rename", "link", "unlink", "mkdir", "pread")


class FaultyDisk(Disk):
    """The real disk, but for planned faults.

    ``fail(op, nth, code)`` makes the n-th call of ``op`` from now on fail once.  ``refuse(code, *ops)`` makes all calls fail
    until ``heal()``.  ``short_writes`` makes each write take half of what it is given, and a failing one write half before it
    fails, as a full disk does.  ``calls`` counts; ``read_bytes`` adds up.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.read_bytes = 0
        self.short_writes = False
        self.hit: list[str] = []
        self.gate = threading.Event()  # fsync waits for it
        self.gate.set()
        self._planned: dict[tuple[str, int], int] = {}
        self._refused: dict[str, int] = {}

    def fail(self, op: str, nth: int, code: int = errno.EIO) -> None:
        self._planned[(op, self.calls[op] + nth)] = code

    def refuse(self, code: int, *ops: str) -> None:
        self._refused = dict.fromkeys(ops or OPS, code)

    def heal(self) -> None:
        self._refused = {}

    def open(self, path: Path, flags: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            self._meet("open")
        else:
            self._meet("open_read")
        return super().open(path, flags)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        try:
            self._meet("write")
        except OSError:
            if self.short_writes:
                super().write(fd, data[: len(data) // 2])
            raise
        return super().write(fd, data[: len(data) // 2 + 1] if self.short_writes else data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self._meet("pread")
        block = super().pread(fd, size, offset)
        self.read_bytes += len(block)
        return block

    def fsync(self, fd: int) -> None:
        self._meet("fsync")
        self.gate.wait(10)
        super().fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._meet("truncate")
        super().truncate(fd, size)

    def rename(self, old: Path, new: Path) -> None:
        self._meet("rename")
        super().rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._meet("link")
        super().link(old, new)

    def unlink(self, path: Path) -> None:
        self._meet("unlink")
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self._meet("mkdir")
        super().mkdir(path)

    def _meet(self, op: str) -> None:
        self.calls[op] += 1
        code = self._planned.pop((op, self.calls[op]), None) or self._refused.get(op)
        if code is not None:
            self.hit.append(op)
            raise OSError(code, os.strerror(code))


class PowerDisk(FaultyDisk):
    """A disk that remembers what survives a power cut: bytes that were synced, under names whose folder was synced.

    A failed sync loses the bytes it should have saved for good, as the system does: it believes them written, and a later sync on
    any descriptor does not write them again.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._guard = threading.Lock()
        self._kept: dict[int, bytes] = {}  # inode -> bytes on the disk itself
        self._lost: dict[int, list[tuple[int, int]]] = {}  # inode -> ranges that no sync will save
        self._names: dict[str, dict[str, int]] = {}  # folder -> its names on the disk itself

    def fsync(self, fd: int) -> None:
        inode, path = os.fstat(fd).st_ino, Path(os.readlink(f"/proc/self/fd/{fd}"))
        try:
            super().fsync(fd)
        except OSError:
            if path.is_file():
                with self._guard:
                    start = len(self._kept.get(inode, b""))
                    self._lost.setdefault(inode, []).append((start, os.fstat(fd).st_size))
            raise
        with self._guard:
            if path.is_dir():
                names = {entry.name: entry.inode() for entry in os.scandir(path)}
                self._names[os.path.relpath(path, self._root)] = names
            else:
                self._kept[inode] = self._without_lost(inode, path.read_bytes())

    def unlink(self, path: Path) -> None:
        inode = path.stat().st_ino if path.exists() and path.stat().st_nlink == 1 else 0
        super().unlink(path)
        with self._guard:
            self._lost.pop(inode, None)  # the number will be given out again

    def cut_power(self, into: Path) -> None:
        """Lay out what survives, as a new folder."""
        with self._guard:
            self._lay(".", into)

    def _lay(self, folder: str, into: Path) -> None:
        into.mkdir(parents=True)
        for name, inode in self._names.get(folder, {}).items():
            source = self._root / folder / name
            if source.is_dir():
                self._lay(os.path.normpath(f"{folder}/{name}"), into / name)
            else:
                (into / name).write_bytes(self._kept.get(inode, b""))

    def _without_lost(self, inode: int, data: bytes) -> bytes:
        out = bytearray(data)
        for start, end in self._lost.get(inode, ()):
            out[start:end] = bytes(len(out[start:end]))
        return bytes(out)
