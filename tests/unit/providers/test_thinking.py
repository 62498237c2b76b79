"""Reasoning inside text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.providers.thinking import ThinkSplitter, split_only_end

CASES = [
    ("plain", "", "plain"),
    ("<think>hm</think>\n\nanswer", "hm", "answer"),
    ("\n <thinking>hm</thinking>answer", "hm", "answer"),
    ("<think>a < b </thin</think>x", "a < b </thin", "x"),
    ("Write <think> to open", "", "Write <think> to open"),
    ("<thin air", "", "<thin air"),
    ("<think>never ends", "never ends", ""),
    ("<think></think>x", "", "x"),
    ("  ", "", "  "),
    ("<think>😀</think>😀", "😀", "😀"),
]


@pytest.mark.parametrize(("text", "reasoning", "answer"), CASES)
@given(data=st.data())
def test_think_tags_split_anywhere(text: str, reasoning: str, answer: str, data: st.DataObject) -> None:
    """However a text is cut into pieces, even inside a tag or a character, reasoning and answer come out the same."""
    units = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    halves = "".join(_halves(character) for character in units)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(halves)))))
    splitter = ThinkSplitter()
    out = {"text": "", "reasoning": ""}
    for start, end in zip([0, *cuts], [*cuts, len(halves)], strict=True):
        for kind, piece in splitter.feed(halves[start:end]):
            out[kind] += piece
    for kind, piece in splitter.flush():
        out[kind] += piece

    assert (out["reasoning"], out["text"]) == (reasoning, answer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hm, so\n</think>\n\nanswer", ("hm, so", "answer")),
        ("the tag `</think>` closes it", None),
        ("plain", None),
    ],
)
def test_a_closing_tag_alone(text: str, expected: tuple[str, str] | None) -> None:
    """A tag that the template opened counts when its end stands alone on a line, and not when a sentence speaks of it."""
    assert split_only_end(text) == expected


def _halves(character: str) -> str:
    if ord(character) < 0x10000:
        return character
    code = ord(character) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
