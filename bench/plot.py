"""Two kinds of plot as SVG, drawn by hand: bars by name, and lines over a logarithmic axis."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path

_WIDTH = 640
_COLOURS = ("#2b6cb0", "#a0aec0", "#dd6b20", "#38a169")
_FONT = 'font-family="sans-serif" font-size="13"'


def bars(path: Path, title: str, values: Mapping[str, float]) -> Path:
    """Draw one bar a name, longest first, with its value; return the path."""
    ordered = sorted(values.items(), key=lambda pair: pair[1])
    most = max(values.values())
    body = [_text(10, 20, title, bold=True)]
    for index, (name, value) in enumerate(ordered):
        y, width = 36 + 26 * index, max(1.0, (_WIDTH - 230) * value / most)
        colour = _COLOURS[0] if name == "nanobot" else _COLOURS[1]
        body += [
            _text(10, y + 15, name),
            f'<rect x="130" y="{y}" width="{width:.1f}" height="20" fill="{colour}"/>',
            _text(136 + width, y + 15, f"{value:.3g}"),
        ]
    return _written(path, 46 + 26 * len(values), body)


def lines(path: Path, title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> Path:
    """Draw each series over a logarithmic x axis, from zero on y; return the path."""
    points = [point for one in series.values() for point in one]
    low, high = log10(min(x for x, _ in points)), log10(max(x for x, _ in points))
    top = max(y for _, y in points) * 1.1

    def place(x: float, y: float) -> tuple[float, float]:
        return 60 + (_WIDTH - 160) * (log10(x) - low) / ((high - low) or 1), 240 - 200 * y / top

    body = [_text(10, 20, title, bold=True), '<path d="M60 40V240H540" fill="none" stroke="#718096"/>']
    body += [_text(8, place(10**low, y)[1] + 4, f"{y:.3g}") for y in (0.0, top / 2, top)]
    body += [_text(place(x, 0)[0] - 12, 258, f"{x:,.0f}") for x in sorted({x for x, _ in points})]
    for colour, (name, one) in zip(_COLOURS, series.items(), strict=False):
        path_of = "L".join(f"{x:.1f} {y:.1f}" for x, y in (place(*point) for point in one))
        end = place(*one[-1])
        body += [f'<path d="M{path_of}" fill="none" stroke="{colour}" stroke-width="2"/>']
        body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in (place(*p) for p in one)]
        body += [_text(end[0] + 8, end[1] + 4, name)]
    return _written(path, 270, body)


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {_FONT}{weight}>{escape(text)}</text>'


def _written(path: Path, height: int, body: Sequence[str]) -> Path:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">'
    background = '<rect width="100%" height="100%" fill="white"/>'
    path.write_text("\n".join((head, background, *body, "</svg>")) + "\n")
    return path
