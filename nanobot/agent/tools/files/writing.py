"""Putting bytes on disk so that a crash leaves the old file or the new one, never half of one.

A new version is written beside the old one under a temporary name, synced, and renamed over it; the directory is opened once,
without following symlinks, and everything happens relative to it.  The file keeps its permissions and, where the system lets us,
its owner; it loses set-uid and set-gid, as on any write.  Another hard link of the file keeps the old content.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path

from nanobot.agent.tools.files.opening import Walls, closed_reason, directory, is_closed, open_regular, os_reason
from nanobot.errors import ToolError
from nanobot.values import frozen

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777
_OPEN_TO_ALL = Walls()


@frozen
class Version:
    """A file's content as it was read, its permissions, and what tells whether it is still the same."""

    content: bytes
    mode: int
    stamp: tuple[int, int, int, int]  # device, inode, size, mtime in ns


@frozen(kw_only=True)
class Written:
    """What a write replaced: whether there was a file, and how many other names its old content still has."""

    replaced: bool
    other_names: int = 0


def read_version(path: Path, name: str, *, max_bytes: int, walls: Walls = _OPEN_TO_ALL) -> Version | None:
    """Return the file at a resolved path, None if there is none.

    Raises:
        ToolError: it is no regular file, closed, too large, or may not be read.
    """
    if not _is_there(path, name, walls):
        return None
    with open_regular(path, name, walls) as file:
        info = os.fstat(file.fileno())
        if info.st_size > max_bytes:
            raise ToolError(
                f"{name!r} is too large for this ({info.st_size:,} bytes; the limit is {max_bytes:,}). Use exec."
            )
        content = bytearray()
        while chunk := file.read(1 << 20):
            content += chunk
    return Version(bytes(content), stat.S_IMODE(info.st_mode), _stamp(info))


def write_atomic(
    path: Path,
    name: str,
    content: bytes,
    *,
    expected: Version | None = None,
    is_new: bool = False,
    mode: int | None = None,
    even_read_only: bool = False,
    walls: Walls = _OPEN_TO_ALL,
) -> Written:
    """Write a resolved path: temporary file, sync, rename, sync of the directory.  Missing parents are made.

    Args:
        path: resolved.
        name: what error texts call it.
        content: all of it.
        expected: what must still be there; whatever is there now may be replaced if this is None.
        is_new: nothing may be there.
        mode: permissions of a new file; an existing one keeps its own.
        even_read_only: put back what was there, whatever its permissions are now.
        walls: what is closed.

    Raises:
        ToolError: the system refuses, something that is no regular file is there, it is read-only or closed, or it changed in
            the meantime.
    """
    temporary = f".{path.name[:40]}.{secrets.token_hex(6)}.tmp"
    with _explained(path, name, walls), directory(path.parent, create=True, walls=walls) as parent:
        old = _writable(path.name, parent, name, walls, even_read_only=even_read_only)
        if expected and (old is None or _stamp(old) != expected.stamp):
            raise ToolError(f"{name!r} was changed by somebody else in the meantime; read it again.")
        if is_new and old is not None:
            raise ToolError(f"{name!r} exists already.")
        try:
            _write_synced(temporary, content, parent, old=old, mode=mode)
            os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)
            raise
        os.fsync(parent)
    return Written(replaced=old is not None, other_names=old.st_nlink - 1 if old else 0)


def remove(
    path: Path,
    name: str,
    *,
    expected: Version | None = None,
    even_read_only: bool = False,
    walls: Walls = _OPEN_TO_ALL,
) -> None:
    """Remove a file at a resolved path; nothing happens if there is none.

    Raises:
        ToolError: as ``write_atomic``.
    """
    if not _is_there(path, name, walls):
        return
    with _explained(path, name, walls), directory(path.parent, walls=walls) as parent:
        old = _writable(path.name, parent, name, walls, even_read_only=even_read_only)
        if expected and (old is None or _stamp(old) != expected.stamp):
            raise ToolError(f"{name!r} was changed by somebody else in the meantime; read it again.")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=parent)
        os.fsync(parent)


@contextlib.contextmanager
def _explained(path: Path, name: str, walls: Walls) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(os_reason(error, name, path, walls)) from None


def _is_there(path: Path, name: str, walls: Walls) -> bool:
    try:
        with directory(path.parent, walls=walls) as parent:
            os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ToolError(os_reason(error, name, path, walls)) from None
    return True


def _writable(entry: str, parent: int, name: str, walls: Walls, *, even_read_only: bool) -> os.stat_result | None:
    try:
        info = os.stat(entry, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if is_closed(info, walls):
        raise ToolError(closed_reason(name))
    if not stat.S_ISREG(info.st_mode):
        what = "a directory" if stat.S_ISDIR(info.st_mode) else "no regular file"
        raise ToolError(f"{name!r} is {what} and cannot be written.")
    if not even_read_only and not (info.st_mode & 0o222 and os.access(entry, os.W_OK, dir_fd=parent)):
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        raise ToolError(f"{name!r} is read-only (mode {mode}); if it must change, make it writable first (chmod u+w).")
    return info


def _write_synced(temporary: str, content: bytes, parent: int, *, old: os.stat_result | None, mode: int | None) -> None:
    fd = os.open(temporary, _FLAGS, 0o666, dir_fd=parent)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        if old is not None:
            _give_to(old, fd)
            mode = stat.S_IMODE(old.st_mode)
        if mode is not None:
            os.fchmod(fd, mode & _PERMISSIONS)
        os.fsync(fd)


def _give_to(old: os.stat_result, fd: int) -> None:
    """Keep owner and group, as far as we may: an ordinary user owns what he writes."""
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (old.st_uid, old.st_gid):
        return
    for uid, gid in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
        try:
            os.fchown(fd, uid, gid)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EINVAL, errno.EACCES):
                raise
        else:
            return


def _stamp(info: os.stat_result) -> tuple[int, int, int, int]:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
