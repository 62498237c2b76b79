"""Markdown as lines: nothing the model wrote is hidden, and it can be copied."""

import re

import pytest

from nanobot.channels.terminal.markdown import Ink


def plain(text: str, columns: int = 40) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", Ink().markdown(text, columns))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb", "a\nb\n"),
        ("List<int> and <b>x</b>", "List<int> and <b>x</b>\n"),
        ("<div>block</div>", "<div>block</div>\n"),
        ("# Title", "Title\n"),
        ("[name](http://e.x/)", "name (http://e.x/)\n"),
        ("```python\ndef f():\n\n\n    return 1\n```", "def f():\n\n\n    return 1\n"),
        ("| a | b |\n|---|---|\n| 1 | 日本 |", "a  b\n───────\n1  日本\n"),
    ],
)
def test_what_was_written_is_what_is_shown(text: str, expected: str) -> None:
    """Line breaks, HTML, addresses and blank lines of code survive, without padding around code."""
    assert [line.rstrip() for line in plain(text).splitlines()] == [line.rstrip() for line in expected.splitlines()]


def test_no_line_ends_in_spaces() -> None:
    """Copied text carries no padding."""
    drawn = plain("a paragraph\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n")

    assert [line for line in drawn.splitlines() if line != line.rstrip()] == []


def test_no_color_leaves_no_colour() -> None:
    """NO_COLOR keeps bold and dim only."""
    drawn = Ink(colour=False).markdown("**b** `c`\n\n```python\nx = 1\n```\n", 40)
    codes = {code for group in re.findall(r"\x1b\[([0-9;]*)m", drawn) for code in group.split(";")}

    assert codes <= {"", "0", "1", "2", "3", "4"}


@pytest.mark.parametrize("columns", [1, 8, 20])
def test_narrow_terminals_work(columns: int) -> None:
    """Wide characters, tables and long words on a very narrow screen raise nothing."""
    assert plain("日本語 👩‍👩‍👧‍👦 loooooooooooooooooooong\n\n| a | 日本 |\n|---|---|\n| x | y |\n", columns)
