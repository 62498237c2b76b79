"""Changing files: ``write_file`` and ``edit_file``.

Both are verifiable: ``plan`` names the content's hash before and after and keeps the old content in the call's scratch directory,
``probe`` compares.  Both are atomic, keep the file's mode, and refuse what paths refuse.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, Planned, Probed, ToolContext
from nanobot.agent.tools.files import changes, seen
from nanobot.agent.tools.files.changes import Change, sha256
from nanobot.agent.tools.files.decode import Binary, sniff
from nanobot.agent.tools.files.editing import Edited, Replacement, replace_all_of
from nanobot.agent.tools.files.encoding import decoded, encoded, in_form_of
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.writing import Version, Written, read_version, write_atomic
from nanobot.agent.tools.threads import to_its_end
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_MAX_OLD_BYTES = 1 << 30


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
        return await to_its_end(context.in_thread, self._write, arguments, context)

    async def probe(self, arguments: WriteFileArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return await asyncio.to_thread(changes.probe, planned, context.scratch)

    def _plan(self, arguments: WriteFileArguments, context: ToolContext) -> Planned:
        path, before, content, _ = self._wanted(arguments, context)
        return changes.planned([Change(path, before, content)], context.scratch)

    def _write(self, arguments: WriteFileArguments, context: ToolContext) -> str:
        path, before, content, kept = self._wanted(arguments, context)
        walls = self._rules.walls(context.workspace)
        written = write_atomic(path, arguments.path, content, expected=before, is_new=before is None, walls=walls)
        seen.note(context, path, sha256(content))
        lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and arguments.content != "")
        size = f"{lines:,} line{'s' if lines != 1 else ''}, {len(content):,} bytes{kept}"
        return f"{'Replaced' if written.replaced else 'Created'} {arguments.path} ({size}).{_other_names(written)}"

    def _wanted(self, arguments: WriteFileArguments, context: ToolContext) -> tuple[Path, Version | None, bytes, str]:
        """Return the path, what is there, its new content, and in words what that keeps of the old one's form."""
        path = self._rules.resolve(arguments.path, context.workspace)
        walls = self._rules.walls(context.workspace)
        before = read_version(path, arguments.path, max_bytes=_MAX_OLD_BYTES, walls=walls)
        if before is not None:
            seen.refuse_if_changed(context, path, sha256(before.content), arguments.path)
        content, kept = in_form_of(before.content if before else b"", arguments.content)
        return path, before, content, kept


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
        default_factory=list[Edit],
        description="Several at once, each matched against the file as it is; all or none",
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
        return await to_its_end(context.in_thread, self._edit, arguments, context)

    async def probe(self, arguments: EditFileArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return await asyncio.to_thread(changes.probe, planned, context.scratch)

    def _plan(self, arguments: EditFileArguments, context: ToolContext) -> Planned:
        change = self._change(arguments, context)
        return changes.planned([Change(change.path, change.before, change.after)], context.scratch)

    def _edit(self, arguments: EditFileArguments, context: ToolContext) -> str:
        change = self._change(arguments, context)
        walls = self._rules.walls(context.workspace)
        written = write_atomic(change.path, arguments.path, change.after, expected=change.before, walls=walls)
        seen.note(context, change.path, sha256(change.after))
        count = len(change.edited.lines)
        where = ", ".join(str(line) for line in change.edited.lines[:10] if line)
        lines = f" (line{'s' if count != 1 else ''} {where})" if where else ""
        return (
            f"Changed {arguments.path}: {count} replacement{'s' if count != 1 else ''}{lines}.{_other_names(written)}"
        )

    def _change(self, arguments: EditFileArguments, context: ToolContext) -> _Change:
        path = self._rules.resolve(arguments.path, context.workspace)
        walls = self._rules.walls(context.workspace)
        before = read_version(path, arguments.path, max_bytes=seen.MAX_SEEN_BYTES, walls=walls)
        if before is None:
            raise ToolError(f"{arguments.path!r} does not exist; use write_file to create it.")
        seen.refuse_if_changed(context, path, sha256(before.content), arguments.path)
        form = sniff(before.content, complete=True)
        if isinstance(form, Binary):
            raise ToolError(f"{arguments.path!r} is not text ({form.kind}).")
        edited = replace_all_of(decoded(before.content, form, arguments.path), arguments.replacements())
        return _Change(path, before, encoded(edited.text, form), edited)


def _other_names(written: Written) -> str:
    return " It had other hard links; those keep the old content." if written.other_names else ""
