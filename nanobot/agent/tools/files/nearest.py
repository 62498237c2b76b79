"""Why a text is not in a file: the nearest passage, with line numbers, and what differs.  Pure."""

import difflib
import re
import unicodedata
from collections.abc import Callable, Sequence

_MAX_LINES = 20_000  # of a file, for the search of the nearest text
_MAX_LINE = 200
_SHOWN_LINES = 12
_SHOWN_DIFFERENCES = 3
_SHOWN_CHARS = 80


def why_not(text: str, old: str) -> str:
    """Return why ``old`` is not in ``text``, both with plain newlines."""
    numbered = re.sub(r"^\s*\d+\t", "", old, flags=re.MULTILINE)
    if numbered != old and numbered in text:
        return "old_text holds the line numbers that read_file shows; leave them out."
    for transform, why in _NEAR_MISSES:
        at = transform(text).find(transform(old)) if transform(old).strip() else -1
        if at >= 0:
            first = transform(text).count("\n", 0, at)
            return f"old_text is not in the file as written: {why}. The file has:\n{_window(text, first, old)}\n"
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    nearest = _nearest(lines, wanted)
    if nearest is None:
        return "old_text is not in the file, nor anything like it; read the file again."
    differences = _differences(lines, wanted, nearest)
    return f"old_text is not in the file. The nearest text is:\n{_window(text, nearest, old)}\n{differences}\n"


def _window(text: str, first: int, old: str) -> str:
    lines = text.split("\n")
    last = min(len(lines), first + min(old.strip("\n").count("\n") + 1, _SHOWN_LINES))
    return "\n".join(f"{number + 1}\t{lines[number][:500]}" for number in range(first, last))


def _differences(lines: Sequence[str], wanted: Sequence[str], first: int) -> str:
    found: list[str] = []
    for number, line in enumerate(wanted, start=first):
        there = lines[number] if number < len(lines) else None
        if there is None:
            found.append(f"the file ends before your {_quoted(line)}")
            break
        if there != line:
            found.append(f"line {number + 1} is {_quoted(there, line)}, not {_quoted(line, there)}")
    more = f"; and {len(found) - _SHOWN_DIFFERENCES} more lines" if len(found) > _SHOWN_DIFFERENCES else ""
    return f"What differs: {'; '.join(found[:_SHOWN_DIFFERENCES])}{more}."


def _quoted(line: str, other: str = "") -> str:
    """Return the line, from shortly before it differs from the other if it is long."""
    same = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), 0)
    start = max(0, same - 20) if len(line) > _SHOWN_CHARS else 0
    end = start + _SHOWN_CHARS
    return f"{'…' if start else ''}{line[start:end]!r}{'…' if end < len(line) else ''}"


def _per_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


def _plain(text: str) -> str:
    """Typographic characters as their plain forms (same line structure)."""
    return unicodedata.normalize("NFC", text.translate(_SWAPS))


_SWAPS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " ", "…": "..."})
_NEAR_MISSES: tuple[tuple[Callable[[str], str], str], ...] = (
    (_per_line(str.rstrip), "white space at line ends differs"),
    (_per_line(str.strip), "the indentation differs"),
    (_per_line(lambda line: " ".join(line.split())), "white space inside lines differs"),
    (str.lower, "upper and lower case differ"),
    (_plain, "quotes, dashes or accents are other characters"),
)


def _nearest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return the index of the line where the most similar text begins, anchored at the longest wanted line."""
    anchor = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:_MAX_LINE])
    best, best_at = 0.5, None
    for number, line in enumerate(lines[:_MAX_LINES]):
        matcher.set_seq1(line.strip()[:_MAX_LINE])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, best_at = ratio, number
    return None if best_at is None else max(0, best_at - anchor)
