"""The system calls the session store makes, one method each.

Tests put faults here.  Everything above speaks to files through this object alone, from threads, never from the event loop.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from nanobot.errors import DiskRefused

FILE_MODE = 0o600
DIR_MODE = 0o700


class Disk:
    """The real disk."""

    def open(self, path: Path, flags: int) -> int:
        """Open a file (0600 when this creates it) and return its descriptor, which no child process inherits."""
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, fd: int) -> None:
        """Close a descriptor; what the system says to that changes nothing."""
        with suppress(OSError):
            os.close(fd)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write some of ``data``; return how many bytes."""
        return os.write(fd, data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes at ``offset``."""
        return os.pread(fd, size, offset)

    def fsync(self, fd: int) -> None:
        """Wait until the disk itself has the file."""
        os.fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        os.ftruncate(fd, size)

    def stat(self, fd: int) -> os.stat_result:
        """Return what the system knows of an open file."""
        return os.fstat(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Put a file in another's place, at once or not at all."""
        os.replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name, which must be free."""
        os.link(old, new)

    def unlink(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        path.unlink(missing_ok=True)

    def mkdir(self, path: Path) -> None:
        """Make one folder (0700)."""
        path.mkdir(mode=DIR_MODE)


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write every byte, however many calls it takes.

    Raises:
        OSError: the disk refused; any part of ``data`` may be in the file.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(fd, rest) or _nothing_written() :]


def read_block(disk: Disk, fd: int, size: int, offset: int) -> bytes:
    """Read exactly ``size`` bytes, or fewer where the file ends."""
    block = disk.pread(fd, size, offset)
    while len(block) < size and (more := disk.pread(fd, size - len(block), offset + len(block))):
        block += more
    return block


def sync_dir(disk: Disk, path: Path) -> None:
    """Wait until the disk itself has the folder's names."""
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.fsync(fd)
    finally:
        disk.close(fd)


def make_dirs(disk: Disk, path: Path, *, sync: bool) -> None:
    """Make the folder and those above it where they are missing, each private and each name synced."""
    if path.is_dir():
        return
    if path.parent != path:
        make_dirs(disk, path.parent, sync=sync)
    with suppress(FileExistsError):
        disk.mkdir(path)
    if sync:
        try:
            sync_dir(disk, path.parent)
        except OSError:
            with suppress(OSError):
                path.rmdir()  # so that the next try syncs its name
            raise


def write_new(disk: Disk, path: Path, data: bytes, *, sync: bool) -> None:
    """Create a file that does not exist yet, with this content; on an error it is removed again.

    The folder is not synced.

    Raises:
        OSError: not created.
    """
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        write_all(disk, fd, data)
        if sync:
            disk.fsync(fd)
    except OSError:
        with suppress(OSError):
            disk.unlink(path)
        raise
    finally:
        disk.close(fd)


def refusal(error: OSError, doing: str, path: Path) -> DiskRefused:
    """Return the error for people: what could not be done, where, and the system's own words."""
    return DiskRefused(f"{doing} {path} failed: {error.strerror or error}.")


class DirSyncs:
    """Sync folders; those who ask while one sync runs share the next."""

    def __init__(self, disk: Disk) -> None:
        self._sync: Callable[[Path], None] = lambda path: sync_dir(disk, path)
        self._guard = threading.Lock()
        self._folders: dict[Path, _Folder] = {}

    def sync(self, path: Path) -> None:
        """Return when a sync that began after this call is done."""
        with self._guard:
            folder = self._folders.setdefault(path, _Folder())
            folder.asked += 1
            mine = folder.asked
        with folder.turn:
            if folder.done >= mine:
                return
            with self._guard:
                upto = folder.asked
            self._sync(path)
            folder.done = upto


class _Folder:
    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.asked = 0
        self.done = 0


def _nothing_written() -> int:
    raise OSError(5, "the disk took no byte")
