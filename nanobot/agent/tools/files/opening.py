"""Opening resolved paths so that the answer cannot change in between.

A path is walked one component at a time from the root, each opened relative to the one before it and never through a symlink:
what was checked is what is opened, however often somebody swaps a directory for a link meanwhile.  What is closed is recognized by
device and inode of what was opened, so another spelling (case, Unicode form, a bind mount) or a hard link hides nothing.  Only
regular files with contents of their own are opened: no devices, FIFOs, sockets, kernel files.
"""

import contextlib
import difflib
import errno
import os
import re
import stat
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import BinaryIO, TypeAlias

from nanobot.errors import ToolError

Identity: TypeAlias = tuple[int, int]  # device and inode

_O_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_O_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # x-only directories too
_O_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KERNEL = ("/proc", "/sys")  # their files say that they are regular
_MAX_NEIGHBOURS = 2_000
_DIGEST = re.compile(r"[0-9a-f]{64}(?:\.|\Z)")
_MAX_INSIDE = 500_000  # entries of closed trees that are looked at to know a hard link
_REASONS = {
    errno.ELOOP: "a part of its path is a symlink that just changed; try again",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "the disk is full; nothing was changed",
    errno.EDQUOT: "the disk quota is used up; nothing was changed",
    errno.EROFS: "the file system is read-only",
}


def _identity(path: str | Path) -> Identity | None:
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return None
    return (info.st_dev, info.st_ino)


class Walls:
    """What may not be entered, by identity: ``denied`` files and trees, but for the ``roots`` inside them.

    Made for one call; it looks into the trees only when it meets a file that has several names.
    """

    def __init__(self, denied: Iterable[Path] = (), roots: Iterable[Path] = ()) -> None:
        self._trees = tuple(denied)
        self._denied = {identity for path in self._trees if (identity := _identity(path))}
        self._roots = {identity for path in roots if (identity := _identity(path))}
        self._inside: set[Identity] | None = None  # files of the trees that have several names
        self._is_too_much = False  # to look through: then every file with several names is closed
        self._kernel = {identity[0] for path in _KERNEL if (identity := _identity(path))}

    def closed_after(self, info: os.stat_result, *, before: bool) -> bool:
        """Return whether what lies at and below a place is closed, given whether its parent is."""
        identity = (info.st_dev, info.st_ino)
        return identity in self._denied or (before and identity not in self._roots)

    def hides(self, info: os.stat_result) -> bool:
        """Return whether a file is also one of a closed tree, under its other name."""
        if info.st_nlink < 2 or not self._trees:
            return False
        if self._inside is None:
            self._inside = self._look_inside()
        return self._is_too_much or (info.st_dev, info.st_ino) in self._inside

    def is_kernel(self, info: os.stat_result) -> bool:
        """Return whether a file is made up by the kernel as it is read."""
        return info.st_dev in self._kernel

    def _look_inside(self) -> set[Identity]:
        """Return the files of the closed trees that have several names."""
        found: set[Identity] = set()
        waiting = [str(tree) for tree in self._trees]
        left = _MAX_INSIDE
        while waiting and left > 0:
            with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:  # gone, or a file
                for entry in entries:
                    left -= 1
                    info = entry.stat(follow_symlinks=False)
                    identity = (info.st_dev, info.st_ino)
                    if not stat.S_ISDIR(info.st_mode) and info.st_nlink > 1:
                        found.add(identity)
                    elif stat.S_ISDIR(info.st_mode) and identity not in self._roots:
                        waiting.append(entry.path)
        self._is_too_much = left <= 0
        return found


_NO_WALLS = Walls()


@contextlib.contextmanager
def directory(path: Path, *, create: bool = False, walls: Walls = _NO_WALLS) -> Generator[int]:
    """Open a resolved directory without following a symlink anywhere; gives a descriptor for ``dir_fd``.

    Raises:
        OSError: it is not there (and ``create`` is false), is no directory, or became a symlink.
        ToolError: it is closed.
    """
    fd = os.open(path.anchor, _O_STEP)
    closed = False
    try:
        for name in path.parts[1:]:
            if create and not closed:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            step = os.open(name, _O_STEP, dir_fd=fd)
            os.close(fd)
            fd = step
            closed = walls.closed_after(os.fstat(fd), before=closed)
        if closed:
            raise ToolError(closed_reason(str(path)))
        final = os.open(".", _O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = final
        yield fd
    finally:
        os.close(fd)


def open_regular(path: Path, name: str, walls: Walls = _NO_WALLS) -> BinaryIO:
    """Open a resolved path for reading, if it is a regular file.  ``name`` is what error texts call it.

    Raises:
        ToolError: there is none, it is something else, it is closed, or it may not be read.
    """
    try:
        with directory(path.parent, walls=walls) as parent:
            fd = open_at(parent, path.name or ".", name, walls)
    except OSError as error:
        raise ToolError(os_reason(error, name, path, walls)) from None
    return os.fdopen(fd, "rb", buffering=0)


def open_at(parent: int, entry: str, name: str, walls: Walls) -> int:
    """Open a regular file in an open directory; return its descriptor.

    Raises:
        OSError: the system refuses.
        ToolError: it is no regular file, or closed.
    """
    _must_be_readable(os.stat(entry, dir_fd=parent, follow_symlinks=False), name, walls)
    fd = os.open(entry, _O_FILE, dir_fd=parent)
    try:
        _must_be_readable(os.fstat(fd), name, walls)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_closed(info: os.stat_result, walls: Walls) -> bool:
    """Return whether a file in a directory that is open to us is closed itself."""
    return walls.closed_after(info, before=False) or (stat.S_ISREG(info.st_mode) and walls.hides(info))


def missing(path: Path) -> bool:
    """Return whether there is nothing at a path, not even a link that leads somewhere."""
    try:
        os.lstat(path)
        os.stat(path)
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR)
    return False


def closed_reason(name: str) -> str:
    """Return why what belongs to nanobot itself is not opened."""
    return f"{name!r} belongs to nanobot itself (configuration or data) and is closed to tools."


def os_reason(error: OSError, name: str, path: Path, walls: Walls = _NO_WALLS) -> str:
    """Return one sentence for the model on what the system refused, with similar names for a missing file."""
    if isinstance(error, FileNotFoundError):
        near = _neighbours(path, walls)
        return f"{name!r} does not exist." + (f" Similar: {', '.join(near)}." if near else "")
    if isinstance(error, NotADirectoryError):
        return f"{name!r} cannot exist: a part of its path is a file, not a directory."
    if isinstance(error, PermissionError):
        return f"{name!r} may not be opened: permission denied by the system."
    return f"{name!r}: {_REASONS.get(error.errno or 0) or error.strerror or error}."


def _must_be_readable(info: os.stat_result, name: str, walls: Walls) -> None:
    mode = info.st_mode
    if is_closed(info, walls):
        raise ToolError(closed_reason(name))
    if stat.S_ISREG(mode) and not walls.is_kernel(info):
        return
    if stat.S_ISDIR(mode):
        raise ToolError(f"{name!r} is a directory; use list_dir.")
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a symlink that just changed"),
        (stat.S_ISREG, "a kernel file"),
    )
    kind = next((text for test, text in kinds if test(mode)), "a device")
    raise ToolError(f"{name!r} is {kind}, not a regular file; it is not opened because that could block forever.")


def _neighbours(path: Path, walls: Walls) -> list[str]:
    names: list[str] = []
    with contextlib.suppress(OSError, ToolError), directory(path.parent, walls=walls) as fd, os.scandir(fd) as entries:
        for entry in entries:
            if not _DIGEST.match(entry.name):  # not mistyped: whoever has one has all of it
                names.append(entry.name)
            if len(names) >= _MAX_NEIGHBOURS:
                break
    return difflib.get_close_matches(path.name, sorted(names), n=3, cutoff=0.6)
