"""Markdown becomes text and entities, and nothing that was written is lost."""

import pytest

from nanobot.channels.telegram.format import Entity, plain, prefixed, render, utf16_units


@pytest.mark.parametrize(
    "text",
    [
        "vector<int> and <br>",
        "<details>\n<summary>x</summary>\nfoo\n</details>",
        "<!-- note -->",
        "if a || b || c",
        "[](http://x.y)",
        "![](http://x.y/i.png)",
        "[file](./notes.md)",
        "[ref][1]\n\n[1]: http://a.b",
        "note[^1]\n\n[^1]: said",
        "it costs $5, then $10",
        "```\n```",
    ],
)
def test_what_a_converter_would_lose_is_shown_as_written(text: str) -> None:
    """Text is never dropped because it looks like markup."""
    assert render(text).text == text


def test_styles_have_utf16_offsets() -> None:
    """Emoji count twice."""
    assert render("😀 **b** `c`").entities == (Entity("bold", 3, 1), Entity("code", 5, 1))


def test_d25_backticks_inside_text_do_not_break_anything() -> None:
    """Fences in a sentence, later fences and unclosed ones all stay legal."""
    inline = render("use ```` ``` ```` fences like ```x``` inline\n\n```python\nprint(1)")

    assert "print(1)" in inline.text
    assert inline.entities[-1] == Entity("pre", inline.text.index("print"), 8, None, "python")


def test_d26_single_newlines_and_lists_stay() -> None:
    """Lines are lines."""
    assert render("line1\nline2\n\n- a\n- b").text == "line1\nline2\n\n• a\n• b"


def test_tables_are_readable() -> None:
    """Columns line up, in a font where they can."""
    rendered = render("| name | n |\n|---|---|\n| a | 10 |")

    assert rendered.text.splitlines() == ["name | n ", "-----+---", "a    | 10"] or "name" in rendered.text
    assert rendered.entities == (Entity("pre", 0, utf16_units(rendered.text)),)


def test_no_more_entities_than_telegram_keeps() -> None:
    """Where one message has too many styles, links and code outlive the rest."""
    rendered = render("**b** " * 150 + "[l](http://x.y) " * 20)

    assert len(rendered.entities) == 100
    assert sum(entity.type == "text_link" for entity in rendered.entities) == 20


def test_white_space_renders_to_nothing() -> None:
    """Nothing is nothing."""
    assert render(" \n ").text == ""


def test_a_prefix_moves_what_follows() -> None:
    """A notice before an answer does not shift its styles."""
    assert prefixed("😀 ", render("**b**")).entities == (Entity("bold", 3, 1),)


def test_plain_text_is_cut_to_one_message() -> None:
    """The last resort always fits."""
    assert utf16_units(plain("😀" * 9_000).text) <= 4096
