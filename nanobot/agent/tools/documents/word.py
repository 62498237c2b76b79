"""Text of a Word document: paragraphs and tables in their order."""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from nanobot.agent.tools.documents.archive import check_archive
from nanobot.agent.tools.documents.limits import Extract, Wanted

_MAX_DEPTH = 5  # of tables in tables


def read_docx(docx: Any, file: BinaryIO, wanted: Wanted, extract: Extract) -> None:  # Any: the library, loaded late
    """Add the text; a Word document has no pages before it is printed."""
    check_archive(file)
    document = docx.Document(file)
    for block in document.iter_inner_content():
        for line in _lines(block):
            extract.add(line)


def _lines(block: Any, depth: int = 0) -> Iterator[str]:
    if not hasattr(block, "rows"):
        text = str(block.text)
        if text.strip():
            yield _prefix(block) + text
        return
    for row in block.rows:
        seen: list[Any] = []  # a merged cell comes once for each column
        for cell in row.cells:
            if not any(cell._tc is other._tc for other in seen):  # the library has no public name for it
                seen.append(cell)
        yield " | ".join(str(cell.text).replace("\n", " / ") for cell in seen)
        if depth < _MAX_DEPTH:
            for cell in seen:
                for table in cell.tables:
                    yield from _lines(table, depth + 1)


def _prefix(paragraph: Any) -> str:
    name = str(paragraph.style.name) if paragraph.style is not None else ""
    if match := re.fullmatch(r"Heading (\d)", name):
        return "#" * int(match.group(1)) + " "
    return "# " if name == "Title" else "- " if name.startswith("List") else ""
