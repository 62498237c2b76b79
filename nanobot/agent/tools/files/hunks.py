"""Applying hunks to a text: where they say, or in the only other place they fit.  Pure.

A hunk fits where its old lines are.  Failing that, blanks at line ends do not count; failing that, up to two lines of context at
either end may differ.  Each of these is tried only where exactly one place is left, and reported.  Removed lines always have to be
there.  Lines that stay keep every byte, line ends included.
"""

import itertools
from collections.abc import Sequence

from nanobot.agent.tools.files.nearest import why_not
from nanobot.agent.tools.files.patching import Hunk, PatchLine
from nanobot.errors import ToolError
from nanobot.values import frozen

_MAX_FUZZ = 2


@frozen
class Applied:
    """The new text, and in words how the hunks fitted where they did not fit exactly."""

    text: str
    notes: tuple[str, ...]


@frozen
class _Place:
    """Lines ``start`` to ``stop`` (from 0) of the old text become ``lines`` of the hunk."""

    start: int
    stop: int
    number: int
    lines: tuple[PatchLine, ...]
    note: str = ""


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> Applied:
    """Apply the hunks, all or none.

    Raises:
        ToolError: one does not fit, fits in several places, or overlaps another; the text says where and why.
    """
    lines = text.split("\n")  # a CR stays at its line's end
    if lines[-1] == "":
        lines.pop()
    bare = [line.removesuffix("\r") for line in lines]
    places = sorted((_place(bare, hunk, number) for number, hunk in enumerate(hunks, start=1)), key=lambda p: p.start)
    for one, two in itertools.pairwise(places):
        if two.start < one.stop:
            raise ToolError(f"hunks {one.number} and {two.number} overlap at line {two.start + 1}; make them one.")
    return Applied(_joined(text, lines, places), tuple(place.note for place in places if place.note))


def _place(lines: Sequence[str], hunk: Hunk, number: int) -> _Place:
    wanted = [line.text for line in hunk.lines if line.kind != "+"]
    if not wanted:
        return _insertion(lines, hunk, number)
    expected = hunk.start - 1 if hunk.start else None
    for note, comparable in (("", _same), ("blanks at line ends overlooked", str.rstrip)):
        found = _find([comparable(line) for line in lines], [comparable(line) for line in wanted])
        if (at := _choose(found, expected, number, len(lines))) is not None:
            return _placed(at, hunk.lines, number, expected, note)
    stripped = [line.rstrip() for line in lines]
    for fuzz in range(1, _MAX_FUZZ + 1):
        first, last = _trimmed(hunk.lines, fuzz)
        inner = hunk.lines[first : len(hunk.lines) - last]
        wanted_inner = [line.text.rstrip() for line in inner if line.kind != "+"]
        if len(wanted_inner) * 2 < len(wanted) or not any(wanted_inner):
            continue
        shifted = None if expected is None else expected + first
        if (at := _choose(_find(stripped, wanted_inner), shifted, number, len(lines))) is not None:
            return _placed(at, inner, number, shifted, f"{first + last} lines of context left out")
    reason = why_not("\n".join(lines), "\n".join(wanted)).replace("old_text is", "its old text is")
    raise ToolError(f"hunk {number} does not fit: {reason}")


def _same(line: str) -> str:
    return line


def _insertion(lines: Sequence[str], hunk: Hunk, number: int) -> _Place:
    if hunk.start is None or (hunk.start == 0 and lines):
        raise ToolError(f"hunk {number} only adds lines and does not say where; give it lines of context.")
    if hunk.start > len(lines):
        raise ToolError(f"hunk {number} adds lines after line {hunk.start}; the file has {len(lines)}.")
    return _Place(hunk.start, hunk.start, number, hunk.lines)


def _find(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    found: list[int] = []
    at = -1
    while len(found) < 100:
        try:
            at = lines.index(wanted[0], at + 1)
        except ValueError:
            break
        if list(lines[at : at + len(wanted)]) == list(wanted):
            found.append(at)
    return found


def _choose(found: list[int], expected: int | None, number: int, count: int) -> int | None:
    """Return the place to take, None if there is none.

    Raises:
        ToolError: there are several, and none is where the hunk says.
    """
    if expected is not None and expected in found:
        return expected
    if len(found) > 1:
        where = ", ".join(str(at + 1) for at in found[:10])
        says = (
            f"and not at line {expected + 1} of {count}, which it names" if expected is not None else "and names none"
        )
        raise ToolError(f"hunk {number} fits at several lines ({where}) {says}; give it more context.")
    return found[0] if found else None


def _trimmed(lines: Sequence[PatchLine], fuzz: int) -> tuple[int, int]:
    """Return how many lines of context to leave out at the beginning and at the end."""
    first = next((i for i, line in enumerate(lines) if line.kind != " "), len(lines))
    last = next((i for i, line in enumerate(reversed(lines)) if line.kind != " "), len(lines))
    return min(first, fuzz), min(last, fuzz)


def _placed(at: int, lines: tuple[PatchLine, ...], number: int, expected: int | None, note: str) -> _Place:
    stop = at + sum(line.kind != "+" for line in lines)
    moved = f"at line {at + 1} instead of {expected + 1}" if expected is not None and at != expected else ""
    notes = ", ".join(part for part in (moved, note) if part)
    return _Place(at, stop, number, lines, f"hunk {number}: {notes}" if notes else "")


def _joined(text: str, old: Sequence[str], places: Sequence[_Place]) -> str:
    style = "\r" if text.count("\r\n") * 2 > text.count("\n") else ""
    lines = list(old)
    if lines and not text.endswith("\n") and not lines[-1].endswith("\r"):
        lines[-1] += style  # as if it had an end like the others; taken off again below
    out: list[str] = []
    at = 0
    for place in places:
        out += lines[at : place.start]
        at = place.start
        matched = lines[place.start : place.stop]
        line_end = "\r" if any(line.endswith("\r") for line in matched) else "" if matched else style
        for line in place.lines:
            if line.kind == "+":
                out.append(line.text + line_end)
            else:
                out += [lines[at]] if line.kind == " " else []
                at += 1
    out += lines[at:]
    if not out:
        return ""
    if _newline_at_end(text, len(lines), places):
        return "\n".join(out) + "\n"
    is_as_it_was = at < len(old) and out[-1] == old[-1]
    return "\n".join((*out[:-1], out[-1] if is_as_it_was else out[-1].removesuffix("\r")))


def _newline_at_end(text: str, count: int, places: Sequence[_Place]) -> bool:
    """Return whether the new text ends with a newline: as the hunk at its end says, else as before."""
    before = text.endswith("\n") or not text
    if not places or places[-1].stop < count:
        return before
    new = [line for line in places[-1].lines if line.kind != "-"]
    old = [line for line in places[-1].lines if line.kind != "+"]
    if new and not new[-1].newline:
        return False
    return True if old and not old[-1].newline else before
