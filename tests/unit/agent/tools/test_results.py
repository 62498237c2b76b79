"""The result budget by example; its laws are in ``tests/property/test_results.py``."""

import pytest

from nanobot.agent.tools.results import fit, safe_cut


def test_a_marker_says_how_much_where_and_how_to_read_it() -> None:
    """One line that the model can act on, between whole lines."""
    text = "".join(f"line {n}\n" for n in range(1_000))

    found = fit(text, max_chars=300, cut="middle", entry="e17").text

    before, marker, after = found.partition("[… ")
    assert before.endswith("\n")
    assert text.startswith(before)
    assert (marker + after).split("\n")[0].endswith(f'of 8,890; read_result("e17", offset={len(before)}) …]')
    assert text.endswith(after.split("\n", 1)[1])


def test_a_result_that_is_not_kept_says_so() -> None:
    """No call is suggested that would fail."""
    found = fit("x" * 1_000, max_chars=200, cut="tail", entry="").text

    assert "it is not kept" in found
    assert "read_result" not in found


@pytest.mark.parametrize("max_chars", [0, 1, 5, 20, 60, 100])
def test_a_budget_too_small_for_the_marker_is_still_kept(max_chars: int) -> None:
    """As much as fits is said."""
    found = fit("x" * 1_000, max_chars=max_chars, cut="tail", entry="e17")

    assert len(found.text) <= max_chars
    assert found.was_cut


@pytest.mark.parametrize(
    ("text", "at", "border"),
    [
        ("ab\r\ncd", 3, 2),
        ("e\u0301x", 1, 0),
        ("🇩🇪🇫🇷", 3, 2),
        ("👩\u200d💻!", 2, 0),
        ("👍🏽", 1, 0),
        ("abc", 2, 2),
        ("abc", 9, 3),
    ],
)
def test_cuts_move_back_to_a_border(text: str, at: int, border: int) -> None:
    """Line ends, accents, flags, joined emoji and skin tones stay whole."""
    assert safe_cut(text, at) == border
