"""Locks between processes: ``flock``, so that the system gives them back whatever becomes of the holder.

A lock file says who holds it and counts how often it was taken.  It is never removed: a removed lock file is two locks.
"""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from nanobot.errors import SessionBusy
from nanobot.session.disk import Disk, make_dirs, write_all

_OWNER_MAX_CHARS = 100
_NOTE_BYTES = 2048  # more than any note takes, so that a new one covers the old


class FileLock:
    """A lock that is held.  ``epoch`` is how often it was taken, this time included."""

    def __init__(self, disk: Disk, fd: int, epoch: int) -> None:
        self.epoch = epoch
        self._disk = disk
        self._fd: int | None = fd

    def release(self) -> None:
        """Give the lock back.  Twice is harmless."""
        fd, self._fd = self._fd, None
        if fd is not None:
            self._disk.close(fd)


def take(disk: Disk, path: Path, *, owner: str, what: str) -> FileLock:
    """Take the lock at once or not at all.

    Args:
        disk: where.
        path: the lock file; made when missing.
        owner: who we are, for those who come too late.
        what: what the lock stands for, for the error.

    Raises:
        SessionBusy: somebody else holds it; names the holder.
        OSError: the lock file cannot be opened or made.
    """
    make_dirs(disk, path.parent, sync=True)
    fd = disk.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _content(disk, fd)
        disk.close(fd)
        raise _busy(holder, what) from None
    except OSError:
        disk.close(fd)
        raise
    epoch = _number(_content(disk, fd).get("epoch")) + 1
    with suppress(OSError):  # a full disk does not take the note; the lock holds all the same
        _write_content(disk, fd, {"owner": owner[:_OWNER_MAX_CHARS], "pid": os.getpid(), "epoch": epoch})
    return FileLock(disk, fd, epoch)


@contextmanager
def hold(path: Path, owner: str, *, what: str) -> Generator[FileLock]:
    """Hold a lock for as long as the block runs: one gateway for a data directory, one poller for a bot token.

    Raises:
        SessionBusy: another process holds it; the text says who.
        OSError: the lock file cannot be made.
    """
    lock = take(Disk(), path, owner=owner, what=what)
    try:
        yield lock
    finally:
        lock.release()


def _content(disk: Disk, fd: int) -> dict[str, Any]:
    try:
        found: object = json.loads(disk.pread(fd, _NOTE_BYTES, 0).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _write_content(disk: Disk, fd: int, content: dict[str, object]) -> None:
    """Write in place, padded: a kill between two calls leaves the old count or the new one, never none."""
    write_all(disk, fd, json.dumps(content).encode().ljust(_NOTE_BYTES) + b"\n")


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _busy(holder: dict[str, Any], what: str) -> SessionBusy:
    owner = str(holder.get("owner") or "another process")
    process = f"process {holder['pid']}" if holder.get("pid") else ""
    pid = f" ({process})" if process and process not in owner else ""
    return SessionBusy(f"{what} is held by {owner}{pid}.", owner=owner)
