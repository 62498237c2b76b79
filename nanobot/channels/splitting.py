"""Cut a Markdown answer into messages at sensible places.  Pure.

Parts are ``[start, end)`` offsets into the source, in code points; together they are the whole text, in order.  Each part is shown
alone, so ``piece`` gives it what it needs to stand alone: a code fence or a table's header that was opened before it.

What fits is the channel's business: ``fits`` is asked about pieces, and is expected to say yes to every beginning of what fits.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from nanobot.channels.blocks import Layout, layout
from nanobot.messages import clean_text

Fits: TypeAlias = Callable[[str], bool]
Parts: TypeAlias = tuple[tuple[int, int], ...]

MIN_CHARS = 1_200
MAX_SOURCE_CHARS = 12_000  # no message shows more source than this, however much of it is links
USUAL_CHARS = 4_000
_LEAST_GUESS_CHARS = 100
_WORTH_ASKING = 3  # times what the part before held, the rest of a text may have to be asked about as a whole
_SENTENCE_ENDS = (". ", "! ", "? ", "… ", ": ", "。", "！", "？")
_MARKUP = re.compile(r"[ #>\-+*=~`|]|\d+[.)]")  # would mean something else at the beginning of a line
_JOINERS = "\u200d\ufe0e\ufe0f"


def split(text: str, fits: Fits, *, start: int = 0, min_chars: int = MIN_CHARS) -> Parts:
    """Return the parts of an answer from ``start`` on; one part if it fits.

    A part shorter than ``min_chars`` is not worth a nicer border.
    """
    if not text[start:]:
        return ()
    if not start and len(text) <= MAX_SOURCE_CHARS and fits(text):
        return ((0, len(text)),)
    plan = _laid_out(text)
    parts: list[tuple[int, int]] = []
    usual = USUAL_CHARS  # how much the part before this one held: asking about much more is dear and in vain
    while start < len(text):
        end = _next_end(plan, start, fits, min_chars, usual)
        usual = max(_LEAST_GUESS_CHARS, end - start)
        if parts and not text[start:end].strip():  # nothing to see: it goes with the part before
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((start, end))
        start = end
    return tuple(parts)


def piece(text: str, start: int, end: int) -> str:
    """Return the source of one part so that it can be shown alone."""
    return text[start:end] if start == 0 else _piece(_laid_out(text), start, end)


def _laid_out(text: str) -> Layout:
    safe = clean_text(text)
    return layout(safe if len(safe) == len(text) else "".join(_safe(character) for character in text))


def _safe(character: str) -> str:
    return "\ufffd" if character == "\0" or "\ud800" <= character <= "\udfff" else character


def _piece(plan: Layout, start: int, end: int) -> str:
    source = plan.text[start:end]
    enclosure = plan.enclosure_at(start)
    if enclosure is not None and start >= enclosure.body:
        at_line = plan.text[start - 1] == "\n"
        is_table = enclosure.opener.lstrip().startswith("|") or "|" in enclosure.opener.partition("\n")[0]
        if at_line or not is_table:
            return enclosure.opener + _dedented(source, enclosure.indent)
    if any(begin <= start < stop for begin, stop in plan.indented):
        return source
    first = source.lstrip(" ")
    return _dedented(source, len(source) - len(first)) if start and plan.text[start - 1] == "\n" else source


def _dedented(source: str, columns: int) -> str:
    """Return the text with up to so many spaces less before each line, as far as it is indented that deep."""
    if not columns:
        return source
    lines = source.splitlines(keepends=True)
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        if index and line.strip() and indent < columns:
            break
        lines[index] = line[min(columns, indent) :]
    return "".join(lines)


def _next_end(plan: Layout, start: int, fits: Fits, min_chars: int, usual: int) -> int:
    """Return where the part that begins at ``start`` ends: at the best border that leaves it a decent size."""
    text = plan.text
    stop = min(len(text), start + MAX_SOURCE_CHARS)
    if stop == len(text) and stop - start <= _WORTH_ASKING * usual and fits(_piece(plan, start, stop)):
        return stop
    best, too_far = (
        start,
        stop + 1,
    )  # what is known to fit, and not to: between them lies all that is worth asking about

    def fitting(at: int) -> bool:
        nonlocal too_far
        does = fits(_piece(plan, start, at))
        too_far = too_far if does else min(too_far, at)
        return does

    for borders in _borders(plan, start, lambda: min(stop, too_far - 1)):
        asked = borders[bisect_right(borders, best) :]
        best = _largest(asked, fitting, guess=start + usual) or best
        if best - start >= min_chars or best + 1 >= too_far:
            break
    return best if best > start else start + 1


def _largest(borders: Sequence[int], fitting: Callable[[int], bool], *, guess: int) -> int | None:
    """Return the last border that fits: from a guess outwards, then by halving.

    Asking is dear, and dearer for longer texts; most texts show about as many characters as they are written with.
    """
    low, high, found = 0, len(borders) - 1, None
    middle, stride = min(max(bisect_right(borders, guess) - 1, 0), high), 1
    while low <= high:
        if fitting(borders[middle]):
            found, low = borders[middle], middle + 1
            middle = min(low + stride, high) if stride else (low + high) // 2
        else:
            high, stride = middle - 1, 0
            middle = (low + high) // 2
        stride *= 4
    return found


def _borders(plan: Layout, start: int, reach: Callable[[], int]) -> Iterator[list[int]]:
    """Yield the places where the part may end, the best kind first; the last are anywhere but inside a character, and anywhere.

    ``reach`` is how far it is worth looking; it shrinks while it is looked.
    """
    text, stop = plan.text, reach()

    def allowed(places: Sequence[int]) -> list[int]:
        between = places[bisect_right(places, start) : bisect_right(places, stop)]
        return [at for at in between if not _in_opener(plan, at)]

    yield allowed(plan.blocks)
    lines = [at + 1 for at in _finds(text, "\n", start, stop)]
    blank = [at for at in lines if text[max(at - 2, 0) : at] == "\n\n"]
    yield allowed(sorted({*allowed(plan.inner), *blank}))
    yield allowed([at for at in lines if not plan.in_span(at)])
    sentences = sorted(at + len(mark) for mark in _SENTENCE_ENDS for at in _finds(text, mark, start, stop))
    yield allowed([at for at in sentences if not plan.in_span(at) and not _MARKUP.match(text, at)])
    spaces = [at + 1 for at in _finds(text, " ", start, stop) if not _MARKUP.match(text, at + 1)]
    yield allowed([at for at in spaces if not plan.in_span(at)])
    yield allowed(sorted([*spaces, *lines]))
    yield allowed([at for at in range(start + 1, reach() + 1) if not _inside_character(text, at)])
    yield [*range(start + 1, reach() + 1)]  # one character without end, or the opening of a block


def _in_opener(plan: Layout, at: int) -> bool:
    enclosure = plan.enclosure_at(at)
    return enclosure is not None and enclosure.start < at < enclosure.body


def _finds(text: str, mark: str, start: int, stop: int) -> Iterator[int]:
    at = text.find(mark, start, stop)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1, stop)


def _inside_character(text: str, at: int) -> bool:
    """Say whether a person would see one character cut in two: joined emoji, accents."""
    if at >= len(text):
        return False
    after, before = text[at], text[at - 1]
    return after in _JOINERS or before == "\u200d" or unicodedata.combining(after) != 0 or "🏻" <= after <= "🏿"
