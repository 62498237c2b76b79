"""Whatever a model writes arrives: complete, in order, and legal."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.channels.splitting import piece, split
from nanobot.channels.telegram.format import Rendered, fits, render, render_all, utf16_units
from tests.fakes.telegram.rules import check_entities, check_text, units

PROSE = (
    "time memory agent the of and **bold** *leaning* `code()` "
    "[link](https://example.org/a_b) 😀 👨‍👩‍👧‍👦 naïve 漢字 かな שלום مرحبا "
    "~~gone~~ vector<int> <br> a||b $x$ 2*3*4 snake_case_name http://x.y/z_w \\* & &amp; # > | e\u0301 🇩🇪 [^1] [ref][1] !"
)
WORDS = PROSE.split()
FENCES = [
    "```python\nprint('😀')\n\nif a < b:\n    pass\n```",
    "~~~\nplain\n~~~",
    "```\nnever closed",
    "- a\n  ```js\n  x()\n  ```",
]


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words))


def items(rng: random.Random) -> str:
    marks = rng.choice([("- ", "- "), ("1. ", "- "), ("* ", "1. ")])
    return "\n".join(
        "  " * (depth := rng.randrange(3)) + marks[depth > 0] + prose(rng, 9) for _ in range(rng.randrange(1, 30))
    )


def table(rng: random.Random) -> str:
    rows = [f"| {prose(rng, 2)} | {number} |".replace("||", "") for number in range(rng.randrange(1, 12))]
    return "\n".join(["| name | n |", "|---|---:|", *rows])


def code(rng: random.Random) -> str:
    lines = [f"    value_{n} = f({n})  # {prose(rng, 3)}".replace("`", "'") for n in range(rng.randrange(1, 200))]
    return "\n".join(["```python", "def f(x):", *lines, "```"])


def document(rng: random.Random) -> str:
    """Return a long answer of the kinds of blocks that models write."""
    makers = [
        lambda: prose(rng, rng.randrange(5, 200)),
        lambda: items(rng),
        lambda: table(rng),
        lambda: code(rng),
        lambda: f"{'#' * rng.randrange(1, 7)} {prose(rng, 4)}",
        lambda: "> " + prose(rng, 20) + "\n> " + prose(rng, 9),
        lambda: rng.choice(FENCES[:2] + FENCES[3:]),
        lambda: "---",
        lambda: "line one\nline two\nline three",
        lambda: "<details>\n<summary>more</summary>\n\nhidden **text**\n\n</details>",
    ]
    return "\n\n".join(rng.choice(makers)() for _ in range(rng.randrange(3, 18)))


def assert_legal(rendered: Rendered) -> None:
    check_text(rendered.text)
    check_entities(
        rendered.text,
        [
            {"type": e.type, "offset": e.offset, "length": e.length, "url": e.url, "language": e.language}
            for e in rendered.entities
        ],
    )


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.timeout(180)
def test_two_hundred_long_answers_arrive_complete_in_order_and_valid() -> None:
    """The parts are the whole text; each is legal alone; put together they show what the whole would show."""
    rng = random.Random(20261130)
    for _ in range(200):
        text = document(rng)
        parts = split(text, fits)
        shown = [render_all(piece(text, start, end)) for start, end in parts]
        for rendered in shown:
            assert_legal(rendered)

        assert [parts[0][0], *(end for _, end in parts)] == [*(start for start, _ in parts), len(text)]
        header = squeezed("name | n")  # a table that is cut repeats its header in each part
        together = squeezed("".join(rendered.text for rendered in shown))
        whole = squeezed(render_all(text).text)
        assert without_tables(together, header) == without_tables(whole, header), text


def without_tables(text: str, header: str) -> str:
    """Leave out table rules, and the numbers of lists in which every item says ``1.``: those begin anew in each part."""
    return re.sub(r"[-+|]|\d+\.", "", text.replace(header, ""))


def test_parts_are_not_crumbs() -> None:
    """A long answer is not torn into many short messages."""
    rng = random.Random(7)
    for _ in range(40):
        text = document(rng)
        parts = split(text, fits)

        assert len(parts) <= utf16_units(render_all(text).text) // 1_000 + 1


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.text(max_size=400)
    | st.lists(st.sampled_from([*WORDS, *FENCES, "\n", "\n\n", "    ", "- ", "\ud800", "\0"])).map("".join)
)
def test_any_text_renders_to_something_legal(text: str) -> None:
    """No text, however broken, is refused or comes out empty."""
    rendered = render(text)

    if rendered.text.strip():
        assert_legal(rendered)
    else:
        assert not text.replace("\0", "").strip()


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.lists(
        st.sampled_from([*WORDS, *FENCES, "\n", "\n\n", " ", "- ", "😀" * 700, "x" * 1500, "`" * 50]), min_size=5
    ).map(" ".join)
)
def test_any_text_is_cut_into_parts_that_fit(text: str) -> None:
    """Parts are contiguous and legal even where there is no good place to cut."""
    parts = split(text, fits)

    assert "".join(text[start:end] for start, end in parts) == text
    for start, end in parts:
        assert units(render(piece(text, start, end)).text) <= 4096
