"""Changing files: ``write_file`` and ``edit_file``.

Both are verifiable: ``plan`` names the content's hash before and after and keeps the old content in the call's scratch directory,
``probe`` compares.  Both are atomic, keep the file's mode, and refuse what paths refuse.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, Planned, Probed, ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.threads import in_thread, to_its_end
from nanobot.session.entries import Effect

if TYPE_CHECKING:
    from nanobot.agent.tools.files.changing import Editor, Writer


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
        return await in_thread(self._writer.plan, arguments, context)

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> str:
        """Write it."""
        return await to_its_end(context.in_thread, self._writer.write, arguments, context)

    async def probe(self, arguments: WriteFileArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return await in_thread(self._writer.probe, context, planned)

    @cached_property
    def _writer(self) -> "Writer":
        from nanobot.agent.tools.files.changing import Writer  # lazily: for calls

        return Writer(self._rules)


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

    def all_edits(self) -> list[Edit]:
        """Return the edits, whichever form they came in."""
        return self.edits or [
            Edit(old_text=self.old_text or "", new_text=self.new_text or "", replace_all=self.replace_all)
        ]


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
        return await in_thread(self._editor.plan, arguments, context)

    async def run(self, arguments: EditFileArguments, context: ToolContext) -> str:
        """Change it."""
        return await to_its_end(context.in_thread, self._editor.edit, arguments, context)

    async def probe(self, arguments: EditFileArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes."""
        return await in_thread(self._editor.probe, context, planned)

    @cached_property
    def _editor(self) -> "Editor":
        from nanobot.agent.tools.files.changing import Editor  # lazily: for calls

        return Editor(self._rules)
