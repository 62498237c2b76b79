"""Keep what a Markdown converter would lose or change, by escaping it in the source.  Pure.

The converter drops raw HTML, unused link definitions, links without a text and images without one; it takes ``a || b || c`` for a
spoiler; and in monospaced tables, links lose their addresses.  All of that is text that somebody wrote, so it is shown as written.
"""

import re
from collections.abc import Iterator

from nanobot.channels.blocks import events

_DEFINITION = re.compile(rb"(?m)^([ >]*)\[(?=[^\]\n]+\]:)")
_SHOWN_SCHEMES = ("http://", "https://", "tg://", "mailto:", "tel:")


def protect(source: str) -> str:
    """Return Markdown that shows everything ``source`` says."""
    data = source.encode()
    if b"]:" in data:
        data = _apply(data, list(_definitions(data)))
    if any(mark in data for mark in (b"<", b"||", b"](")):
        data = _apply(data, list(_escapes(data)))
    return data.decode()


def _definitions(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Escape link definitions: a reference may be in another message, and an unused one would vanish."""
    code = [(start, end) for name, _, start, end in events(data) if name in ("+CodeBlock", "Code")]
    for match in _DEFINITION.finditer(data):
        at = match.end(1)
        if not any(start <= at < end for start, end in code):
            yield at, at + 1, b"\\["


def _escapes(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    depth_of_tables = 0
    links: list[tuple[str, int, bool]] = []  # address, start, whether something is said in it
    for name, payload, start, end in events(data):
        match name:
            case "Html" | "InlineHtml":
                yield start, end, data[start:end].replace(b"<", b"&lt;").replace(b"||", b"&#124;&#124;")
            case "Text" if b"||" in data[start:end]:
                links = [(url, at, True) for url, at, _ in links]
                yield start, end, data[start:end].replace(b"||", b"&#124;&#124;")
            case "Text" | "Code" | "InlineMath":
                links = [(url, at, True) for url, at, _ in links]
            case "+Table":
                depth_of_tables += 1
            case "-Table":
                depth_of_tables -= 1
            case "+Link" | "+Image":
                links.append((str(payload.get("dest_url", "")), start, False))
            case "-Link" | "-Image":
                url, at, says = links.pop()
                shown = says and not depth_of_tables and url.lower().startswith(_SHOWN_SCHEMES)
                if not shown and data[at : at + 1] != b"<":  # an address in angle brackets is its own text
                    mark = b"\\!\\[" if data[at : at + 1] == b"!" else b"\\["
                    yield at, at + len(mark) // 2, mark
            case _:
                pass


def _apply(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    out, at = bytearray(), 0
    for start, end, text in sorted(edits):
        if start >= at:
            out += data[at:start] + text
            at = end
    return bytes(out + data[at:])
