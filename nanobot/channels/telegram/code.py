"""Long code blocks as files: an answer is cut around them, and each is sent as a document.  Pure.

What is a file follows from the text alone, so that an answer which was cut before a restart is sent as it was meant.
"""

import re

from nanobot.channels.blocks import Enclosure, layout
from nanobot.channels.splitting import Parts
from nanobot.channels.telegram.format import MAX_TEXT_UNITS, Attachment, Rendered, split_answer, utf16_units

LONG_CODE_UNITS = 3 * MAX_TEXT_UNITS
_FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+#.-]*)[^\n]*\n\Z")
_SUFFIXES = {
    "bash": "sh",
    "c++": "cpp",
    "csharp": "cs",
    "javascript": "js",
    "kotlin": "kt",
    "markdown": "md",
    "perl": "pl",
    "python": "py",
    "ruby": "rb",
    "rust": "rs",
    "shell": "sh",
    "text": "txt",
    "typescript": "ts",
}


def split_with_files(text: str) -> Parts:
    """Return the parts of an answer; a block of code that would fill more than three messages is a part of its own."""
    parts: list[tuple[int, int]] = []
    at = 0
    for start, end in _long_blocks(text):
        before = split_answer(text[:start], start=at) if text[at:start].strip() else ()
        parts += before
        at = end if text[end:].strip() else len(text)
        parts.append((start if before else (parts[-1][1] if parts else 0), at))
    return (*parts, *split_answer(text, start=at))


def code_file(text: str) -> Rendered | None:
    """Return the part as a document with a line under it, if it is one long block of code."""
    source = text.strip()
    if utf16_units(source) <= LONG_CODE_UNITS:
        return None
    block = next(iter(_long_enclosures(source)), None)
    if block is None or block.start or block.end < len(source):
        return None
    found = _FENCE.match(block.opener)
    assert found is not None  # it is a long enclosure
    body = _body(source[block.body : block.end], found["mark"])
    name = f"code.{_suffix(found['language'])}"
    lines = body.count("\n") + (not body.endswith("\n"))
    return Rendered(f"{name} · {lines:,} lines", file=Attachment(name, body.encode("utf-8", "replace")))


def has_file(text: str) -> bool:
    """Say whether a part of this text is sent as a file."""
    return bool(_long_blocks(text))


def _long_blocks(text: str) -> list[tuple[int, int]]:
    """Return where long code is, from the beginning of its first line to that of the line after it."""
    if utf16_units(text) <= LONG_CODE_UNITS:
        return []
    found = [(one.start, text.find("\n", one.end - 1) + 1 or len(text)) for one in _long_enclosures(text)]
    return [(start, end) for start, end in found if code_file(text[start:end]) is not None]


def _long_enclosures(text: str) -> list[Enclosure]:
    """Return fenced blocks that are long and stand in nothing else, such as a list or a quote."""
    plan = layout(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not text.isascii() else text)
    if len(plan.text) != len(text):
        return []
    own = set(plan.blocks)
    return [
        one
        for one in plan.enclosures
        if one.start in own
        and _FENCE.match(one.opener)
        and utf16_units(plan.text[one.body : one.end]) > LONG_CODE_UNITS
    ]


def _body(code: str, mark: str) -> str:
    lines = code.splitlines(keepends=True)
    if lines and re.fullmatch(rf"{re.escape(mark)}{re.escape(mark[0])}*\s*", lines[-1].strip()):
        lines.pop()
    return "".join(lines)


def _suffix(language: str) -> str:
    word = language.lower()
    return _SUFFIXES.get(word) or (word if word.isascii() and word.isalnum() and len(word) <= 10 else "txt")
