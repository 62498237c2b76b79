"""What the model saw is what it changes."""

from dataclasses import replace
from typing import Any

import pytest

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.files.patch import ApplyPatch
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.agent.tools.files.seen import note
from nanobot.agent.tools.files.write import EditFile, WriteFile
from nanobot.agent.tools.registry import Observation, ToolRegistry
from nanobot.messages import ToolCall
from tests.unit.agent.tools.conftest import Bench

RULES = PathRules()
READ, WRITE, EDIT, PATCH = ReadFile(RULES), WriteFile(RULES), EditFile(RULES), ApplyPatch(RULES)
CHANGES: list[tuple[Tool[Any], dict[str, Any]]] = [
    (WRITE, {"path": "a.txt", "content": "mine"}),
    (EDIT, {"path": "a.txt", "old_text": "one", "new_text": "mine"}),
    (PATCH, {"patch": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+mine\n"}),
]


def session(bench: Bench, name: str = "s1") -> ToolContext:
    """Return a context that remembers, as a restarted daemon would make it again."""
    return replace(bench.context(), session_files=bench.root / name)


async def run(context: ToolContext, tool: Tool[Any], **arguments: Any) -> Observation:
    """Call a tool in that session."""
    registry = ToolRegistry([tool])
    return await registry.execute(registry.prepare_call(ToolCall("e1.0", tool.name, arguments)), context)


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_a_file_that_changed_since_it_was_read_is_not_changed(
    bench: Bench, tool: Tool[Any], arguments: dict[str, Any]
) -> None:
    """Somebody else's work is seen before it is written over; reading again opens the way, also after a restart."""
    path = bench.workspace / "a.txt"
    path.write_text("one\n")
    await run(session(bench), READ, path="a.txt")
    path.write_text("one\ntheirs\n")

    refused = await run(session(bench), tool, **arguments)
    kept = path.read_text()
    await run(session(bench), READ, path="a.txt")
    allowed = await run(session(bench), tool, **arguments)

    assert "was changed since you last read it" in refused.text
    assert kept == "one\ntheirs\n"
    assert not allowed.is_error, allowed.text


async def test_what_the_model_wrote_it_knows(bench: Bench) -> None:
    """A second edit needs no second reading."""
    path = bench.workspace / "a.txt"
    path.write_text("one\n")
    await run(session(bench), READ, path="a.txt")

    for old, new in (("one", "two"), ("two", "three")):
        assert not (await run(session(bench), EDIT, path="a.txt", old_text=old, new_text=new)).is_error
    assert path.read_text() == "three\n"


async def test_a_file_that_was_never_read_may_be_changed(bench: Bench) -> None:
    """An edit has to match it anyway; and what another session read does not count."""
    path = bench.workspace / "a.txt"
    path.write_text("zero\n")
    await run(session(bench, "other"), READ, path="a.txt")
    path.write_text("one\n")

    assert not (await run(session(bench), EDIT, path="a.txt", old_text="one", new_text="two")).is_error


async def test_a_touched_file_is_the_same_file(bench: Bench) -> None:
    """Contents count, not times."""
    path = bench.workspace / "a.txt"
    path.write_text("one\n")
    await run(session(bench), READ, path="a.txt")
    path.unlink()
    path.write_text("one\n")

    assert not (await run(session(bench), WRITE, path="a.txt", content="two")).is_error


async def test_the_book_of_hashes_stays_small_and_survives_damage(bench: Bench) -> None:
    """Thousands of reads do not add up, and a torn line is skipped."""
    context = session(bench)
    for number in range(3_000):
        note(context, bench.workspace / f"{number}.txt", "0" * 64)
    book = bench.root / "s1" / "seen-files"
    with book.open("ab") as file:
        file.write(b'["torn')
    (bench.workspace / "2999.txt").write_text("x")

    refused = await run(session(bench), WRITE, path="2999.txt", content="y")

    assert book.stat().st_size < 300_000
    assert "was changed since" in refused.text
