"""Cells of an Excel workbook, row by row."""

from datetime import date, datetime, time
from typing import Any, BinaryIO

from nanobot.agent.tools.documents.archive import check_archive
from nanobot.agent.tools.documents.limits import Extract, Wanted

_MAX_ROWS = 100_000  # of a sheet
_MAX_COLUMNS = 200
_MAX_CELLS = 500_000


def read_xlsx(openpyxl: Any, file: BinaryIO, wanted: Wanted, extract: Extract) -> None:  # Any: the library, loaded late
    """Add the rows of the wanted sheets that hold something, with their numbers."""
    check_archive(file)
    book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    sheets = book.worksheets
    extract.count = len(sheets)
    cells = 0
    for number in wanted.of(extract.count, "sheet"):
        sheet = sheets[number - 1]
        extract.add(f"--- sheet {number}: {sheet.title} ---")
        if (sheet.max_column or 0) > _MAX_COLUMNS:
            extract.notes.append(f"sheet {number} has {sheet.max_column:,} columns; {_MAX_COLUMNS} are shown")
        for index, row in enumerate(sheet.iter_rows(values_only=True, max_col=_MAX_COLUMNS), start=1):
            values = [_text(value) for value in row]
            while values and not values[-1]:
                values.pop()
            cells += len(values)
            if index > _MAX_ROWS or cells > _MAX_CELLS:
                extract.notes.append(f"sheet {number} goes on after row {index - 1:,}")
                break
            if values:
                extract.add(f"{index}: {' | '.join(values)}")
        extract.last = number
        if cells > _MAX_CELLS:
            return


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime() | date() | time():
            return value.isoformat()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case _:
            return str(value).replace("\n", " / ")
