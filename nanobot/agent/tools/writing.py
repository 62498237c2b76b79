"""Putting bytes on disk so that a crash leaves the old file or the new one, never half of one.

A new version is written beside the old one under a temporary name, synced, and renamed over it; the directory is opened once,
without following symlinks, and everything happens relative to it.  The file's mode is kept.
"""

import contextlib
import hashlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from nanobot.agent.tools.base import Planned, Probed, ToolContext
from nanobot.agent.tools.paths import directory, open_regular, os_reason
from nanobot.errors import ToolError
from nanobot.messages import JsonObject

MAX_PREIMAGE_BYTES = 10 << 20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Version:
    """A file's content as it was read, and what tells whether it is still the same."""

    content: bytes
    stamp: tuple[int, int, int, int]  # device, inode, size, mtime in ns


def read_version(path: Path, name: str, *, max_bytes: int) -> Version | None:
    """Return the file at a resolved path, None if there is none.

    Raises:
        ToolError: it is no regular file, too large, or may not be read.
    """
    if not os.path.lexists(path):
        return None
    with open_regular(path, name) as file:
        info = os.fstat(file.fileno())
        if info.st_size > max_bytes:
            raise ToolError(
                f"{name!r} is too large for this ({info.st_size:,} bytes; the limit is {max_bytes:,}). Use exec."
            )
        content = bytearray()
        while chunk := file.read(1 << 20):
            content += chunk
    return Version(bytes(content), _stamp(info))


def write_atomic(path: Path, name: str, content: bytes, *, expected: Version | None = None) -> None:
    """Write a resolved path: temporary file, sync, rename, sync of the directory.  Missing parents are made.

    Args:
        path: resolved.
        name: what error texts call it.
        content: all of it.
        expected: what must still be there; whatever is there now may be replaced if this is None.

    Raises:
        ToolError: the system refuses, something that is no regular file is there, or the file changed in the meantime.
    """
    temporary = f".{path.name[:80]}.{secrets.token_hex(6)}.tmp"
    try:
        with directory(path.parent, create=True) as parent:
            old = _existing(path.name, parent, name)
            if expected and (old is None or _stamp(old) != expected.stamp):
                raise ToolError(f"{name!r} was changed by somebody else in the meantime; read it again.")
            try:
                _write_synced(temporary, content, parent, mode=stat.S_IMODE(old.st_mode) if old else None)
                os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise
            os.fsync(parent)
    except OSError as error:
        raise ToolError(os_reason(error, name, path)) from None


def planned_change(path: Path, before: Version | None, after: bytes, scratch: Path) -> Planned:
    """Return what a write is about to change, after keeping the old content as ``scratch/before`` (durable) for an undo.

    ``before`` is ``{"path", "sha256" (null: no such file), "preimage" (false: none, or too large to keep)}``, ``after``
    ``{"path", "sha256"}``.
    """
    keep = before is not None and len(before.content) <= MAX_PREIMAGE_BYTES
    if before is not None and keep:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(Path(os.path.realpath(scratch)) / "before", "the pre-image", before.content)
    was: JsonObject = {"path": str(path), "sha256": _sha256(before.content) if before else None, "preimage": keep}
    return Planned(before=was, after={"path": str(path), "sha256": _sha256(after)})


def probe_change(planned: Planned, context: ToolContext) -> Probed:
    """Compare the file with what the plan said about before and after."""
    if planned.before is None or planned.after is None:
        return Probed("not_done")  # without a plan nothing was about to change: run it and let it say why
    path = Path(str(planned.after["path"]))
    try:
        version = read_version(path, path.name, max_bytes=1 << 30)
    except ToolError:
        return Probed("unknown")
    current = _sha256(version.content) if version else None
    if current == planned.after["sha256"]:
        return Probed("done", f"Done: {path.name} has its new content (found so after a restart).")
    return Probed("not_done" if current == planned.before["sha256"] else "unknown")


def _existing(name: str, parent: int, shown: str) -> os.stat_result | None:
    try:
        info = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(info.st_mode):
        what = "a directory" if stat.S_ISDIR(info.st_mode) else "no regular file"
        raise ToolError(f"{shown!r} is {what} and cannot be written.")
    return info


def _write_synced(name: str, content: bytes, parent: int, *, mode: int | None) -> None:
    fd = os.open(name, _FLAGS, 0o666, dir_fd=parent)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        if mode is not None:
            os.fchmod(fd, mode)
        os.fsync(fd)


def _stamp(info: os.stat_result) -> tuple[int, int, int, int]:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
