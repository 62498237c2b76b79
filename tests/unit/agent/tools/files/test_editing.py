"""Replacing text in text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.files.editing import Replacement, replace_all_of
from nanobot.errors import ToolError


def edit(text: str, old: str, new: str, *, everywhere: bool = False) -> str:
    """Return the text after one replacement."""
    return replace_all_of(text, [Replacement(old, new, everywhere)]).text


def refusal(text: str, *replacements: Replacement) -> str:
    """Return why nothing was replaced."""
    with pytest.raises(ToolError) as caught:
        replace_all_of(text, replacements)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\n", "a\nb", "a\nc", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\nb", "x\ny\nz", "x\r\ny\r\nz\r\n"),
        ("a\nb\r\nc\n", "b", "b1\nb2", "a\nb1\nb2\r\nc\n"),
        ("a\nb\r\nc\r\n", "b\nc", "B\nC", "a\nB\r\nC\r\n"),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
        ("\r\na\r\n", "\na", "\nb", "\r\nb\r\n"),
    ],
)
def test_h07_line_ends_do_not_matter_and_are_kept(text: str, old: str, new: str, expected: str) -> None:
    """The replacement takes the style around it; every other byte stays."""
    assert edit(text, old, new) == expected


@given(
    before=st.text(alphabet="ab\r\n", max_size=30),
    after=st.text(alphabet="ab\r\n", max_size=30),
    new=st.text(alphabet="cd\n", max_size=10),
)
def test_h07_all_but_the_match_stays_as_it_was(before: str, after: str, new: str) -> None:
    """Whatever surrounds the match, it is untouched."""
    found = edit(f"{before}XYZ{after}", "XYZ", new)

    assert found.startswith(before)
    assert found.endswith(after)
    assert found[len(before) : len(found) - len(after)].replace("\r\n", "\n") == new


def test_several_edits_are_all_matched_against_the_text_as_it_is() -> None:
    """Their order does not matter, and none sees another's work."""
    edits = [Replacement("b", "a"), Replacement("a", "b")]

    assert replace_all_of("a\nb", edits) == replace_all_of("a\nb", edits[::-1])
    assert replace_all_of("a\nb", edits).text == "b\na"
    assert replace_all_of("x\na\nb\n", [Replacement("b", "1\n2"), Replacement("x", "y\nz")]).lines == (1, 4)


def test_several_edits_are_applied_all_or_none() -> None:
    """A failing one says which it is; one that counts on another is told so; two that overlap are refused."""
    counting = refusal("ax", Replacement("a", "bb"), Replacement("bbx", "c"))
    overlapping = refusal("one two\n", Replacement("e t", "x"), Replacement("two", "2"))

    assert "edit 2 of 2" in counting
    assert "would be there after the edits before it" in counting
    assert "Nothing was changed" in counting
    assert "edits 1 and 2 overlap at line 1" in overlapping
    assert "overlap" in refusal("a a", Replacement("a", "b", everywhere=True), Replacement("a a", "c"))


@pytest.mark.parametrize(
    ("text", "old", "expected"),
    [
        ("a  \nb\n", "a\nb", "NEW\n"),
        ("a\nb\n", "a  \nb", "NEW\n"),
        ("a\t\r\nb\r\n", "a\nb \n", "NEW"),
        ("x = 1   \ny\n", "x = 1 \n", "NEWy\n"),
        ("a\n  \nb", "a\n\nb", "NEW"),
    ],
)
def test_blanks_at_line_ends_do_not_matter_where_one_place_fits(text: str, old: str, expected: str) -> None:
    """Trailing blanks are invisible to a reader; the answer tells that they were overlooked."""
    edited = replace_all_of(text, [Replacement(old, "NEW")])

    assert edited.text == expected
    assert edited.loose == (1,)


def test_blanks_are_not_overlooked_where_it_would_be_a_guess() -> None:
    """Two places, or a blank in the middle of a line: refused."""
    assert "but for blanks at line ends, is there 2 times (lines 1, 3)" in refusal(
        "a \nb\na  \nb\n", Replacement("a\nb", "x")
    )
    assert "not in the file" in refusal("x =5\n", Replacement("x = ", "y"))


@given(st.text(alphabet="a \t\n", max_size=200), st.text(alphabet="a \t\n", min_size=1, max_size=20))
def test_an_edit_gives_a_text_or_a_reason(text: str, old: str) -> None:
    """Whatever the blanks: the rest stays byte for byte, or nothing is changed."""
    try:
        edited = edit(text, old, "X")
    except ToolError:
        return

    before, _, after = edited.partition("X")
    assert text.startswith(before)
    assert text.endswith(after)
    assert len(before) + len(after) < len(text)


def test_every_occurrence_is_replaced_when_asked() -> None:
    """Also where the new text contains the old."""
    assert edit("a a a", "a", "aa", everywhere=True) == "aa aa aa"


def test_more_than_one_match_names_the_lines() -> None:
    """The model can widen its text."""
    assert "2 times (lines 1, 3)" in refusal("x\ny\nx\n", Replacement("x", "z"))


@pytest.mark.parametrize(
    ("text", "old", "why"),
    [
        ("def f():\n    return 1\n", "def f():\n  return 1", "indentation differs"),
        ("x = 1  +  2\n", "x = 1 + 2", "white space inside lines"),
        ("Hello World\n", "hello world", "upper and lower case"),
        ("say “hi” – now\n", 'say "hi" - now', "quotes, dashes or accents"),
        ("one\ntwo\n", "1\tone\n2\ttwo", "line numbers"),
    ],
)
def test_a_near_miss_says_why_and_shows_the_file(text: str, old: str, why: str) -> None:
    """The model learns what differs, and sees the numbered text."""
    assert why in refusal(text, Replacement(old, "new"))


def test_the_nearest_text_is_shown_with_line_numbers() -> None:
    """When only something similar is there, it is shown."""
    text = "import os\n\ndef compute_total(items):\n    return sum(items)\n"

    found = refusal(text, Replacement("def compute_totals(item):\n    return total(item)", "x"))

    assert "3\tdef compute_total(items):\n4\t    return sum(items)" in found
    assert "line 3 is 'def compute_total(items):', not 'def compute_totals(item):'" in found


def test_nothing_similar_says_so() -> None:
    """No misleading suggestion."""
    assert "nor anything like it" in refusal("alpha\nbeta\n", Replacement("zzzzqqqq(1234)", "x"))


@pytest.mark.parametrize(("old", "new", "why"), [("", "x", "empty"), ("a", "a", "the same")])
def test_an_edit_that_cannot_mean_anything_is_refused(old: str, new: str, why: str) -> None:
    """Empty and equal texts are mistakes."""
    assert why in refusal("a", Replacement(old, new))
