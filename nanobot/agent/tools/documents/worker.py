"""The program that turns one document into text: ``python -m nanobot.agent.tools.documents.worker KIND FIRST LAST FD``.

It reads the open file that it inherits as ``FD``, opens no other, and prints one JSON object: ``text``, ``notes``, ``count``,
``last``, or ``error``, or ``missing`` (a library).  Whatever a document does to a library ends here: memory, time, files and
output are limited by the system, and its parent kills it.
"""

import contextlib
import importlib
import json
import logging
import os
import resource
import sys
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO, TypeAlias, cast

from nanobot.agent.tools.documents.limits import (
    MAX_CPU_S,
    MAX_MEMORY_BYTES,
    Extract,
    Kind,
    TooLong,
    Unreadable,
    Wanted,
)
from nanobot.agent.tools.documents.notebook import read_ipynb
from nanobot.agent.tools.documents.pdf import read_pdf
from nanobot.agent.tools.documents.sheets import read_xlsx
from nanobot.agent.tools.documents.slides import read_pptx
from nanobot.agent.tools.documents.word import read_docx

Reader: TypeAlias = Callable[[Any, BinaryIO, Wanted, Extract], None]

_READERS: dict[Kind, tuple[str, Reader]] = {
    "pdf": ("pypdf", read_pdf),
    "docx": ("docx", read_docx),
    "xlsx": ("openpyxl", read_xlsx),
    "pptx": ("pptx", read_pptx),
    "ipynb": ("json", read_ipynb),
}


def answer(kind: Kind, file: BinaryIO, wanted: Wanted) -> dict[str, object]:
    """Return what the document says, or why it does not."""
    library, read = _READERS[kind]
    extract = Extract()
    try:
        with contextlib.suppress(TooLong):
            read(importlib.import_module(library), file, wanted, extract)
    except ModuleNotFoundError as error:
        return {"missing": error.name or library}
    except Unreadable as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": f"it needs more than {MAX_MEMORY_BYTES >> 20:,} MB of memory."}
    except Exception as error:  # noqa: BLE001  # the libraries raise anything at a damaged document
        return {"error": f"it is damaged or not what its name says ({type(error).__name__}: {str(error)[:200]})."}
    text = "\n".join(extract.lines)
    return {"text": text, "notes": extract.notes, "count": extract.count, "last": extract.last}


def main(arguments: list[str]) -> None:
    """Read, and print the answer."""
    kind, first, last, fd = arguments
    for limit, most in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # not on every system
            resource.setrlimit(limit, (most, most))
    warnings.simplefilter("ignore")
    logging.disable()
    with os.fdopen(int(fd), "rb") as file:
        said = answer(cast("Kind", kind), file, Wanted(int(first), int(last)))
    sys.stdout.buffer.write(json.dumps(said).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
