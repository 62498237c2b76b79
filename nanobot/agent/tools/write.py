"""Changing files: ``write_file`` and ``edit_file``.

Both are verifiable: ``plan`` names the content's hash before and after and keeps the old content in the call's scratch directory,
``probe`` compares.  Both are atomic, keep the file's mode, and refuse what paths refuse.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import ArgumentsT, BaseTool, Planned, Probed, ToolContext
from nanobot.agent.tools.decode import Binary, Text, sniff
from nanobot.agent.tools.editing import Edited, Replacement, replace_all_of
from nanobot.agent.tools.paths import PathRules
from nanobot.agent.tools.writing import Version, planned_change, probe_change, read_version, write_atomic
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_MAX_EDIT_BYTES = 10 << 20
_MAX_OLD_BYTES = 1 << 30
_END_S = 10.0  # a disk that takes longer is not waited for


class WriteFileArguments(ToolArguments):
    path: str = Field(description="File to write, relative to the workspace")
    content: str = Field(description="All of its content")


class WriteFile(BaseTool[WriteFileArguments]):
    """Whole files."""

    name = "write_file"
    description = (
        "Write a whole text file (UTF-8), replacing what is there; missing directories are made. "
        "To change a part, use edit_file."
    )
    arguments = WriteFileArguments
    effect: Effect = "verifiable"
    summary_fields = ("path",)

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def plan(self, arguments: WriteFileArguments, context: ToolContext) -> Planned:
        """Hash before and after; keep the old content."""
        return await asyncio.to_thread(self._plan, arguments, context)

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> str:
        """Write it."""
        return await _to_its_end(self._write, arguments, context.workspace)

    async def probe(self, arguments: WriteFileArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return await asyncio.to_thread(probe_change, planned, context)

    def _plan(self, arguments: WriteFileArguments, context: ToolContext) -> Planned:
        path = self._rules.resolve(arguments.path, context.workspace)
        before = read_version(path, arguments.path, max_bytes=_MAX_OLD_BYTES)
        return planned_change(path, before, _encoded(arguments.content), context.scratch)

    def _write(self, arguments: WriteFileArguments, workspace: Path) -> str:
        path = self._rules.resolve(arguments.path, workspace)
        content = _encoded(arguments.content)
        is_new = not path.exists()
        write_atomic(path, arguments.path, content)
        lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and arguments.content != "")
        size = f"{lines:,} line{'s' if lines != 1 else ''}, {len(content):,} bytes"
        return f"{'Created' if is_new else 'Replaced'} {arguments.path} ({size})."


class Edit(ToolArguments):
    old_text: str
    new_text: str
    replace_all: bool = False


class EditFileArguments(ToolArguments):
    path: str = Field(description="File to change, relative to the workspace")
    old_text: str | None = Field(
        default=None, description="Text to replace, exactly as it is in the file, unique in it"
    )
    new_text: str | None = Field(default=None, description="What to put in its place")
    replace_all: bool = Field(default=False, description="Replace every occurrence")
    edits: list[Edit] = Field(
        default_factory=list[Edit], description="Several edits at once instead, applied in order, all or none"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.edits and (self.old_text is not None or self.new_text is not None):
            raise ValueError("give either old_text and new_text, or edits, not both")
        if not self.edits and (self.old_text is None or self.new_text is None):
            raise ValueError("old_text and new_text are required (or a list of edits)")
        return self

    def replacements(self) -> list[Replacement]:
        """Return the edits, whichever form they came in."""
        edits = self.edits or [
            Edit(old_text=self.old_text or "", new_text=self.new_text or "", replace_all=self.replace_all)
        ]
        return [Replacement(edit.old_text, edit.new_text, edit.replace_all) for edit in edits]


@dataclass(frozen=True, slots=True)
class _Change:
    path: Path
    before: Version
    after: bytes
    edited: Edited


class EditFile(BaseTool[EditFileArguments]):
    """Parts of files."""

    name = "edit_file"
    description = (
        "Replace exact text in a file. old_text must be in the file exactly once (white space counts, line ends do not), "
        "without the line numbers that read_file shows. Line ends, encoding and mode are kept."
    )
    arguments = EditFileArguments
    effect: Effect = "verifiable"
    summary_fields = ("path",)

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def plan(self, arguments: EditFileArguments, context: ToolContext) -> Planned:
        """Hash before and after; keep the old content."""
        return await asyncio.to_thread(self._plan, arguments, context)

    async def run(self, arguments: EditFileArguments, context: ToolContext) -> str:
        """Change it."""
        return await _to_its_end(self._edit, arguments, context.workspace)

    async def probe(self, arguments: EditFileArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return await asyncio.to_thread(probe_change, planned, context)

    def _plan(self, arguments: EditFileArguments, context: ToolContext) -> Planned:
        change = self._change(arguments, context.workspace)
        return planned_change(change.path, change.before, change.after, context.scratch)

    def _edit(self, arguments: EditFileArguments, workspace: Path) -> str:
        change = self._change(arguments, workspace)
        write_atomic(change.path, arguments.path, change.after, expected=change.before)
        count = len(change.edited.lines)
        where = ", ".join(str(line) for line in change.edited.lines[:10] if line)
        return f"Changed {arguments.path}: {count} replacement{'s' if count != 1 else ''}" + (
            f" (line{'s' if count != 1 else ''} {where})." if where else "."
        )

    def _change(self, arguments: EditFileArguments, workspace: Path) -> _Change:
        path = self._rules.resolve(arguments.path, workspace)
        before = read_version(path, arguments.path, max_bytes=_MAX_EDIT_BYTES)
        if before is None:
            raise ToolError(f"{arguments.path!r} does not exist; use write_file to create it.")
        form = sniff(before.content, complete=True)
        if isinstance(form, Binary):
            raise ToolError(f"{arguments.path!r} is not text ({form.kind}).")
        edited = replace_all_of(_decoded(before.content, form, arguments.path), arguments.replacements())
        return _Change(path, before, _encoded(edited.text, form), edited)


async def _to_its_end(write: Callable[[ArgumentsT, Path], str], arguments: ArgumentsT, workspace: Path) -> str:
    """Write in a thread; when cancelled, wait for it, so that nothing changes any more once the cancellation is out."""
    writing = asyncio.create_task(asyncio.to_thread(write, arguments, workspace), name="write a file")
    try:
        return await asyncio.shield(writing)
    finally:
        await asyncio.wait([writing], timeout=_END_S)


def _decoded(content: bytes, form: Text, name: str) -> str:
    try:
        return content[len(form.bom) :].decode(form.codec)
    except UnicodeDecodeError as error:
        raise ToolError(f"{name!r} cannot be edited as {form.encoding}: invalid bytes at {error.start:,}.") from None


def _encoded(text: str, form: Text | None = None) -> bytes:
    form = form or Text("utf-8")
    try:
        return form.bom + text.encode(form.codec)
    except UnicodeEncodeError as error:
        bad = text[error.start : error.start + 1]
        raise ToolError(f"the character {bad!r} cannot be written in the file's encoding ({form.encoding}).") from None
