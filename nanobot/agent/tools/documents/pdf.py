"""Text of a PDF, page by page."""

from typing import Any, BinaryIO

from nanobot.agent.tools.documents.limits import Extract, Unreadable, Wanted


def read_pdf(pypdf: Any, file: BinaryIO, wanted: Wanted, extract: Extract) -> None:  # Any: the library, loaded late
    """Add the text of the wanted pages."""
    reader = pypdf.PdfReader(file)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable("it is protected by a password.")
    extract.count = len(reader.pages)
    empty = 0
    for number in wanted.of(extract.count, "page"):
        text = str(reader.pages[number - 1].extract_text()).strip()
        empty += not text
        extract.add(f"--- page {number} ---\n{text or '[no text on this page]'}")
        extract.last = number
    if empty:
        extract.notes.append(
            f"{empty} of these pages hold{'s' if empty == 1 else ''} no text, perhaps scans; OCR with exec"
        )
