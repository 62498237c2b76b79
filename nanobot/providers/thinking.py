"""Tell reasoning from answer in a text that arrives in pieces.  Pure.

Some servers leave a model's ``<think>…</think>`` in its text.  It counts as reasoning only at the start of the answer, so that an
answer *about* such tags stays whole.  A tag, or a character outside the BMP, may be split over pieces: what could be the first half
of either is held back until it is decided.
"""

import re
from typing import Literal

from nanobot.providers.wire import clean

Piece = tuple[Literal["text", "reasoning"], str]

_OPENINGS = ("<think>", "<thinking>")
# A template that opens the tag in the prompt leaves only its end in the answer, alone on its line.
_ONLY_END = re.compile(r"\A(?P<reasoning>.*?)^[ \t]*</think(?:ing)?>[ \t]*$\n?", re.DOTALL | re.MULTILINE)


class ThinkSplitter:
    """Split text into reasoning and answer; ``feed`` pieces in order, then ``flush``."""

    def __init__(self) -> None:
        self._held = ""
        self._state: Literal["start", "reasoning", "text"] = "start"
        self._closing = ""
        self._gap = False  # just after the tag: white space there belongs to nobody

    def feed(self, piece: str) -> list[Piece]:
        """Take a piece of the model's text; return what is decided."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":  # the first half of a character
            text, self._held = text[:-1], text[-1]
        return [(kind, clean(part)) for kind, part in self._split(text) if part]

    def flush(self) -> list[Piece]:
        """Return what was held back: the answer is over."""
        rest, self._held = clean(self._held), ""
        kind: Literal["text", "reasoning"] = "reasoning" if self._state == "reasoning" else "text"
        return [(kind, rest)] if rest else []

    def _split(self, text: str) -> list[Piece]:
        if self._state == "start":
            body = text.lstrip()
            opening = next((tag for tag in _OPENINGS if body.startswith(tag)), "")
            if opening:
                self._state, self._closing = "reasoning", opening.replace("<", "</")
                text = body[len(opening) :]
            elif not body or any(tag.startswith(body) for tag in _OPENINGS):
                self._held = text + self._held
                return []
            else:
                self._state = "text"
        if self._state == "reasoning":
            return self._reason(text)
        if self._gap:
            text = text.lstrip()
            self._gap = not text
        return [("text", text)]

    def _reason(self, text: str) -> list[Piece]:
        before, found, after = text.partition(self._closing)
        if found:
            self._state, self._gap = "text", True
            return [("reasoning", before), *self._split(after)]
        keep = next((n for n in range(len(self._closing) - 1, 0, -1) if text.endswith(self._closing[:n])), 0)
        if keep:
            text, self._held = text[:-keep], text[-keep:] + self._held
        return [("reasoning", text)]


def split_only_end(text: str) -> tuple[str, str] | None:
    """Return (reasoning, answer) of a text in which only the closing tag stands, alone on its line; else None."""
    match = _ONLY_END.match(text) if "</think" in text else None
    return (match["reasoning"].strip(), text[match.end() :].lstrip()) if match else None
