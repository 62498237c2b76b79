"""Draw segments and the live part as lines with colours.  Pure."""

from nanobot.channels.terminal.markdown import Ink
from nanobot.channels.terminal.text import tail
from nanobot.channels.terminal.view import Kind, Live, Segment

LIVE_REASONING_ROWS = 4

_STYLES: dict[Kind, tuple[str, str]] = {
    "reasoning": ("", "dim italic"),
    "tool": ("✓ ", "dim"),
    "failed tool": ("✗ ", "yellow"),
    "notice": ("", "dim"),
    "error": ("", "red"),
}


class Segments:
    """Puts an empty line between segments of different kinds; calls in a row stand together."""

    def __init__(self) -> None:
        self._last: str = ""

    def spaced(self, segment: Segment, drawn: str) -> str:
        """Return what to print for a segment."""
        kind = "tool" if segment.kind == "failed tool" else segment.kind
        gap = "" if kind == self._last == "tool" else "\n"
        self._last = kind
        return gap + drawn


def draw_segment(ink: Ink, segment: Segment, columns: int) -> str:
    """Return a segment's lines."""
    if segment.kind == "markdown":
        return ink.markdown(segment.text, columns)
    sign, style = _STYLES[segment.kind]
    return ink.line(sign + segment.text, style, columns)


def draw_live(ink: Ink, live: Live, *, rows: int, columns: int) -> str:
    """Return the live part in at most ``rows`` rows: the newest of what is moving, and the status line below it."""
    rows = max(rows, 1)
    below = "".join(ink.line(f"… {tool}", "cyan", columns) for tool in live.tools[-rows:])
    if live.status:
        below += ink.line(live.status, "dim", columns)
    above = ""
    if live.text.strip():
        above = ink.markdown(tail(live.text, fence=live.fence, rows=rows, columns=columns), columns)
    elif live.reasoning.strip():
        thoughts = ink.line(tail(live.reasoning.strip(), fence="", rows=rows, columns=columns), "dim italic", columns)
        above = "".join(thoughts.splitlines(keepends=True)[-LIVE_REASONING_ROWS:])
    lines = (above + below).splitlines(keepends=True)
    return "".join(lines[-rows:])
