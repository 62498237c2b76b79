"""Documents, from our side: what kind a file is, and having a worker read it.

The worker is a process of its own with limits on memory and time, which gets the open file and nothing else: no path, no key, no
variable of ours.  It is killed at its time limit and when the caller is cancelled.
"""

import json
import os
import sys
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from nanobot.agent.tools.child import run_child
from nanobot.agent.tools.documents.limits import (
    MAX_FILE_BYTES,
    MAX_OUTPUT_BYTES,
    NAMES,
    TIMEOUT_S,
    UNITS,
    Kind,
    Wanted,
)
from nanobot.agent.tools.files.decode import Binary, Text
from nanobot.errors import ToolError
from nanobot.values import frozen

_SUFFIXES: dict[str, Kind] = {
    ".docx": "docx", ".docm": "docx", ".xlsx": "xlsx", ".xlsm": "xlsx", ".pptx": "pptx", ".pptm": "pptx",
}  # fmt: skip
_WORKER = "nanobot.agent.tools.documents.worker"


@frozen
class Document:
    """A document's text, and in words what was read of it."""

    text: str
    notes: tuple[str, ...]


def document_kind(name: str, form: Text | Binary) -> Kind | None:
    """Return what kind of document a file is by its first bytes and its name; None if it is none."""
    suffix = PurePath(name).suffix.lower()
    if isinstance(form, Binary):
        if form.kind.startswith("PDF"):
            return "pdf"
        return _SUFFIXES.get(suffix) if form.kind.startswith("zip") else None
    return "ipynb" if suffix == ".ipynb" else None


async def read_document(
    file: BinaryIO, kind: Kind, name: str, pages: tuple[int, int | None] | None, *, timeout_s: float = TIMEOUT_S
) -> Document:
    """Return the text of an open document.

    Args:
        file: open for reading, at any place.
        kind: what it is.
        name: what error texts call it.
        pages: the first and last page, sheet or slide (None: as many as are read at once); None: from the first on.
        timeout_s: when the worker is killed.

    Raises:
        ToolError: it cannot be read; the text says why and what would help.
    """
    size = os.fstat(file.fileno()).st_size
    if size > MAX_FILE_BYTES:
        raise ToolError(f"{name!r} is too large ({size:,} bytes; the limit is {MAX_FILE_BYTES:,}). Use exec.")
    wanted = _wanted(kind, pages)
    file.seek(0)
    fd = file.fileno()
    arguments = (kind, str(wanted.first), str(wanted.last), str(fd))
    found = await run_child(
        (sys.executable, "-P", "-B", "-X", "utf8", "-m", _WORKER, *arguments),
        timeout_s=timeout_s,
        max_bytes=MAX_OUTPUT_BYTES,
        pass_fds=(fd,),
    )
    what = f"{name!r} is a {NAMES[kind]} that cannot be read"
    if found.stopped == "time" or found.code in (-9, -24):  # SIGKILL, SIGXCPU: the system's limits
        raise ToolError(f"{what}: it took too long or too much. Try fewer pages, or a program with exec.")
    try:
        said = cast("dict[str, Any]", json.loads(found.output))  # Any: our worker's own JSON
    except ValueError:
        raise ToolError(f"{what}: the reader failed ({found.errors.strip()[-200:] or found.code}).") from None
    return _document(said, kind, what, wanted)


def parse_pages(raw: str) -> tuple[int, int | None]:
    """Return the range that ``3``, ``2-5`` or ``4-`` means.

    Raises:
        ToolError: it is no such range.
    """
    first, dash, last = (part.strip() for part in raw.partition("-"))
    if not (first.isdecimal() and (last.isdecimal() or not last)) or len(first + last) > 12:
        raise ToolError(f"pages={raw!r} is no range; write 3, 2-5 or 4-.")
    start, end = int(first), int(last) if last else None if dash else int(first)
    if start < 1 or (end is not None and end < start):
        raise ToolError(f"pages={raw!r} is no range; pages count from 1.")
    return start, end


def _wanted(kind: Kind, pages: tuple[int, int | None] | None) -> Wanted:
    if kind not in UNITS:
        if pages is not None:
            raise ToolError(f"a {NAMES[kind]} has no pages; use offset and limit.")
        return Wanted(1, 1)
    first, last = pages or (1, None)
    at_once = UNITS[kind][1]
    return Wanted(first, first + at_once - 1 if last is None else last)


def _document(said: dict[str, Any], kind: Kind, what: str, wanted: Wanted) -> Document:
    if "missing" in said:
        raise ToolError(
            f"{what}: the library {said['missing']!r} is not installed. "
            "The owner can add it with: pip install 'nanobot[documents]'"
        )
    if "error" in said:
        raise ToolError(f"{what}: {said['error']}")
    notes = [NAMES[kind]]
    if kind in UNITS:
        unit, count, last = UNITS[kind][0], int(said["count"]), int(said["last"])
        notes.append(f"{unit}s {wanted.first}-{last} of {count:,}")
        if last < count:
            notes.append(f'go on with pages="{last + 1}-"')
    return Document(str(said["text"]), (*notes, *(str(note) for note in said["notes"])))
