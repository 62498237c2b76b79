"""Bars and curves out of characters, and the same curve as a picture.  Pure, but for ``picture``, which imports its library."""

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise

from nanobot.errors import MisuseError

_LEVELS = " ▁▂▃▄▅▆▇█"
_FILLED, _EMPTY = "█", "░"


def bar(part: int, whole: int, *, width: int) -> str:
    """Return a bar of ``width`` characters, of which ``part`` of ``whole`` is filled."""
    filled = min(width, round(width * part / whole)) if whole > 0 else 0
    return _FILLED * filled + _EMPTY * (width - filled)


def curve(values: Sequence[int], *, width: int, top: int, height: int = 4) -> list[str]:
    """Return rows of characters, the top one first, that plot the values from 0 to ``top``; several values may share a column."""
    columns = columns_of(values, width=width)
    rows: list[str] = []
    for row in range(height - 1, -1, -1):
        rows.append("".join(_LEVELS[_level(value, top, row, height)] for value in columns).rstrip())
    return rows


def columns_of(values: Sequence[int], *, width: int) -> list[int]:
    """Return at most ``width`` values, each the largest of those it stands for."""
    if len(values) <= width:
        return list(values)
    edges = [len(values) * i // width for i in range(width + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]


def thousands(count: int) -> str:
    """Return a count of tokens as people read it."""
    return f"{count / 1000:.1f}k" if count >= 1000 else str(count)


def picture(lines: Mapping[str, Sequence[int]], *, title: str, form: str) -> bytes:
    """Return named curves over the Turns as ``svg`` or ``png``.

    Raises:
        MisuseError: the extra that draws is not installed.
    """
    try:
        leather = import_module("leather")
        chart = leather.Chart(title)
        for name, values in lines.items():
            chart.add_line([(i + 1, value) for i, value in enumerate(values)], name=name)
        chart.add_x_axis(name="Turn")
        chart.add_y_axis(name="tokens")
        svg = io.StringIO()
        chart.to_svg(svg, width=900, height=450)
        if form == "svg":
            return svg.getvalue().encode()
        return bytes(import_module("resvg_py").svg_to_bytes(svg_string=svg.getvalue(), background="#ffffff"))
    except ImportError as error:
        how = "pip install 'nanobot[plots]'  (in a checkout: pip install -e '.[plots]')"
        raise MisuseError(f"--output needs {error.name!r}: install it with  {how}") from error


def _level(value: int, top: int, row: int, height: int) -> int:
    eighths = round(value / top * height * 8) if top > 0 else 0
    if value > 0:
        eighths = max(1, eighths)
    return max(0, min(8, eighths - row * 8))
