"""read_result."""

import asyncio
import re
import time

import pytest

from nanobot.agent.tools.read_result import ReadResult
from nanobot.agent.tools.results import fit
from tests.unit.agent.tools.conftest import Bench

TOOL = ReadResult(max_chars=2_000)
TEXT = "".join(f"line {n} é🇩🇪 {'x' * (n % 50)}\n" for n in range(500))


@pytest.fixture
def kept(bench: Bench) -> Bench:
    """A bench with one kept result."""
    bench.results["e17"] = TEXT
    return bench


async def test_b17_pages_lead_through_the_whole_text(kept: Bench) -> None:
    """Following the hints gives every character once, each page within its budget."""
    seen, offset = "", 0
    for _ in range(100):
        page = await kept.text(TOOL, id="e17", offset=offset)
        assert len(page) <= 2_000
        body, _, note = page.rpartition("\n[")
        seen += body
        more = re.search(r'read_result\("e17", offset=(\d+)\)', note)
        if more is None:
            break
        offset = int(more.group(1))

    assert seen == TEXT


async def test_the_marker_of_a_cut_result_names_where_to_go_on(kept: Bench) -> None:
    """The call in the marker continues exactly where the kept part ends."""
    cut = fit(TEXT, max_chars=1_000, cut="tail", entry="e17").text
    before, _, marker = cut.rpartition("[…")
    offset = re.search(r"offset=(\d+)", marker)
    assert offset is not None

    page = await kept.text(TOOL, id="e17", offset=int(offset.group(1)), limit=300)

    assert TEXT.startswith(before + page.rpartition("\n[")[0])


async def test_a_pattern_gives_matching_lines_with_offsets(kept: Bench) -> None:
    """The offsets lead to the lines, also after characters of several bytes."""
    text = await kept.text(TOOL, id="e17", pattern=r"line 4[12] ")

    rows = text.split("\n")[1:]
    assert len(rows) == 2
    offset, _, line = rows[1].partition(": ")
    assert TEXT[int(offset) :].startswith(line)


async def test_many_matches_are_paged_too(kept: Bench) -> None:
    """The rest is counted and reachable."""
    text = await kept.text(TOOL, id="e17", pattern="line")
    more = re.search(r"\[(\d+) more matching lines; go on with .*offset=(\d+)\)\]$", text)
    assert more is not None

    again = await kept.text(TOOL, id="e17", pattern="line", offset=int(more.group(2)))

    assert len(text) <= 2_000
    assert again.split("\n")[1].startswith(f"{more.group(2)}: ")
    assert int(more.group(1)) + len(text.split("\n")) - 2 == 500


async def test_counting(kept: Bench) -> None:
    """Characters and lines, or matches."""
    assert await kept.text(TOOL, id="e17", count_only=True) == f"e17: {len(TEXT):,} characters, 500 lines."
    assert await kept.text(TOOL, id="e17", count_only=True, pattern="line 1") == "e17: 111 matches of 'line 1'."
    assert await kept.text(TOOL, id="e17", count_only=True, pattern="zzz") == "e17: 0 matches of 'zzz'."


async def test_a_pattern_that_is_no_expression_is_taken_as_text(kept: Bench) -> None:
    """The model gets an answer and is told."""
    kept.results["e18"] = "call f(x\n"

    text = await kept.text(TOOL, id="e18", pattern="f(x")

    assert "taken as plain text" in text
    assert text.endswith("0: call f(x")


async def test_what_is_not_there_is_said(kept: Bench) -> None:
    """Unknown id, no match, offset beyond the end."""
    assert "no kept result 'e99'" in await kept.error(TOOL, id="e99")
    assert "No line of e17 matches 'zzz'" in await kept.text(TOOL, id="e17", pattern="zzz")
    assert "beyond its end" in await kept.error(TOOL, id="e17", offset=10**9)


async def test_h13_no_pattern_freezes_the_event_loop(bench: Bench) -> None:
    """Exponential elsewhere, linear here, and off the loop."""
    bench.results["e1"] = ("a" * 40 + "!\n") + "a" * 5_000_000
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            worst = max(worst, time.perf_counter() - start)

    ticker = asyncio.create_task(tick())
    try:
        text = await bench.text(TOOL, id="e1", pattern="(a+)+$")
    finally:
        ticker.cancel()

    assert len(text) <= 2_000
    assert worst < 0.5  # seconds; a frozen loop would be here for all of the search
