"""Looking at many files below one directory, each reached by a walk that follows no link.

A search program walks by path, so a directory that is swapped for a link while it runs can lead it anywhere.  What it names is
therefore a guess: only what this finds again inside, and opens there, is read or shown.
"""

import contextlib
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from nanobot.agent.tools.files.opening import Walls, directory, is_closed, open_at
from nanobot.errors import ToolError


class Inside:
    """Files by their names relative to a resolved directory; names that follow each other share their directory."""

    def __init__(self, root: Path, walls: Walls) -> None:
        self._root = root
        self._walls = walls
        self._parent: int | None = None
        self._parent_name: str | None = None
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def has(self, name: str) -> bool:
        """Return whether this is a regular file inside that may be seen."""
        directory_name, entry = os.path.split(name)
        parent = self._enter(directory_name)
        try:
            info = os.stat(entry, dir_fd=parent, follow_symlinks=False) if parent is not None else None
        except OSError:
            return False
        return info is not None and stat.S_ISREG(info.st_mode) and not is_closed(info, self._walls)

    def open(self, name: str) -> int | None:
        """Return a descriptor of the file, None if it is not inside or may not be read."""
        directory_name, entry = os.path.split(name)
        parent = self._enter(directory_name)
        try:
            return None if parent is None else open_at(parent, entry, name, self._walls)
        except (OSError, ToolError):
            return None

    def _enter(self, name: str) -> int | None:
        if name != self._parent_name:
            self._held.close()
            self._parent, self._parent_name = None, name
            with contextlib.suppress(OSError, ToolError):
                self._parent = self._held.enter_context(directory(self._root / name, walls=self._walls))
        return self._parent
