"""read_file of PDF, DOCX, XLSX, PPTX files and notebooks."""

import asyncio
import io
import json
import sys
import time
import zipfile
import zlib
from collections.abc import Sequence
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from nanobot.agent.tools.documents.limits import Wanted
from nanobot.agent.tools.documents.reading import parse_pages, read_document
from nanobot.agent.tools.documents.worker import answer
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.errors import ToolError
from tests.unit.agent.tools.conftest import Bench

READ = ReadFile(PathRules())


def pdf(pages: Sequence[str], *, extra: str = "") -> bytes:
    """Return a PDF with a line of text on each page."""
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{4 + 2 * i} 0 R' for i in range(len(pages)))}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() if text else b""
        packed = zlib.compress(content)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {extra} /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream")
    out, places = bytearray(b"%PDF-1.4\n"), list[int]()
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    return bytes(out) + f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()


def saved(document: Any) -> bytes:
    """Return what a library's document looks like on disk."""
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def library(name: str) -> Any:
    """Return one of the libraries, as something of any type."""
    return import_module(name)


def docx() -> bytes:
    """Return a Word document with a heading, a list and a table."""
    document = library("docx").Document()
    document.add_heading("Report", level=1)
    document.add_paragraph("First words.")
    document.add_paragraph("a point", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"c{number}"
    return saved(document)


def xlsx() -> bytes:
    """Return a workbook of two sheets."""
    book = library("openpyxl").Workbook()
    book.active.title = "Costs"
    for row in (["what", "when", "much"], ["rent", date(2026, 11, 1), 700.0], [], ["tax", None, 12.5]):
        book.active.append(row)
    book.create_sheet("Other").append(["x"])
    return saved(book)


def pptx() -> bytes:
    """Return two slides, one with a note."""
    deck = library("pptx").Presentation()
    for number in (1, 2):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Title {number}"
        slide.placeholders[1].text = "body"
    deck.slides[0].notes_slide.notes_text_frame.text = "say hello"
    return saved(deck)


def notebook() -> bytes:
    """Return a notebook with text, code, outputs and a picture."""
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["hi\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "42"}},
        {"output_type": "display_data", "data": {"image/png": "aGVsbG8=", "text/plain": "<Figure>"}},
        {"output_type": "error", "traceback": ["\x1b[31mZeroDivisionError\x1b[0m"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "print('hi')", "outputs": outputs},
    ]
    return json.dumps({"nbformat": 4, "cells": cells}).encode()


async def test_a_pdf_is_read_page_by_page(bench: Bench) -> None:
    """The text of the wanted pages, as numbered lines, and where to go on."""
    (bench.workspace / "a.pdf").write_bytes(pdf(["one", "two", "", "four"]))

    everything = await bench.text(READ, path="a.pdf")
    some = await bench.text(READ, path="a.pdf", pages="2")

    assert everything.startswith("[PDF document; pages 1-4 of 4; 1 of these pages holds no text")
    assert "1\t--- page 1 ---\n2\tone\n" in everything
    assert "[no text on this page]" in everything
    assert some == '[PDF document; pages 2-2 of 4; go on with pages="3-"]\n1\t--- page 2 ---\n2\ttwo'
    assert "it has 4 pages; 9 is beyond its end" in await bench.error(READ, path="a.pdf", pages="9-")
    assert "is no range" in await bench.error(READ, path="a.pdf", pages="two")


async def test_a_long_pdf_is_read_in_parts(bench: Bench) -> None:
    """Fifty pages at once when nothing is said."""
    (bench.workspace / "a.pdf").write_bytes(pdf(["words"] * 120))

    assert 'pages 1-50 of 120; go on with pages="51-"' in await bench.text(READ, path="a.pdf")


async def test_a_word_document_is_read(bench: Bench) -> None:
    """Headings, paragraphs, lists and tables, in order."""
    (bench.workspace / "a.docx").write_bytes(docx())

    text = await bench.text(READ, path="a.docx")

    assert text == "[Word document]\n1\t# Report\n2\tFirst words.\n3\t- a point\n4\tc0 | c1\n5\tc2 | c3"
    assert await bench.text(READ, path="a.docx", offset=2, limit=1) == (
        "[Word document]\n2\tFirst words.\n[lines 2-2 of 5; go on with offset=3]"
    )
    assert "has no pages" in await bench.error(READ, path="a.docx", pages="1")


async def test_a_workbook_is_read_sheet_by_sheet(bench: Bench) -> None:
    """Rows with their numbers; dates and whole numbers as people write them."""
    (bench.workspace / "a.xlsx").write_bytes(xlsx())

    text = await bench.text(READ, path="a.xlsx")

    assert "sheets 1-2 of 2" in text
    assert "--- sheet 1: Costs ---\n2\t1: what | when | much\n3\t2: rent | 2026-11-01T00:00:00 | 700\n" in text
    assert "4: tax |  | 12.5" in text
    assert "sheet 1" not in await bench.text(READ, path="a.xlsx", pages="2")


async def test_slides_are_read_with_their_notes(bench: Bench) -> None:
    """Titles, bodies, notes."""
    (bench.workspace / "a.pptx").write_bytes(pptx())

    text = await bench.text(READ, path="a.pptx")

    assert "2\tTitle 1\n3\tbody\n4\t[notes] say hello\n5\t--- slide 2 ---" in text


async def test_a_notebook_is_read_as_cells_or_as_it_is(bench: Bench) -> None:
    """Sources and what was printed; pictures are named; raw shows the JSON, for an edit."""
    (bench.workspace / "a.ipynb").write_bytes(notebook())

    text = await bench.text(READ, path="a.ipynb")

    assert "--- cell 1 (markdown) ---\n2\t# Title\n3\twords" in text
    assert "print('hi')" in text
    assert "[stdout]" in text
    assert "[output: image/png, text/plain; not shown]" in text
    assert "\tZeroDivisionError" in text
    assert "aGVsbG8" not in text
    assert '"cell_type": "markdown"' in await bench.text(READ, path="a.ipynb", raw=True)


def bomb(*, entry: str = "word/document.xml", content: bytes = b"0" * (64 << 20)) -> bytes:
    """Return a small zip of a large part."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(entry, content)
    return out.getvalue()


LAUGHS = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">]><x>&a;</x>'


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.docx", bomb(), "looks like a bomb"),
        ("a.xlsx", bomb(entry="xl/workbook.xml"), "looks like a bomb"),
        ("a.pptx", bomb(entry="ppt/x.xml", content=LAUGHS), "declares XML entities"),
        ("a.docx", bomb(content=LAUGHS.decode().encode("utf-16")), "declares XML entities"),
        ("a.docx", bomb(content=b"<x/>"), "damaged or not what its name says"),
        ("a.docx", b"PK\x03\x04" + bytes(100), "damaged or not what its name says"),
        ("a.pdf", b"%PDF-1.7\n" + bytes(100), "damaged or not what its name says"),
        ("a.pdf", pdf(["x"])[:300], "damaged or not what its name says"),
        ("a.ipynb", b'{"cells": 3}', "no notebook"),
        ("a.ipynb", b"[" * 100_000, "no notebook"),
    ],
)
async def test_a_bomb_or_a_damaged_document_is_refused(bench: Bench, name: str, content: bytes, why: str) -> None:
    """The error says why; nothing is unpacked to find out."""
    (bench.workspace / name).write_bytes(content)

    assert why in await bench.error(READ, path=name)


async def test_a_stream_that_inflates_without_end_is_stopped_by_the_system(bench: Bench) -> None:
    """A PDF's page of gigabytes meets a limit of the library or of memory, and the daemon goes on."""
    packer, zeros = zlib.compressobj(), bytes(1 << 20)
    first = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)  # stands for itself, so it can be repeated
    count = 3_000
    checksum = (count * len(zeros) % 65_521) << 16 | 1
    body = first + again * (count - 1) + b"\x03\x00" + checksum.to_bytes(4, "big")
    start = pdf(["x"])
    stream = start[start.index(b"5 0 obj") : start.index(b"xref")]
    content = start.replace(
        stream,
        f"5 0 obj\n<< /Length {len(body)} /Filter /FlateDecode >>\nstream\n".encode() + body + b"\nendstream\nendobj\n",
    )
    (bench.workspace / "a.pdf").write_bytes(content)

    observed = await bench.call(READ, path="a.pdf")

    assert observed.is_error or "no text" in observed.text, observed.text
    assert len(observed.text) < 2_000


async def test_a_reader_that_takes_too_long_is_killed(bench: Bench) -> None:
    """At its time limit, and when the caller stops waiting; nothing is left running or open."""
    path = bench.workspace / "a.pdf"
    path.write_bytes(pdf(["x"] * 3))
    with path.open("rb") as file:
        start = time.monotonic()
        with pytest.raises(ToolError, match="took too long"):
            await read_document(file, "pdf", "a.pdf", None, timeout_s=0.02)
        task = asyncio.create_task(read_document(file, "pdf", "a.pdf", None))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert time.monotonic() - start < 5


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Somebody who installed no extras is told which one."""
    monkeypatch.setitem(sys.modules, "pypdf", None)  # as if it were not installed

    assert answer("pdf", io.BytesIO(pdf(["x"])), Wanted(1, 1)) == {"missing": "pypdf"}


@pytest.mark.parametrize(("raw", "parsed"), [("3", (3, 3)), ("2-5", (2, 5)), (" 4 - ", (4, None))])
def test_ranges_of_pages(raw: str, parsed: tuple[int, int | None]) -> None:
    """One page, some, or from one on."""
    assert parse_pages(raw) == parsed


@pytest.mark.parametrize("raw", ["", "-3", "0", "5-2", "1,2", "a", "1" * 20, "²"])
def test_what_is_no_range_says_so(raw: str) -> None:
    """And what one looks like."""
    with pytest.raises(ToolError, match="no range"):
        parse_pages(raw)
