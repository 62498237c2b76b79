"""Long code is cut out of an answer and becomes a file; nothing else does, and nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.channels.telegram.code import LONG_CODE_UNITS, code_file, has_file, split_with_files
from nanobot.channels.telegram.format import split_answer

CODE = "".join(f"print({number})\n" for number in range(2_000))
FENCED = f"```python\n{CODE}```"


def cut(text: str) -> list[str]:
    return [text[start:end] for start, end in split_with_files(text)]


@pytest.mark.parametrize("before", ["", "Here it is:\n\n"])
@pytest.mark.parametrize("after", ["", "\n", "\n\nThat was it.", "\nThat was it."])
def test_long_code_is_a_part_of_its_own(before: str, after: str) -> None:
    """What stands around it stays text; the file holds the code and nothing else."""
    parts = cut(before + FENCED + after)
    files = [file for part in parts if (file := code_file(part))]

    assert "".join(parts) == before + FENCED + after
    assert len(parts) == 1 + bool(before) + bool(after.strip())
    assert [(one.text, one.file and one.file.data.decode()) for one in files] == [("code.py · 2,000 lines", CODE)]


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{'x' * (LONG_CODE_UNITS - 9)}\n```",
        f"- a list\n\n  ```\n  {'x' * LONG_CODE_UNITS}\n  ```",
        "> ```\n" + "> code\n" * 3_000,
        "words and words. " * 2_000,
    ],
)
def test_other_things_are_cut_as_ever(text: str) -> None:
    """Short code, code inside lists and quotes, and long prose are messages."""
    assert split_with_files(text) == split_answer(text)
    assert not has_file(text)
    assert not any(code_file(part) for part in cut(text))


@pytest.mark.parametrize(
    ("fence", "name"),
    [("~~~rust", "code.rs"), ("````weird/../x", "code.weird"), ("```", "code.txt"), ("```" + "x" * 30, "code.txt")],
)
def test_a_file_is_named_by_its_language(fence: str, name: str) -> None:
    """A language cannot lead anywhere; fences of other kinds are fences too."""
    file = code_file(f"{fence}\n{CODE}{fence[:4].rstrip('rwx')}")

    assert file is not None
    assert file.file is not None
    assert (file.file.name, file.file.data.decode()) == (name, CODE)


def test_code_that_never_ends_and_odd_characters_are_kept() -> None:
    """An answer that was cut off, with half a character in it, is a file all the same."""
    text = f"```\n{CODE}\ud800 😀"
    (file,) = [code_file(part) for part in cut(text)]

    assert file is not None
    assert file.file is not None
    assert file.file.data.decode().startswith(CODE)


@given(st.lists(st.sampled_from([FENCED, "a line", "", "```\nshort\n```", "- x", "~~~\n" + CODE + "~~~"]), max_size=6))
def test_parts_are_the_whole_text_in_order(blocks: list[str]) -> None:
    """Whatever stands beside what."""
    text = "\n\n".join(blocks)
    parts = split_with_files(text)

    assert "".join(text[start:end] for start, end in parts) == text
    assert all(start < end for start, end in parts)
    assert sum(code_file(text[start:end]) is not None for start, end in parts) == sum(
        len(one) > 1_000 for one in blocks
    )
