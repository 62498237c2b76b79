"""Reading files: ``read_file``.

Text streams: a file of any size costs the same memory.  The output fits its own budget at line ends, so that the hint to the next
page is exact.  Documents become text first, in a process of their own; pictures are shown as they are.  Everything else is refused
with what to do instead.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Result, ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.session.entries import Effect

if TYPE_CHECKING:
    from nanobot.agent.tools.files.reader import Reader


class ReadFileArguments(ToolArguments):
    path: str = Field(description="File to read, relative to the workspace")
    offset: int = Field(default=1, ge=1, description="Number of the first line")
    limit: int = Field(default=2_000, ge=1, le=10_000, description="How many lines at most")
    pages: str | None = Field(default=None, description="PDF pages, slides or sheets: 3, 2-5, 4-")
    encoding: str | None = Field(default=None, description="Only if it is not recognized, such as cp1251")
    raw: bool = Field(default=False, description="A notebook's own JSON")


class ReadFile(BaseTool[ReadFileArguments]):
    """Files as numbered lines, and pictures."""

    name = "read_file"
    description = (
        "Read a file: text, PDF, DOCX, XLSX, PPTX or a notebook. Gives numbered lines (number, tab, text) from line `offset` on, "
        "and where to go on if there are more. The numbers are not part of the file. PNG, JPEG, GIF and WebP images you see."
    )
    arguments = ReadFileArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    says_unchanged = True
    summary_fields = ("path",)

    def __init__(self, rules: PathRules, *, max_chars: int = 16_000) -> None:
        self._rules = rules
        self.max_observation_chars: int | None = max_chars
        self._max_chars = max_chars

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> Result:
        """Read the page."""
        return await self._reader.read(arguments, context)

    @cached_property
    def _reader(self) -> "Reader":
        from nanobot.agent.tools.files.reader import Reader  # lazily: for calls

        return Reader(self._rules, max_chars=self._max_chars)
