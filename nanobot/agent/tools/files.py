"""Looking at files: ``read_file`` and ``list_dir``.

``read_file`` streams: a file of any size costs the same memory.  It fits its own output to its budget at line ends, so that the
hint to the next page is exact.  Everything else is refused with what to do instead.
"""

import asyncio
import contextlib
import hashlib
import itertools
import os
import stat
from pathlib import Path
from typing import BinaryIO

from pydantic import Field

from nanobot.agent.tools import seen
from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.agent.tools.decode import Binary, Text, sniff
from nanobot.agent.tools.opening import Walls, directory, is_closed, os_reason
from nanobot.agent.tools.paths import PathRules, printed, shown, sourced
from nanobot.agent.tools.reading import CHUNK_BYTES, Page, read_page
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_SAMPLE_BYTES = 8_192
_FOOTER_CHARS = 300
_MAX_ENTRIES = 20_000


class ReadFileArguments(ToolArguments):
    path: str = Field(description="File to read, relative to the workspace")
    offset: int = Field(default=1, ge=1, description="Number of the first line")
    limit: int = Field(default=2_000, ge=1, le=10_000, description="How many lines at most")


class ReadFile(BaseTool[ReadFileArguments]):
    """Text files as numbered lines."""

    name = "read_file"
    description = (
        "Read a text file. Gives numbered lines (number, tab, text) from line `offset` on, and where to go on if there are more. "
        "The numbers are not part of the file."
    )
    arguments = ReadFileArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    summary_fields = ("path",)

    def __init__(self, rules: PathRules, *, max_chars: int = 16_000) -> None:
        self._rules = rules
        self.max_observation_chars: int | None = max_chars
        self._page_chars = max(500, max_chars - _FOOTER_CHARS)

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> str | Sourced:
        """Read the page."""
        return await asyncio.to_thread(self._read, arguments, context)

    def _read(self, arguments: ReadFileArguments, context: ToolContext) -> str | Sourced:
        path, file = self._rules.open(arguments.path, context.workspace)
        with file:
            size = os.fstat(file.fileno()).st_size
            sample = file.read(_SAMPLE_BYTES)
            form = sniff(sample, complete=len(sample) < _SAMPLE_BYTES)
            if isinstance(form, Binary):
                raise ToolError(_binary(arguments.path, form, size))
            sha256 = _sha256(file) if size <= seen.MAX_SEEN_BYTES else None
            page = read_page(file, form, first=arguments.offset, limit=arguments.limit, max_chars=self._page_chars)
        text = _render(page, arguments, form, size)
        seen.note(context, path, sha256)
        return sourced(text, path, context.workspace)


class ListDirArguments(ToolArguments):
    path: str = Field(default=".", description="Directory, relative to the workspace")
    limit: int = Field(default=500, ge=1, le=5_000, description="How many entries at most")


class ListDir(BaseTool[ListDirArguments]):
    """What lies in a directory."""

    name = "list_dir"
    description = (
        "List one directory by name, hidden entries too: directories end with /, files show their size, symlinks their target. "
        "Use glob to search deeper."
    )
    arguments = ListDirArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    summary_fields = ("path",)

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def run(self, arguments: ListDirArguments, context: ToolContext) -> str | Sourced:
        """List it."""
        return await asyncio.to_thread(self._list, arguments, context.workspace)

    def _list(self, arguments: ListDirArguments, workspace: Path) -> str | Sourced:
        path = self._rules.resolve(arguments.path, workspace)
        walls = self._rules.walls(workspace)
        try:
            with directory(path, walls=walls) as fd:
                names = _names(fd, walls)
                lines = [_describe(name, fd) for name in names[: arguments.limit]]
        except NotADirectoryError:
            raise ToolError(f"{arguments.path!r} is no directory; use read_file.") from None
        except OSError as error:
            raise ToolError(os_reason(error, arguments.path, path, walls)) from None
        where = shown(path, workspace)
        count = f"{len(names):,}{'+' if len(names) >= _MAX_ENTRIES else ''}"
        head = f"{where}/ ({count} {'entry' if len(names) == 1 else 'entries'})" if names else f"{where}/ is empty."
        left = len(names) - len(lines)
        tail = [f"[{left:,} more entries; raise limit, or use glob]"] if left > 0 else []
        return sourced("\n".join((head, *lines, *tail)), path, workspace)


def _names(fd: int, walls: Walls) -> list[str]:
    names: list[str] = []
    with os.scandir(fd) as found:
        for entry in itertools.islice(found, _MAX_ENTRIES):
            with contextlib.suppress(OSError):  # gone since
                if is_closed(os.stat(entry.name, dir_fd=fd, follow_symlinks=False), walls):
                    continue
            names.append(entry.name)
    return sorted(names)


def _sha256(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _binary(name: str, form: Binary, size: int) -> str:
    if form.is_image:
        return f"{name!r} is an image ({form.kind}, {size:,} bytes); read_file shows text only."
    return f"{name!r} is not text: {form.kind}, {size:,} bytes. Use exec with a fitting program to look into it."


def _render(page: Page, arguments: ReadFileArguments, form: Text, size: int) -> str:
    if not page.lines:
        return _nothing(page, arguments)
    lines = [f"{line.number}\t{line.text}" + _clip_note(line.full_bytes) for line in page.lines]
    return "\n".join((*lines, *_footer(page, form, size)))


def _nothing(page: Page, arguments: ReadFileArguments) -> str:
    if page.timed_out or page.total is None:
        raise ToolError(
            f"line {arguments.offset:,} of {arguments.path!r} was not reached in time. Use exec with sed or tail."
        )
    if page.total == 0:
        return f"[{arguments.path} is empty]"
    lines = "1 line" if page.total == 1 else f"{page.total:,} lines"
    raise ToolError(f"{arguments.path!r} has only {lines}; offset {arguments.offset:,} is beyond its end.")


def _clip_note(full_bytes: int) -> str:
    return f" … [line clipped; it is {full_bytes:,} bytes long]" if full_bytes else ""


def _footer(page: Page, form: Text, size: int) -> list[str]:
    last = page.lines[-1].number
    notes: list[str] = []
    if page.timed_out:
        notes.append(f"reading stopped after too long a time; the file is {size:,} bytes")
    elif page.total is None:
        notes.append(f"more lines follow (the file is {size:,} bytes); go on with offset={last + 1}")
    elif last < page.total:
        notes.append(f"lines {page.lines[0].number}-{last} of {page.total:,}; go on with offset={last + 1}")
    if form.encoding == "latin-1":
        notes.append("not valid UTF-8; shown as Latin-1")
    elif form.encoding.startswith("utf-16"):
        notes.append("encoded as UTF-16")
    return [f"[{'; '.join(notes)}]"] if notes else []


def _describe(entry: str, fd: int) -> str:
    name = printed(entry)
    try:
        info = os.stat(entry, dir_fd=fd, follow_symlinks=False)
    except OSError:  # gone since, or not ours to see
        return f"{name}  (cannot be examined)"
    if stat.S_ISDIR(info.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(info.st_mode):
        return f"{name} -> {printed(_target(entry, fd))}"
    if stat.S_ISREG(info.st_mode):
        return f"{name}  {info.st_size:,} bytes"
    return f"{name}  (device, FIFO or socket)"


def _target(name: str, fd: int) -> str:
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError:
        return "?"
