"""Which files a tool may touch, and opening them so that the answer cannot change in between.

A path is resolved (``~``, ``..``, symlinks), checked against the roots, and then opened one component at a time without following
symlinks: what was checked is what is opened.  Only regular files are opened; devices, FIFOs, sockets and kernel files are refused
with a reason.  A hard link cannot be told from its file, but the denied files are known by device and inode too.

This keeps the file tools in.  It is no boundary for ``exec``: only a sandbox is.
"""

import contextlib
import difflib
import os
import stat
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nanobot.errors import ToolError

_KERNEL = (Path("/proc"), Path("/sys"), Path("/dev"))
_O_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_O_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # x-only directories too
_MAX_NEIGHBOURS = 2_000


@dataclass(frozen=True, slots=True)
class PathRules:
    """What the file tools may touch.

    ``denied`` files and trees (the config file, the data directory) stay closed also without ``restrict``; a workspace or extra
    root that lies inside a denied tree is open all the same.
    """

    restrict: bool = True
    extra_roots: tuple[Path, ...] = ()
    denied: tuple[Path, ...] = ()

    def resolve(self, raw: str, workspace: Path) -> Path:
        """Return the real path that ``raw`` names, which need not exist.  Relative paths start in the workspace.

        Raises:
            ToolError: it may not be touched, or cannot be a path.
        """
        base = Path(os.path.realpath(workspace))
        path = Path(os.path.realpath(base / _expanded(raw)))
        if self.closed(workspace)(str(path)):
            raise ToolError(f"{raw!r} belongs to nanobot itself (configuration or data) and is closed to tools.")
        roots = (base, *(Path(os.path.realpath(root)) for root in self.extra_roots))
        if self.restrict and not any(path.is_relative_to(root) for root in roots):
            via = " (it leads there through a symlink or ..)" if not Path(raw).is_absolute() else ""
            raise ToolError(f"{raw!r} is outside the workspace {str(base)!r}{via}. Use a path inside it.")
        if any(path.is_relative_to(kernel) for kernel in _KERNEL):
            raise ToolError(f"{raw!r} is a device or kernel file, not a file with contents; use exec to look at it.")
        return path

    def closed(self, workspace: Path) -> Callable[[str], bool]:
        """Return a test whether a real path is denied; it is cheap enough to ask about every file of a tree."""
        roots = [_tree(os.path.realpath(root)) for root in (workspace, *self.extra_roots)]
        trees = [_tree(os.path.realpath(entry)) for entry in self.denied]
        files = {identity for entry in self.denied if (identity := _identity(entry, os.stat))}

        def is_closed(path: str) -> bool:
            own = _tree(path)
            for tree in trees:
                if own.startswith(tree):
                    return not any(root.startswith(tree) and root != tree and own.startswith(root) for root in roots)
            return bool(files) and _identity(path, os.lstat) in files

        return is_closed


def shown(path: Path, workspace: Path) -> str:
    """Return the path as the model should write it: relative inside the workspace."""
    base = Path(os.path.realpath(workspace))
    return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


@contextlib.contextmanager
def directory(path: Path, *, create: bool = False) -> Generator[int]:
    """Open a resolved directory without following a symlink anywhere; gives a descriptor for ``dir_fd``.

    Raises:
        OSError: it is not there (and ``create`` is false), is no directory, or became a symlink.
    """
    fd = os.open(path.anchor, _O_STEP)
    try:
        for name in path.parts[1:]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
            step = os.open(name, _O_STEP, dir_fd=fd)
            os.close(fd)
            fd = step
        final = os.open(".", _O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = final
        yield fd
    finally:
        os.close(fd)


def open_regular(path: Path, name: str) -> BinaryIO:
    """Open a resolved path for reading, if it is a regular file.  ``name`` is what error texts call it.

    Raises:
        ToolError: there is none, it is something else, or it may not be read.
    """
    try:
        with directory(path.parent) as parent:
            _must_be_regular(os.stat(path.name or ".", dir_fd=parent, follow_symlinks=False).st_mode, name)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            fd = os.open(path.name, flags, dir_fd=parent)
    except OSError as error:
        raise ToolError(os_reason(error, name, path)) from None
    file = os.fdopen(fd, "rb", buffering=0)
    try:
        _must_be_regular(os.fstat(fd).st_mode, name)
    except ToolError:
        file.close()
        raise
    return file


def os_reason(error: OSError, name: str, path: Path) -> str:
    """Return one sentence for the model on what the system refused, with similar names for a missing file."""
    if isinstance(error, FileNotFoundError):
        near = _neighbours(path)
        return f"{name!r} does not exist." + (f" Similar: {', '.join(near)}." if near else "")
    if isinstance(error, NotADirectoryError):
        return f"{name!r} cannot exist: a part of its path is a file, not a directory."
    if isinstance(error, PermissionError):
        return f"{name!r} may not be opened: permission denied by the system."
    return f"{name!r}: {error.strerror or error}."


def _expanded(raw: str) -> str:
    if not raw.strip():
        raise ToolError("the path is empty.")
    if bad := next((c for c in raw if ord(c) < 32), None):
        raise ToolError(
            f"the path {raw!r} holds the control character {bad!r}. "
            "If a backslash was meant, write it as two (\\\\); otherwise leave it out."
        )
    return os.path.expanduser(raw)


def _must_be_regular(mode: int, name: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise ToolError(f"{name!r} is a directory; use list_dir.")
    kinds = ((stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISLNK, "a symlink that just changed"))
    kind = next((text for test, text in kinds if test(mode)), "a device")
    raise ToolError(f"{name!r} is {kind}, not a regular file; it is not opened because that could block forever.")


def _tree(path: str) -> str:
    """Return the path with a slash, so that a prefix is a directory."""
    return path.rstrip("/") + "/"


def _identity(path: str | Path, look: Callable[[str | Path], os.stat_result]) -> tuple[int, int] | None:
    """Return device and inode of a file: what a hard link cannot hide."""
    try:
        info = look(path)
    except (OSError, ValueError):
        return None
    return (info.st_dev, info.st_ino)


def _neighbours(path: Path) -> list[str]:
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            names.append(entry.name)
            if len(names) >= _MAX_NEIGHBOURS:
                break
    return difflib.get_close_matches(path.name, sorted(names), n=3, cutoff=0.6)
