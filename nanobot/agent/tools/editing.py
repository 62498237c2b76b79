"""Replacing text in text: exactly, and if that fails, with an explanation that helps.

Pure.  Line ends do not matter for matching and are kept: the replacement gets the style of what it replaces, every other byte of
the text stays as it was.
"""

import difflib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nanobot.errors import ToolError

_MAX_LINES = 20_000  # of a file, for the search of the nearest text
_MAX_LINE = 200
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Replacement:
    """Put ``new`` where ``old`` is: it must be there exactly once, unless ``everywhere``."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after all replacements, and the lines (in it) where each replacement begins."""

    text: str
    lines: tuple[int, ...]


def replace_all_of(text: str, replacements: Sequence[Replacement]) -> Edited:
    """Apply the replacements in order, all or none.

    Raises:
        ToolError: one does not match, or matches more than once; the text says where and why.
    """
    lines: list[int] = []
    for number, replacement in enumerate(replacements, start=1):
        which = f"edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
        try:
            text, at = _replace(text, replacement)
        except ToolError as error:
            raise ToolError(f"{which}{error} Nothing was changed.") from None
        lines.extend(at)
    return Edited(text, tuple(lines))


def _replace(text: str, replacement: Replacement) -> tuple[str, list[int]]:
    flat, old, new = (_flat(part) for part in (text, replacement.old, replacement.new))
    if not old:
        raise ToolError("old_text is empty; use write_file for a new file.")
    if old == new:
        raise ToolError("old_text and new_text are the same.")
    found = _occurrences(flat, old)
    if not found:
        raise ToolError(_why_not(flat, old))
    if len(found) > 1 and not replacement.everywhere:
        where = ", ".join(str(flat.count("\n", 0, at) + 1) for at in found[:10])
        raise ToolError(
            f"old_text is there {len(found)} times (lines {where}); add lines around it until it is unique, or set replace_all."
        )
    original = _positions(text)
    style = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    pieces: list[str] = []
    lines: list[int] = []
    end = 0
    for at in found:
        start, stop = original(at), original(at + len(old))
        matched = text[start:stop]
        line_end = "\r\n" if "\r\n" in matched else "\n" if "\n" in matched else style
        pieces += (text[end:start], new.replace("\n", line_end))
        lines.append(sum(piece.count("\n") for piece in pieces[:-1]) + 1 if len(found) <= 100 else 0)
        end = stop
    return "".join((*pieces, text[end:])), lines


def _flat(text: str) -> str:
    return text.replace("\r\n", "\n")


def _occurrences(text: str, old: str) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + len(old))
    return found


def _positions(text: str) -> Callable[[int], int]:
    """Return the map from positions in the flat text to positions in the text.  A CRLF's flat newline maps to its CR."""
    returns = [match.start() - i for i, match in enumerate(re.finditer("\r\n", text))]
    return lambda position: position + bisect_left(returns, position)


def _why_not(text: str, old: str) -> str:
    numbered = re.sub(r"^\s*\d+\t", "", old, flags=re.MULTILINE)
    if numbered != old and numbered in text:
        return "old_text holds the line numbers that read_file shows; leave them out."
    for transform, why in _NEAR_MISSES:
        at = transform(text).find(transform(old)) if transform(old).strip() else -1
        if at >= 0:
            first = transform(text).count("\n", 0, at)
            return f"old_text is not in the file as written: {why}. The file has:\n{_window(text, first, old)}\n"
    nearest = _nearest(text.split("\n"), old.strip("\n").split("\n"))
    if nearest is None:
        return "old_text is not in the file, nor anything like it; read the file again."
    return f"old_text is not in the file. The nearest text is:\n{_window(text, nearest, old)}\n"


def _window(text: str, first: int, old: str) -> str:
    lines = text.split("\n")
    last = min(len(lines), first + min(old.strip("\n").count("\n") + 1, _SHOWN_LINES))
    return "\n".join(f"{number + 1}\t{lines[number][:500]}" for number in range(first, last))


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


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
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
