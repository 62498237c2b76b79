"""Which files a tool may touch.

A path is resolved (``~``, ``..``, symlinks) and checked against the roots; ``opening`` then opens what was checked and nothing
else.  This keeps the file tools in.  It is no boundary for ``exec``: only a sandbox is.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import BinaryIO

from nanobot.agent.tools.base import Sourced
from nanobot.agent.tools.files.opening import Walls, closed_reason, open_regular
from nanobot.bus.events import Role
from nanobot.errors import ToolError
from nanobot.values import frozen

_KERNEL = ("/proc/", "/sys/", "/dev/")
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4_000


@frozen
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

        The check is by name and for the sake of a clear answer; open the path with ``walls``, which see through other names.

        Raises:
            ToolError: it may not be touched, or cannot be a path.
        """
        base = os.path.realpath(workspace)
        path = os.path.realpath(os.path.join(base, _expanded(raw, base)))
        if self._is_closed(path, workspace):
            raise ToolError(closed_reason(raw))
        own = _tree(path)
        roots = (base, *map(os.path.realpath, self.extra_roots))
        if self.restrict and not own.startswith(tuple(map(_tree, roots))):
            via = " (it leads there through a symlink or ..)" if not os.path.isabs(raw) else ""
            raise ToolError(f"{raw!r} is outside the workspace {base!r}{via}. Use a path inside it.")
        if own.startswith(_KERNEL):
            raise ToolError(f"{raw!r} is a device or kernel file, not a file with contents; use exec to look at it.")
        return Path(path)

    def resolve_to_list(self, raw: str, workspace: Path, role: Role) -> Path:
        """Return the real path of what is to be listed or searched through.

        What came in by any chat lies together in an extra root, each file under a name that nobody guesses; so members of groups
        may name such a file, but not look which there are.

        Raises:
            ToolError: as ``resolve``; or it is closed to this role.
        """
        path = self.resolve(raw, workspace)
        if role not in ("owner", "user") and path.is_dir() and not path.is_relative_to(os.path.realpath(workspace)):
            raise ToolError(f"members of groups may not look what is in {raw!r}; name a file in it by its whole path.")
        return path

    def walls(self, workspace: Path) -> Walls:
        """Return what is closed by its identity, for one call."""
        return Walls(self.denied, (workspace, *self.extra_roots))

    def open(self, raw: str, workspace: Path) -> tuple[Path, BinaryIO]:
        """Open the regular file that ``raw`` names; return its real path too.

        Raises:
            ToolError: it may not be touched, is not there, or is no regular file.
        """
        path = self.resolve(raw, workspace)
        return path, open_regular(path, raw, self.walls(workspace))

    def _is_closed(self, path: str, workspace: Path) -> bool:
        roots = [_tree(os.path.realpath(root)) for root in (workspace, *self.extra_roots)]
        own = _tree(path)
        for entry in self.denied:
            if own.startswith(tree := _tree(os.path.realpath(entry))):
                return not any(root.startswith(tree) and root != tree and own.startswith(root) for root in roots)
        with contextlib.suppress(OSError):  # a hard link to a denied file
            return self.walls(workspace).closed_after(os.lstat(path), before=False)
        return False


def shown(path: Path, workspace: Path) -> str:
    """Return the path as the model should write it: relative inside the workspace."""
    base, own = _tree(os.path.realpath(workspace)), str(path)
    return own.removeprefix(base) if _tree(own) != base else "."


def printed(name: str) -> str:
    """Return a file's name as part of a line: one that could end the line is quoted."""
    return name if name.isprintable() else ascii(name)


def sourced(text: str, path: Path, workspace: Path) -> str | Sourced:
    """Return what a file says, as its words if it lies outside the workspace."""
    if _tree(str(path)).startswith(_tree(os.path.realpath(workspace))):
        return text
    return Sourced(text, f"file {path}")


def _expanded(raw: str, base: str) -> str:
    if not raw.strip():
        raise ToolError("the path is empty.")
    if bad := next((c for c in raw if ord(c) < 32), None):
        raise ToolError(
            f"the path {raw!r} holds the control character {bad!r}. "
            "If a backslash was meant, write it as two (\\\\); otherwise leave it out."
        )
    try:
        encoded = os.fsencode(raw)
    except UnicodeEncodeError:
        raise ToolError(f"the path {raw!r} holds a character that no file name can hold.") from None
    if len(encoded) > _MAX_PATH_BYTES or any(len(part) > _MAX_NAME_BYTES for part in encoded.split(b"/")):
        raise ToolError(
            f"the path {raw[:60]!r}… is too long: a name holds {_MAX_NAME_BYTES} bytes, a path {_MAX_PATH_BYTES:,}."
        )
    if (variable := _VARIABLE.match(raw)) and not os.path.lexists(os.path.join(base, raw.split("/", 1)[0])):
        raise ToolError(f"{variable.group()} is not expanded in paths; write the path itself.")
    return os.path.expanduser(raw)


def _tree(path: str) -> str:
    """Return the path with a slash, so that a prefix is a directory."""
    return path.rstrip("/") + "/"
