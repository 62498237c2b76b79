"""Properties of the result budget."""

import re

from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.base import CutPolicy
from nanobot.agent.tools.results import fit

POLICIES: tuple[CutPolicy, ...] = ("head", "middle", "tail")
MARKER = re.compile(
    r"\[… ([\d,]+) characters \(([\d,]+) lines\) left out, from character ([\d,]+) of ([\d,]+)"
    r'; read_result\("e17", offset=(\d+)\) …\]'
)
texts = st.one_of(
    st.text(max_size=3_000),
    st.lists(st.text(alphabet="abc é\u0301🇩🇪👩\u200d💻\r", max_size=60), max_size=80).map("\n".join),
)


@given(text=texts, max_chars=st.integers(0, 2_000), cut=st.sampled_from(POLICIES))
def test_a_result_with_its_marker_is_never_over_budget(text: str, max_chars: int, cut: CutPolicy) -> None:
    """Whatever the text, what comes out fits, and a text that fits comes out unchanged."""
    fitted = fit(text, max_chars=max_chars, cut=cut, entry="e17")

    assert len(fitted.text) <= max_chars
    assert fitted.was_cut == (len(text) > max_chars)
    assert fitted.was_cut or fitted.text == text


@given(text=texts, max_chars=st.integers(0, 2_000), cut=st.sampled_from(POLICIES))
def test_fitting_twice_changes_nothing(text: str, max_chars: int, cut: CutPolicy) -> None:
    """Fitting is idempotent, so a prompt prefix stays the same."""
    once = fit(text, max_chars=max_chars, cut=cut, entry="e17").text

    assert fit(once, max_chars=max_chars, cut=cut, entry="e17").text == once


@given(text=st.text(min_size=700, max_size=3_000), max_chars=st.integers(250, 690), cut=st.sampled_from(POLICIES))
def test_the_marker_tells_the_truth(text: str, max_chars: int, cut: CutPolicy) -> None:
    """What is kept stands in the text at the places that the marker names, and the numbers add up."""
    found = fit(text, max_chars=max_chars, cut=cut, entry="e17").text

    match = MARKER.search(found)
    assert match is not None
    missing, lines, start, total = (int(group.replace(",", "")) for group in match.groups()[:4])
    before, after = found[: match.start()], found[match.end() :]
    assert total == len(text)
    assert before in (text[:start], text[:start] + "\n")
    assert after.removeprefix("\n") == text[start + missing :]
    assert lines == text.count("\n", start, start + missing) + 1
    assert int(match.group(5)) == start


@given(text=texts, max_tokens=st.integers(1, 400), cut=st.sampled_from(POLICIES))
def test_tokens_are_kept_too_where_a_counter_exists(text: str, max_tokens: int, cut: CutPolicy) -> None:
    """With a counter, the result has no more tokens than allowed."""

    def count(part: str) -> int:
        return len(part.encode("utf-8", "replace")) // 3

    fitted = fit(text, max_chars=2_000, cut=cut, entry="e17", counter=count, max_tokens=max_tokens)

    assert count(fitted.text) <= max_tokens


@given(
    cells=st.lists(st.sampled_from(["👩\u200d💻", "e\u0301", "🇩🇪", "\r\n", "x", "👍🏽"]), min_size=200, max_size=400)
)
def test_no_character_is_torn(cells: list[str]) -> None:
    """A cut never falls between the parts of one visible character."""
    text = "".join(cells)
    borders = {0}
    for cell in cells:
        borders.add(max(borders) + len(cell))

    match = MARKER.search(fit(text, max_chars=190, cut="middle", entry="e17").text)

    assert match is not None
    missing, start = (int(match.group(i).replace(",", "")) for i in (1, 3))
    assert start in borders
    assert start + missing in borders
