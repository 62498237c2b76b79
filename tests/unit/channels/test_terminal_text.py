"""Text that is safe on a terminal, and where streamed Markdown is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.channels.terminal.text import Scan, one_line, printable, scan, tail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain 😀 日本\n\ttab", "plain 😀 日本\n\ttab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]52;c;aGFjaw==\x1b\\b", "ab"),
        ("a\x1bPq#0\x1b\\b", "ab"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("a\x9b31mb", "ab"),
        ("a\x1bcb", "ab"),
        ("a\x1b(0b", "ab"),
        ("a\x1b", "a"),
        ("over\rwrite", "over\nwrite"),
        ("a\r\nb", "a\nb"),
        ("back\x08\x08space\x7f\x00\x07", "backspace"),
        ("rm \u202e/ fr- \u2066x\u2069", "rm / fr- x"),
        ("\ud800x", "x"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_left(text: str, expected: str) -> None:
    """Colours, titles, the clipboard, the cursor and reordered text are not the model's to touch."""
    assert printable(text) == expected


@given(st.text(alphabet="\x1b[]0;m\x07\\\x9bPab\n\x90\x9c\r", max_size=60))
def test_no_combination_smuggles_an_escape(text: str) -> None:
    """What is left holds no control character but newline and tab, however the pieces join."""
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) <= 0x9F for char in printable(text))


def test_a_summary_stays_on_one_line() -> None:
    """A command with line breaks cannot fake further lines."""
    assert one_line("exec a\nb\x1b[1A\tc") == "exec a ⏎ b c"


def done(text: str) -> str:
    return text[: scan(Scan(), text).done]


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("one", ""),
        ("one\n", ""),
        ("one\n\n", "one\n\n"),
        ("one\n\ntwo\nthree", "one\n\n"),
        ("```\na\n\nb\n\n", ""),
        ("```\na\n\nb\n```\n\nx", "```\na\n\nb\n```\n\n"),
        ("````\n```\n\n```\n\n", ""),
        ("~~~\n```\n\nx\n~~~\n\n", "~~~\n```\n\nx\n~~~\n\n"),
        ("```a`b\n\nx", "```a`b\n\n"),
        ("- a\n\n- b\n\n", ""),
        ("- a\n\n  more\n\n- b\n\nend\n", "- a\n\n  more\n\n- b\n\n"),
        ("1. a\n\n2. b\n\n", ""),
        ("| a |\n|---|\n| 1 |\n\n", "| a |\n|---|\n| 1 |\n\n"),
    ],
)
def test_only_finished_blocks_are_done(text: str, finished: str) -> None:
    """A blank line ends a block, but not inside a fence or a list."""
    assert done(text) == finished


@given(st.lists(st.sampled_from(["a", "\n", "\n\n", "```", "- x", "  ", "~~~\n", "1. y"]), max_size=30))
def test_reading_in_pieces_is_reading_at_once(pieces: list[str]) -> None:
    """Where a stream was cut does not matter, and what is done never shrinks."""
    state, text = Scan(), ""
    for piece in pieces:
        text += piece
        before, state = state, scan(state, text)
        assert before.done <= state.done <= len(text)

    assert state == scan(Scan(), text)


def test_the_tail_of_a_code_block_is_still_code() -> None:
    """Cropping to the screen keeps the fence, or comments would become headings."""
    block = "```python\n" + "".join(f"# {i}\n" for i in range(100))

    assert tail(block, fence="```python\n", rows=2, columns=10) == "```python\n# 98\n# 99\n"
    assert tail("short", fence="", rows=2, columns=10) == "short"
    assert tail("x" * 1_000, fence="", rows=2, columns=10) == "x" * 20
