"""What a call is about to do to files, as its intent says it, and what became of it.

One form for every tool that changes files, and for ``/undo``.  ``before`` and ``after`` are ``{"files": [...]}``, in the same
order: a file is ``{"path", "sha256" (null: no such file)}`` and, before, where its old content is kept in the call's scratch
directory (``"kept"``, null: it was none, or too large to keep) and its ``"mode"``.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from nanobot.agent.tools.base import Planned, Probed
from nanobot.agent.tools.files.writing import Version, read_version, remove, write_atomic
from nanobot.agent.tools.scratch import KEPT
from nanobot.errors import ToolError
from nanobot.messages import JsonObject
from nanobot.values import frozen

_MAX_KEPT_BYTES = 10 << 20
_MAX_PROBED_BYTES = 1 << 30


@frozen
class Change:
    """One file that will be other, new (``before`` is None) or gone (``after`` is None)."""

    path: Path
    before: Version | None
    after: bytes | None


@frozen
class FileChange:
    """A change as an intent holds it, in hashes (None: no such file); ``kept`` is where the old content lies."""

    path: Path
    before_sha256: str | None
    after_sha256: str | None
    kept: Path | None
    mode: int | None = None


def planned(changes: Sequence[Change], scratch: Path) -> Planned:
    """Return what a call is about to change, after keeping the old contents (durable) for an undo."""
    before: list[JsonObject] = []
    after: list[JsonObject] = []
    for number, change in enumerate(changes):
        was = change.before
        kept = f"{KEPT}-{number}" if was is not None and len(was.content) <= _MAX_KEPT_BYTES else None
        if was is not None and kept:
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(Path(os.path.realpath(scratch)) / kept, "the old content", was.content, mode=0o600)
        path = str(change.path)
        before.append({
            "path": path, "sha256": sha256(was.content) if was else None, "kept": kept, "mode": was.mode if was else None,
        })  # fmt: skip
        after.append({"path": path, "sha256": None if change.after is None else sha256(change.after)})
    return Planned(before={"files": list(before)}, after={"files": list(after)})


def recorded(before: JsonObject | None, after: JsonObject | None, scratch: Path) -> list[FileChange]:
    """Return the changes that an intent holds; none if it is about something else."""
    old, new = _files(before), _files(after)
    pairs = zip(old, new, strict=False)
    return [_recorded(was, becomes, scratch) for was, becomes in pairs if {"path", "sha256"} <= becomes.keys()]


def probe(plan: Planned, scratch: Path) -> Probed:
    """Compare the files with what the plan said.

    If some are as planned and the others as before, those are put back: a change of several files is all or nothing.
    """
    changes = recorded(plan.before, plan.after, scratch)
    if not changes:
        return Probed("not_done")  # without a plan nothing was about to change: run it and let it say why
    try:
        now = [current_sha256(change.path) for change in changes]
        done = [change for change, found in zip(changes, now, strict=True) if found == change.after_sha256]
        old = [change for change, found in zip(changes, now, strict=True) if found == change.before_sha256]
        if len(done) == len(changes):
            names = ", ".join(change.path.name for change in changes)
            what = "has its new content" if len(done) == 1 else "are as they were to become"
            return Probed("done", f"Done: {names} {what} (found so after a restart).")
        if len({change.path for change in (*done, *old)}) < len(changes):
            return Probed("unknown")
        for change in done:
            put_back(change)
    except ToolError:
        return Probed("unknown")
    return Probed("not_done")


def put_back(change: FileChange) -> None:
    """Make the file what it was before.

    Raises:
        ToolError: its old content is not kept any more, or the system refuses.
    """
    content = old_content(change)
    if content is None:
        remove(change.path, change.path.name, even_read_only=True)
    else:
        write_atomic(change.path, change.path.name, content, mode=change.mode, even_read_only=True)


def old_content(change: FileChange) -> bytes | None:
    """Return what was in the file, None if it was not there.

    Raises:
        ToolError: that is not kept any more.
    """
    if change.before_sha256 is None:
        return None
    content = change.kept.read_bytes() if change.kept is not None and change.kept.is_file() else None
    if content is None or sha256(content) != change.before_sha256:
        raise ToolError(f"the old content of {change.path.name} is not kept any more")
    return content


def current_sha256(path: Path) -> str | None:
    """Return the hash of the file that is there now, None if there is none.

    Raises:
        ToolError: it is no regular file, or may not be read.
    """
    version = read_version(path, path.name, max_bytes=_MAX_PROBED_BYTES)
    return sha256(version.content) if version else None


def sha256(content: bytes) -> str:
    """Return the hash by which contents are compared."""
    return hashlib.sha256(content).hexdigest()


def _files(side: JsonObject | None) -> list[JsonObject]:
    if side is None:
        return []
    rows = side.get("files", [side] if "path" in side else [])  # a single file stood alone in older logs
    return [cast("JsonObject", row) for row in cast("Iterable[object]", rows) if isinstance(row, dict)]


def _recorded(before: JsonObject, after: JsonObject, scratch: Path) -> FileChange:
    was, becomes, mode = before.get("sha256"), after.get("sha256"), before.get("mode")
    kept = before.get("kept", KEPT if before.get("preimage") else None)  # as older logs say it
    return FileChange(
        Path(str(after["path"])),
        was if isinstance(was, str) else None,
        becomes if isinstance(becomes, str) else None,
        scratch / kept if isinstance(kept, str) else None,
        mode if isinstance(mode, int) else None,
    )
