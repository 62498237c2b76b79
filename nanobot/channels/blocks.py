"""Where a Markdown text has its blocks, and what is open at any place in it.  Pure."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, cast

from nanobot.values import frozen

_LONGEST_OPENER = 200
_SPANS = frozenset({"+Strong", "+Emphasis", "+Strikethrough", "+Link", "+Image", "Code", "InlineMath", "DisplayMath"})


def events(data: bytes) -> Iterator[tuple[str, Any, int, int]]:
    """Yield name, payload and byte range of each parser event; starts and ends are called ``+Name`` and ``-Name``."""
    import pyromark  # lazily: for the first answer

    wanted = pyromark.Options
    options = wanted.ENABLE_TABLES | wanted.ENABLE_STRIKETHROUGH | wanted.ENABLE_TASKLISTS | wanted.ENABLE_MATH
    for event, span in pyromark.events_with_range(data.decode(), options=options):
        start, end = cast("dict[str, int]", span)["start"], cast("dict[str, int]", span)["end"]
        if isinstance(event, str):
            yield event, None, start, end
            continue
        name, payload = next(iter(cast("dict[str, Any]", event).items()))
        if name in ("Start", "End"):
            inner, payload = (payload, None) if isinstance(payload, str) else next(iter(payload.items()))
            yield f"{'+' if name == 'Start' else '-'}{inner}", payload, start, end
        else:
            yield name, payload, start, end


@frozen
class Enclosure:
    """A fenced code block or a table: text cut inside ``[body, end)`` needs ``opener`` before it and ``indent`` columns less."""

    start: int
    body: int
    end: int
    opener: str
    indent: int = 0


@frozen
class Layout:
    """The structure of a text, in code point offsets, each list ascending.

    ``indented`` are the code blocks that stand in nothing else and have no fence: their indentation is all there is of one.
    """

    text: str
    blocks: Sequence[int]
    inner: Sequence[int]
    spans: Sequence[tuple[int, int]]
    enclosures: Sequence[Enclosure]
    indented: Sequence[tuple[int, int]]

    def enclosure_at(self, at: int) -> Enclosure | None:
        """Return the code block or table that a text cut at ``at`` would be cut inside of."""
        return next((one for one in self.enclosures if one.start < at < one.end), None)

    def in_span(self, at: int) -> bool:
        """Say whether the place is inside something inline, such as a link or bold text."""
        index = bisect_right(self.spans, (at, -1)) - 1
        return any(start < at < end for start, end in self.spans[max(index - 8, 0) : index + 1])


def layout(text: str) -> Layout:
    """Return the structure of a text (without lone surrogates)."""
    data = text.encode()
    to_char = _CharOffsets(text)
    blocks: list[int] = []
    inner: set[int] = set()
    spans: list[tuple[int, int]] = []
    enclosures: list[Enclosure] = []
    indented: list[tuple[int, int]] = []
    depth, after_heading = 0, False
    for name, payload, first, last in events(data):
        start, end = to_char(first), to_char(last)
        if name[0] == "-":
            depth -= 1
            after_heading = name == "-Heading"
            continue
        if name in _SPANS:
            spans.append((start, end))
        elif depth == 0 and not after_heading:
            blocks.append(_line_start(text, start))
        elif name[0] == "+" and not name.startswith("+Table"):
            inner.add(_line_start(text, start))
        if name == "+CodeBlock" and not isinstance(payload, dict) and depth == 0:
            indented.append((_line_start(text, start), end))
        if name == "+CodeBlock" and isinstance(payload, dict):
            enclosures.append(_fence(text, start, end))
        elif name == "+Table":
            enclosures.append(_table(text, start, end))
        after_heading = False
        depth += name[0] == "+"
    return Layout(
        text, sorted(set(blocks)), sorted(inner), sorted(spans), [one for one in enclosures if one.opener], indented
    )


def _fence(text: str, start: int, end: int) -> Enclosure:
    line = _line_start(text, start)
    body = text.find("\n", start) + 1 or end
    opener, column = text[start:body], start - line
    if ">" in text[line:start]:
        opener, column = text[line:body], 0  # the following lines have the same marks
    return Enclosure(start, body, end, opener if len(opener) <= _LONGEST_OPENER else "", column)


def _table(text: str, start: int, end: int) -> Enclosure:
    head = text.find("\n", start) + 1 or end
    body = text.find("\n", head) + 1 or end
    line = _line_start(text, start)
    opener = text[start:body] if line == start and body < end and body - start <= _LONGEST_OPENER * 4 else ""
    return Enclosure(start, body, end, opener)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


class _CharOffsets:
    """Turn byte offsets into code point offsets."""

    def __init__(self, text: str) -> None:
        self._ends = None if text.isascii() else list(accumulate(len(character.encode()) for character in text))

    def __call__(self, at: int) -> int:
        return at if self._ends is None else bisect_right(self._ends, at)
