"""The result budget: cut a text that is too long, and say in one line what is missing and how to read it.

Pure and deterministic.  A result that fits is returned as it is, so fitting twice changes nothing.  Cuts fall on line ends where
one is near, and never inside a character as people see it (no torn CRLF, accent, emoji or flag).
"""

import unicodedata
from collections.abc import Callable

from nanobot.agent.tools.base import CutPolicy
from nanobot.values import frozen

_LINE_SEARCH = 0.25  # give up at most this share of a kept part to end it at a line
_JOINER = "\u200d"
_TOKEN_ROUNDS = 16


@frozen
class Fitted:
    """A text within its budget, and whether something had to go."""

    text: str
    was_cut: bool


def fit(
    text: str,
    *,
    max_chars: int,
    cut: CutPolicy,
    entry: str,
    counter: Callable[[str], int] | None = None,
    max_tokens: int | None = None,
) -> Fitted:
    """Return the text within its budget, marker included.

    Args:
        text: the whole observation.
        max_chars: most characters (code points) of the result.
        cut: which part goes.
        entry: the id under which ``read_result`` finds the whole; empty if it is not kept.
        counter: counts a text's tokens; without one only ``max_chars`` counts.
        max_tokens: most tokens of the result.
    """
    if max_chars < 0:
        raise ValueError("max_chars is below 0")
    fitted = _fit_chars(text, max_chars, cut, entry)
    if counter is None or max_tokens is None:
        return fitted
    room = len(fitted.text)
    for _ in range(_TOKEN_ROUNDS):
        tokens = counter(fitted.text)
        if tokens <= max_tokens:
            return fitted
        room = min(room - 1, int(room * max_tokens / tokens * 0.97))
        if room <= 0:
            break
        fitted = _fit_chars(text, room, cut, entry)
    return Fitted("", was_cut=bool(text))


def safe_cut(text: str, at: int) -> int:
    """Return the nearest position up to ``at`` that tears no character as people see it (bounded look-back)."""
    at = max(0, min(at, len(text)))
    for back in range(at, max(at - 32, 0), -1):
        if _is_border(text, back):
            return back
    return 0 if at < 32 else at


def _fit_chars(text: str, max_chars: int, cut: CutPolicy, entry: str) -> Fitted:
    if len(text) <= max_chars:
        return Fitted(text, was_cut=False)
    reserve = len(_marker(text, 0, len(text), entry, sizes=len(text))) + 2
    room = max_chars - reserve
    if room < 1:
        return Fitted(_tiny(text, max_chars, entry), was_cut=True)
    head, tail = {"tail": (room, 0), "head": (0, room), "middle": (room - room // 2, room // 2)}[cut]
    start = _end_of_head(text, head)
    end = _start_of_tail(text, len(text) - tail) if tail else len(text)
    marker = _marker(text, start, end, entry, sizes=len(text))
    before = text[:start] if not start or text[start - 1] == "\n" else text[:start] + "\n"
    after = "\n" + text[end:] if end < len(text) else ""
    return Fitted(before + marker + after, was_cut=True)


def _end_of_head(text: str, at: int) -> int:
    line_end = text.rfind("\n", int(at * (1 - _LINE_SEARCH)), at) + 1
    return line_end or safe_cut(text, at)


def _start_of_tail(text: str, at: int) -> int:
    line_end = text.find("\n", at - 1, at + int((len(text) - at) * _LINE_SEARCH)) + 1
    if line_end:
        return line_end
    for forward in range(at, min(at + 32, len(text))):
        if _is_border(text, forward):
            return forward
    return at


def _marker(text: str, start: int, end: int, entry: str, *, sizes: int) -> str:
    lines = text.count("\n", start, end) + 1
    how = f'; read_result("{entry}", offset={start})' if entry else "; it is not kept"
    return f"[… {end - start:,} characters ({lines:,} lines) left out, from character {start:,} of {sizes:,}{how} …]"


def _tiny(text: str, max_chars: int, entry: str) -> str:
    """Say as much as a budget allows that is too small for the marker."""
    name = f' read_result("{entry}")' if entry else ""
    for note in (f"[… {len(text):,} characters left out;{name} …]", f"[cut;{name}]", "[cut]", "…"):
        if len(note) <= max_chars:
            return note
    return ""


def _is_border(text: str, at: int) -> bool:
    """Whether text may be cut before ``at``: a cheap, sufficient part of the rules for grapheme clusters."""
    if at <= 0 or at >= len(text):
        return True
    left, right = text[at - 1], text[at]
    if left.isascii() and right.isascii():
        return not (left == "\r" and right == "\n")
    if _joins(right) or left == _JOINER or "\ud800" <= left <= "\udbff":
        return False
    return not (_is_flag(left) and _is_flag(right) and _flags_before(text, at) % 2)


def _joins(char: str) -> bool:
    return (
        char == _JOINER
        or unicodedata.combining(char) != 0
        or unicodedata.category(char) in ("Mn", "Mc", "Me")
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
    )


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while count < 32 and at - 1 - count >= 0 and _is_flag(text[at - 1 - count]):
        count += 1
    return count
