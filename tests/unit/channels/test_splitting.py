"""Long answers are cut where a person would cut them."""

import pytest

from nanobot.channels.splitting import piece, split
from nanobot.channels.telegram.format import fits, render, utf16_units


def shown(text: str) -> list[str]:
    return [render(piece(text, start, end)).text for start, end in split(text, fits)]


@pytest.mark.parametrize("text", ["x" * 4097, "x" * 8200, "y" * 20_000, "😀" * 3_000, "```\n" + "z" * 9_000 + "\n```"])
def test_d01_texts_without_any_border_are_cut_all_the_same(text: str) -> None:
    """Long words, code in one line and emoji all arrive, measured in UTF-16 units."""
    parts = shown(text)

    assert all(utf16_units(part) <= 4096 for part in parts)
    assert "".join(parts) == text.replace("```", "").strip()


def test_d02_what_is_measured_is_what_is_sent() -> None:
    """Markup that shrinks or grows in rendering does not make a part too long, nor cut in a style."""
    text = ("**ab** & <x> " * 400)[:3_990]
    parts = shown(text)

    assert "".join(parts).replace(" ", "") == text.replace("*", "").replace(" ", "")


def test_paragraphs_stay_whole() -> None:
    """A cut falls between paragraphs when it can."""
    paragraphs = [f"{number} " + "word " * 300 for number in range(6)]
    text = "\n\n".join(paragraphs)

    assert [part.split()[0] for part in shown(text)] == ["0", "2", "4"]


def test_a_heading_is_not_left_behind() -> None:
    """A heading goes with what it is the heading of."""
    text = "word " * 780 + "\n\n# Heading\n\n" + "more " * 300

    assert shown(text)[1].startswith("Heading")


def test_a_code_block_goes_on_as_code() -> None:
    """A fence that was opened in an earlier part is opened again, with its language."""
    text = "```python\n" + "value = 1\n" * 1_000 + "```\n\nafter"
    second = render(piece(text, *split(text, fits)[1]))

    assert (second.entities[0].type, second.entities[0].language) == ("pre", "python")
    assert second.text.startswith("value = 1\n")


def test_a_table_goes_on_as_a_table() -> None:
    """A table that is cut shows its header again."""
    text = "| name | n |\n|---|---|\n" + "".join(f"| row {n} | {n} |\n" for n in range(500))
    parts = shown(text)

    assert len(parts) > 1
    assert all(part.startswith("name") for part in parts)
    assert all(f"row {n} " in "".join(parts) for n in range(500))


def test_many_links_are_spread_over_messages() -> None:
    """Telegram keeps 100 entities of a message; no link is lost to that."""
    text = " ".join(f"[l{n}](http://x.y/{n})" for n in range(250))
    rendered = [render(piece(text, start, end)) for start, end in split(text, fits)]

    assert sum(len(part.entities) for part in rendered) == 250


def test_nothing_is_sent_for_nothing() -> None:
    """An empty text has no parts, and white space at the end makes no message of its own."""
    assert split("", fits) == ()
    assert len(split("word " * 815 + "\n" * 9_000, fits)) == 1


def test_code_that_is_only_indented_stays_code() -> None:
    """Its indentation is all that makes it code: a part that begins with it keeps it."""
    text = "before\n\n    - no * list\n    - still code\n"
    at = text.index("    -")

    assert piece(text, at, len(text)) == "    - no * list\n    - still code\n"


@pytest.mark.parametrize("text", ["e" + "\u0301" * 20_000, "\u200d" * 20_000, "👩" + "\u200d👩" * 8_000])
def test_one_character_without_end_is_a_few_messages(text: str) -> None:
    """What a person would see as one character is cut all the same when it fills a message, and not into one for each piece."""
    parts = split(text, lambda piece: len(piece) <= 4_000)

    assert "".join(text[start:end] for start, end in parts) == text
    assert len(parts) <= 7


def test_dense_text_is_not_asked_about_again_and_again() -> None:
    """Where a message holds little of the source, what is known not to fit is asked about no more: time goes with the text."""
    text = "# a\n" * 8_000
    asked = 0

    def fits(piece: str) -> bool:
        nonlocal asked
        asked += len(piece)
        return piece.count("#") <= 100

    parts = split(text, fits)

    assert len(parts) == 80
    assert asked < 20 * len(text)
