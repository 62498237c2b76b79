"""Text of a PowerPoint file, slide by slide, with the speaker's notes."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from nanobot.agent.tools.documents.archive import check_archive
from nanobot.agent.tools.documents.limits import Extract, Wanted

_MAX_DEPTH = 8  # of groups in groups


def read_pptx(pptx: Any, file: BinaryIO, wanted: Wanted, extract: Extract) -> None:  # Any: the library, loaded late
    """Add the text of the wanted slides."""
    check_archive(file)
    slides = list(pptx.Presentation(file).slides)
    extract.count = len(slides)
    for number in wanted.of(extract.count, "slide"):
        slide = slides[number - 1]
        extract.add(f"--- slide {number} ---")
        for line in _lines(slide.shapes, 0):
            extract.add(line)
        if slide.has_notes_slide and (notes := str(slide.notes_slide.notes_text_frame.text).strip()):
            extract.add(f"[notes] {notes}")
        extract.last = number


def _lines(shapes: Any, depth: int) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _MAX_DEPTH:
            yield from _lines(shape.shapes, depth + 1)
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                yield " | ".join(str(cell.text).replace("\n", " / ") for cell in row.cells)
        elif shape.has_text_frame and (text := str(shape.text_frame.text).strip()):
            yield text.replace("\v", "\n")
