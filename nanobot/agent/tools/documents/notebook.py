"""Cells of a Jupyter notebook with what they printed."""

import json
import re
from typing import Any, BinaryIO, cast

from nanobot.agent.tools.documents.limits import Extract, Unreadable, Wanted

_MAX_OUTPUT_CHARS = 4_000
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def read_ipynb(_: object, file: BinaryIO, wanted: Wanted, extract: Extract) -> None:
    """Add the cells; pictures and other rich outputs are named."""
    try:
        book: Any = json.loads(file.read().decode("utf-8-sig"))  # Any: somebody else's JSON
        cells = cast("list[dict[str, Any]]", book["cells"])
        for number, cell in enumerate(cells, start=1):
            extract.add(f"--- cell {number} ({cell['cell_type']}) ---\n{_joined(cell['source'])}")
            for output in cell.get("outputs", ()):
                extract.add(_output(output))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise Unreadable(f"it is no notebook of version 4 ({type(error).__name__}: {error}).") from None


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _output(output: dict[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _shortened(f"[{output['name']}]", _joined(output["text"]))
        case "error":
            return _shortened("[error]", "\n".join(output["traceback"]))
        case _:
            shown: dict[str, Any] = output.get("data", {})
            if "text/plain" in shown and not any(kind.startswith("image/") for kind in shown):
                return _shortened("[output]", _joined(shown["text/plain"]))
            return f"[output: {', '.join(sorted(shown)) or 'nothing'}; not shown]"


def _shortened(label: str, text: str) -> str:
    text = _ESCAPES.sub("", text).rstrip("\n")
    left = len(text) - _MAX_OUTPUT_CHARS
    more = f"\n[{left:,} more characters of output]" if left > 0 else ""
    return f"{label}\n{text[:_MAX_OUTPUT_CHARS]}{more}"
