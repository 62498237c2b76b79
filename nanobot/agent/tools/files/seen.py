"""What the model last saw of each file, so that it does not write over what somebody else has changed since.

A small file in the session's own directory holds the hashes; so it outlives a restart.  A file that the model never read may be
changed: an edit must match it anyway, and a whole file is the model's own text.  What is lost (an old session, a full disk) makes
us forget, never refuse.
"""

import contextlib
import json
import os
from pathlib import Path

from nanobot.agent.tools.base import ToolContext
from nanobot.errors import ToolError

MAX_SEEN_BYTES = 10 << 20
"""Larger files are not remembered: they cannot be edited either."""

_NAME = "seen-files"
_MAX_BYTES = 256 << 10
_KEPT = 500


def note(context: ToolContext, path: Path, sha256: str | None) -> None:
    """Remember that the model knows the file's content by this hash; None: that it is gone."""
    if context.session_files is None:
        return
    with contextlib.suppress(OSError):
        context.session_files.mkdir(mode=0o700, parents=True, exist_ok=True)
        book = context.session_files / _NAME
        fd = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "ab") as file:
            file.write((json.dumps([str(path), sha256]) + "\n").encode())
            size = file.tell()
        if size > _MAX_BYTES:
            _shorten(book)


def refuse_if_changed(context: ToolContext, path: Path, sha256: str, name: str) -> None:
    """Let a change of a file pass only if the file is as the model last saw it, or was never seen.

    Raises:
        ToolError: it was changed since.
    """
    if context.session_files is None:
        return
    if (seen := _read(context.session_files / _NAME).get(str(path))) is not None and seen != sha256:
        raise ToolError(
            f"{name!r} was changed since you last read it (by a command, a person or another conversation). "
            "Read it again before you change it; nothing was changed."
        )


def _read(book: Path) -> dict[str, str | None]:
    """Return the newest hash of each file, the newest file last."""
    found: dict[str, str | None] = {}
    try:
        lines = book.read_bytes().splitlines()
    except OSError:
        return found
    for line in lines:
        with contextlib.suppress(ValueError, TypeError):  # a line that a crash cut short
            path, sha256 = json.loads(line)
            found.pop(path, None)
            found[path] = sha256
    return found


def _shorten(book: Path) -> None:
    newest = list(_read(book).items())[-_KEPT:]
    partial = book.with_name(f"{_NAME}.{os.getpid()}.partial")
    partial.write_bytes(b"".join((json.dumps(row) + "\n").encode() for row in newest))
    partial.replace(book)
