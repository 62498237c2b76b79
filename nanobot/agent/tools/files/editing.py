"""Replacing text in text: exactly, and if that fails, with an explanation that helps.

Pure.  Line ends do not matter for matching and are kept: the replacement gets the style of what it replaces, every other byte of
the text stays as it was.  Blanks at line ends may differ only where exactly one place fits.  Several replacements are all matched
against the text as it is, so their order does not matter; they must not overlap.
"""

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nanobot.agent.tools.files.nearest import why_not
from nanobot.errors import ToolError
from nanobot.values import frozen

_BLANKS = " \t"


@frozen
class Replacement:
    """Put ``new`` where ``old`` is: it must be there exactly once, unless ``everywhere``."""

    old: str
    new: str
    everywhere: bool = False


@frozen
class Edited:
    """The text after all replacements, and the lines (in it) where each replacement begins, in the order of the text.

    ``loose`` numbers (from 1) the replacements that only fit when blanks at line ends did not count.
    """

    text: str
    lines: tuple[int, ...]
    loose: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    """Where a replacement goes, in flat text."""

    start: int
    stop: int
    number: int
    new: str


def replace_all_of(text: str, replacements: Sequence[Replacement]) -> Edited:
    """Apply the replacements, all or none.

    Raises:
        ToolError: one does not match, matches more than once, or overlaps another; the text says where and why.
    """
    flat = text.replace("\r\n", "\n")
    spans: list[_Span] = []
    loose: list[int] = []
    for number, replacement in enumerate(replacements, start=1):
        which = f"edit {number} of {len(replacements)}: " if len(replacements) > 1 else ""
        try:
            found, is_loose = _places(flat, replacement)
        except ToolError as error:
            hint = _after_others(flat, spans, replacement)
            raise ToolError(f"{which}{error}{hint} Nothing was changed.") from None
        new = replacement.new.replace("\r\n", "\n")
        spans += (_Span(start, stop, number, new) for start, stop in found)
        loose += [number] if is_loose else []
    spans.sort()
    _refuse_overlaps(flat, spans)
    return Edited(*_joined(text, spans), tuple(loose))


def _places(flat: str, replacement: Replacement) -> tuple[list[tuple[int, int]], bool]:
    """Return where the old text is, and whether blanks at line ends had to be overlooked to find it."""
    old, new = (part.replace("\r\n", "\n") for part in (replacement.old, replacement.new))
    if not old:
        raise ToolError("old_text is empty; use write_file for a new file.")
    if old == new:
        raise ToolError("old_text and new_text are the same.")
    found = [(at, at + len(old)) for at in _occurrences(flat, old)]
    if found:
        if len(found) > 1 and not replacement.everywhere:
            raise ToolError(_ambiguous(flat, found, "old_text"))
        return found, False
    found = [match.span() for match in re.finditer(_loose(old), flat)] if old.strip() else []
    if len(found) > 1:
        raise ToolError(_ambiguous(flat, found, "old_text, but for blanks at line ends,"))
    if not found:
        raise ToolError(why_not(flat, old))
    return found, True


def _ambiguous(flat: str, found: Sequence[tuple[int, int]], what: str) -> str:
    where = ", ".join(str(_line(flat, start)) for start, _ in found[:10])
    return f"{what} is there {len(found)} times (lines {where}); add lines around it until it is unique, or set replace_all."


def _loose(old: str) -> str:
    """Return an expression for ``old`` with any blanks at its line ends; it takes linear time."""
    *lines, last = old.split("\n")
    patterns = [re.escape(line.rstrip(_BLANKS)) + ("[ \\t]*+" if line.strip(_BLANKS) or number else "")
                for number, line in enumerate(lines)]  # fmt: skip
    end = re.escape(last.rstrip(_BLANKS)) + "[ \\t]*+(?![^\\n])" if last != last.rstrip(_BLANKS) else re.escape(last)
    return "\\n".join((*patterns, end))


def _after_others(flat: str, spans: Sequence[_Span], replacement: Replacement) -> str:
    """Say so when the text is only there after the edits before this one."""
    old = replacement.old.replace("\r\n", "\n")
    if not spans or not old or old in flat or old not in _joined(flat, sorted(spans))[0]:
        return ""
    return (
        " It would be there after the edits before it, but every edit is matched against the file as it is: join them."
    )


def _refuse_overlaps(flat: str, spans: Sequence[_Span]) -> None:
    for one, two in itertools.pairwise(spans):
        if two.start < one.stop:
            first, second = sorted((one.number, two.number))
            raise ToolError(
                f"edits {first} and {second} overlap at line {_line(flat, two.start)}; make them one. Nothing was changed."
            )


def _joined(text: str, spans: Sequence[_Span]) -> tuple[str, tuple[int, ...]]:
    original = _positions(text)
    style = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    pieces: list[str] = []
    lines: list[int] = []
    end, line = 0, 1
    for span in spans:
        start, stop = original(span.start), original(span.stop)
        matched = text[start:stop]
        line_end = "\r\n" if "\r\n" in matched else "\n" if "\n" in matched else style
        kept, new = text[end:start], span.new.replace("\n", line_end)
        line += kept.count("\n")
        lines.append(line)
        line += new.count("\n")
        pieces += (kept, new)
        end = stop
    return "".join((*pieces, text[end:])), tuple(lines)


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


def _line(flat: str, position: int) -> int:
    return flat.count("\n", 0, position) + 1
