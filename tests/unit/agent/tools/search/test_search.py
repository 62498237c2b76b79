"""glob and grep."""

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.search.glob import Glob
from nanobot.agent.tools.search.grep import Grep
from nanobot.agent.tools.search.ripgrep import find_rg, run_rg
from nanobot.errors import ToolError
from tests.unit.agent.tools.conftest import Bench

GLOB = Glob(PathRules())
GREP = Grep(PathRules())


@pytest.fixture
def tree(bench: Bench) -> Path:
    """A small project."""
    root = bench.workspace
    for name in ("a.py", "src/b.py", "src/deep/c.ts", "node_modules/d/d.py", ".git/e.py", ".hidden/f.py", "out.log"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"first\nneedle in {name}\nlast\n")
    (root / ".gitignore").write_text("*.log\n")
    return root


async def test_glob_finds_by_name_at_any_depth(bench: Bench, tree: Path) -> None:
    """Sorted; hidden files too; what is ignored is left out."""
    assert await bench.text(GLOB, pattern="*.py") == ".hidden/f.py\na.py\nsrc/b.py"
    assert await bench.text(GLOB, pattern="src/**/*.ts") == "src/deep/c.ts"
    assert await bench.text(GLOB, pattern="*.{py,ts}", path="src") == "src/b.py\nsrc/deep/c.ts"


async def test_glob_finds_ignored_files_when_asked(bench: Bench, tree: Path) -> None:
    """Also by searching an ignored directory itself."""
    assert "node_modules/d/d.py" in await bench.text(GLOB, pattern="*.py", ignored=True)
    assert await bench.text(GLOB, pattern="*.py", path="node_modules/d") == "node_modules/d/d.py"


async def test_what_is_left_out_is_said(bench: Bench, tree: Path) -> None:
    """A limit leaves a count; no match says what was not searched."""
    assert (await bench.text(GLOB, pattern="*.py", limit=1)).endswith("[2 more; narrow the pattern or raise limit]")
    assert "ignored files, .git and node_modules were left out" in await bench.text(GLOB, pattern="*.xyz")
    assert (await bench.text(GREP, pattern="needle", limit=1)).endswith(
        "[3 more lines; narrow the search, or use show=files or counts]"
    )
    assert "were left out" in await bench.text(GREP, pattern="absent")


async def test_grep_gives_path_line_and_text(bench: Bench, tree: Path) -> None:
    """With context, in one file, by names only, literally."""
    assert await bench.text(GREP, pattern=r"need\w+", glob="*.ts") == "src/deep/c.ts:2: needle in src/deep/c.ts"
    assert (
        await bench.text(GREP, pattern="needle", path="a.py", context=1)
        == "a.py:1- first\na.py:2: needle in a.py\na.py:3- last"
    )
    assert (
        await bench.text(GREP, pattern="NEEDLE", ignore_case=True, show="files", path="src")
        == "src/b.py\nsrc/deep/c.ts"
    )
    assert "No match" in await bench.text(GREP, pattern="need.e", literal=True)


@pytest.mark.parametrize("pattern", ["-e", "--files", "--pre=touch"])
async def test_a_pattern_is_never_an_option(bench: Bench, tree: Path, pattern: str) -> None:
    """Whatever the model searches for, it is searched for."""
    (tree / "opt.txt").write_text(f"x {pattern} x\n")

    assert await bench.text(GREP, pattern=pattern) == f"opt.txt:1: x {pattern} x"
    assert "No file matches" in await bench.text(GLOB, pattern=pattern)


async def test_a_broken_pattern_is_explained(bench: Bench, tree: Path) -> None:
    """ripgrep's own words reach the model."""
    assert "unclosed group" in await bench.error(GREP, pattern="(a")
    assert "cannot use the pattern" in await bench.error(GLOB, pattern="[a")


async def test_h13_no_pattern_freezes_the_event_loop(bench: Bench) -> None:
    """A pattern that is exponential elsewhere ends at once, and the loop ticks on meanwhile."""
    (bench.workspace / "a.txt").write_text("a" * 40 + "!\n" + "a" * 10_000_000)
    lags: list[float] = []

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.01)
            lags.append(time.perf_counter() - start)

    ticker = asyncio.create_task(tick())
    try:
        text = await bench.text(GREP, pattern="(a+)+$")
    finally:
        ticker.cancel()

    assert "a.txt:2: aaaa" in text
    assert len(text) < 2_000
    assert max(lags, default=0) < 0.5  # seconds; a frozen loop would be here for all of the search


async def test_output_is_bounded(bench: Bench) -> None:
    """A search that finds everything is stopped when it has said enough."""
    (bench.workspace / "a.txt").write_text("x" * 100 + "\n" + ("y" * 200 + "\n") * 50_000)

    found = await run_rg(("--line-number", "y"), cwd=bench.workspace, max_bytes=10_000)
    text = await bench.text(GREP, pattern="y", limit=2_000)

    assert found.stopped == "output"
    assert len(found.output) <= 10_000 + (1 << 16)
    assert "more lines; narrow the search" in text


async def test_a_search_is_killed_at_its_time_limit_and_on_cancel(tmp_path: Path) -> None:
    """What does not end is ended; here something that is no ripgrep and sleeps."""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)

    found = await run_rg((), cwd=tmp_path, rg=slow, timeout_s=0.05)
    task = asyncio.create_task(run_rg((), cwd=tmp_path, rg=slow))
    await asyncio.sleep(0.05)
    task.cancel()

    assert found.stopped == "time"
    with pytest.raises(asyncio.CancelledError):
        await task


def test_ripgrep_comes_from_its_wheel() -> None:
    """No system package is needed."""
    found = find_rg()

    assert found is not None
    assert found.is_file()


async def test_a_missing_path_says_so(bench: Bench) -> None:
    """Not "no match"."""
    assert "neither a file nor a directory" in await bench.error(GREP, pattern="x", path="nope")
    assert "no directory" in await bench.error(GLOB, pattern="x", path="nope")
    with pytest.raises(ToolError, match="pattern"):
        await bench.call(GREP, pattern="")


async def test_the_exit_code_is_the_programs_own(tmp_path: Path) -> None:
    """A program whose output ends before it does is waited for, not killed."""
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho out; exec >&- 2>&-; sleep 0.05; exit 2\n")
    slow.chmod(0o755)

    found = await run_rg((), cwd=tmp_path, rg=slow)

    assert (found.code, found.output) == (2, b"out\n")


async def test_grep_counts_by_file(bench: Bench, tree: Path) -> None:
    """How many lines match in each file, and in all."""
    (tree / "a.py").write_text("needle\nneedle needle\n")

    found = await bench.text(GREP, pattern="needle", show="counts")

    assert found == ".hidden/f.py: 1\na.py: 2\nsrc/b.py: 1\nsrc/deep/c.ts: 1\n[5 lines in 4 files]"


async def test_grep_by_type_and_across_lines(bench: Bench, tree: Path) -> None:
    """ripgrep's types; a pattern that spans lines when asked to."""
    assert await bench.text(GREP, pattern="needle", type="ts") == "src/deep/c.ts:2: needle in src/deep/c.ts"
    assert "unrecognized file type" in await bench.error(GREP, pattern="needle", type="nonsense")
    assert "No match" in await bench.text(GREP, pattern=r"first\sneedle", path="a.py", literal=True)
    assert await bench.text(GREP, pattern=r"first\nneedle", path="a.py", multiline=True) == (
        "a.py:1: first\na.py:2: needle in a.py"
    )


async def test_grep_finds_in_more_files_than_are_open_at_a_time(bench: Bench) -> None:
    """Hundreds of files, in order, and no descriptor left."""
    for number in range(250):
        (bench.workspace / f"{number:03}.txt").write_text("needle\n")
    before = len(os.listdir("/proc/self/fd"))

    found = await bench.text(GREP, pattern="needle", limit=300)

    assert found.split("\n") == [f"{number:03}.txt:1: needle" for number in range(250)]
    assert len(os.listdir("/proc/self/fd")) == before


async def test_h13_a_large_tree_leaves_the_loop_alone(bench: Bench) -> None:
    """Thousands of files, an ignored mountain and a line of megabytes: answered soon, while the loop ticks on."""
    for number in range(3_000):
        path = bench.workspace / f"{'node_modules' if number % 3 else 'src'}/{number % 50}/{number}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a" * 40 + "!\n")
    (bench.workspace / "app.min.js").write_text("a" * 5_000_000)
    late = 0.0

    async def tick() -> None:
        nonlocal late
        while True:
            start = time.monotonic()
            await asyncio.sleep(0.01)
            late = max(late, time.monotonic() - start - 0.01)

    ticking = asyncio.create_task(tick())
    start = time.monotonic()
    found = await bench.text(GREP, pattern="(a+)+$", ignored=True)
    names = await bench.text(GLOB, pattern="*.js")
    ticking.cancel()

    assert "app.min.js:1:" in found
    assert len(found) < 20_000
    assert "more; narrow the pattern" in names
    assert time.monotonic() - start < 10
    assert late < 0.2


@pytest.mark.parametrize("show", ["lines", "files", "counts"])
async def test_a_search_of_a_directory_shows_members_of_groups_no_secrets(bench: Bench, show: str) -> None:
    """Neither a line of such a file nor whether it has a match; owners find them."""
    (bench.workspace / ".ssh").mkdir()
    for name in (".env", "notes.txt", ".ssh/config"):
        (bench.workspace / name).write_text("KEY=1\n")
    member = replace(bench.context(), role="member")

    async def found(**arguments: str) -> str:
        registry, prepared = bench.prepare(GREP, pattern="KEY", show=show, **arguments)
        return (await registry.execute(prepared, member)).text

    assert ".env" in await bench.text(GREP, pattern="KEY", show=show)
    assert "notes.txt" in await found()
    assert ".env" not in await found()
    assert ".ssh" not in await found()
    (bench.workspace / "notes.txt").unlink()
    assert (await found()).replace("[0 lines in 0 files]\n", "").startswith("No match")
    assert "No match" in await found(path=".ssh")
