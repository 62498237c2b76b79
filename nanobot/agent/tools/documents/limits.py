"""What a document may cost, and the text it becomes.  Pure, and imported by both sides."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from nanobot.values import frozen

Kind: TypeAlias = Literal["pdf", "docx", "xlsx", "pptx", "ipynb"]

MAX_FILE_BYTES = 100 << 20
MAX_TEXT_CHARS = 2_000_000
MAX_OUTPUT_BYTES = 24 << 20  # that text as JSON
MAX_MEMORY_BYTES = 1 << 30
MAX_CPU_S = 20
TIMEOUT_S = 30.0

NAMES: dict[Kind, str] = {
    "pdf": "PDF document", "docx": "Word document", "xlsx": "Excel workbook", "pptx": "PowerPoint file",
    "ipynb": "Jupyter notebook",
}  # fmt: skip
UNITS: dict[Kind, tuple[str, int]] = {"pdf": ("page", 50), "xlsx": ("sheet", 20), "pptx": ("slide", 100)}
"""What ``pages`` counts, and how many are read when nothing is said."""


class Unreadable(Exception):
    """The document cannot be read; the text says why, for the model."""


class TooLong(Exception):
    """There is more text than anybody will read; what is there is kept."""


@frozen
class Wanted:
    """Units ``first`` to ``last``, from 1."""

    first: int
    last: int

    def of(self, count: int, unit: str) -> range:
        """Return the numbers of those that exist.

        Raises:
            Unreadable: none of them does.
        """
        if self.first > count:
            raise Unreadable(f"it has {count} {unit}{'s' if count != 1 else ''}; {self.first} is beyond its end.")
        return range(self.first, min(self.last, count) + 1)


@dataclass
class Extract:
    """The text so far, as lines, and notes for the reader.  ``count`` is how many units there are, ``last`` the last one read."""

    lines: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    count: int = 0
    last: int = 0
    chars: int = 0

    def add(self, text: str) -> None:
        """Add lines.

        Raises:
            TooLong: the text is full.
        """
        self.chars += len(text) + 1
        if self.chars > MAX_TEXT_CHARS:
            self.notes.append(f"the text is longer than {MAX_TEXT_CHARS:,} characters; the rest is left out")
            raise TooLong
        self.lines += text.split("\n")
