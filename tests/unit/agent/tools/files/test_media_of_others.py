"""What came in by one chat is not there to be looked through by the members of another."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.files.listing import ListDir
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.agent.tools.registry import Observation, ToolRegistry
from nanobot.agent.tools.search.glob import Glob
from nanobot.agent.tools.search.grep import Grep
from nanobot.bus.events import Role
from nanobot.messages import JsonValue, ToolCall
from tests.unit.agent.tools.conftest import Bench

DIGEST = hashlib.sha256(b"a private letter").hexdigest()


async def ran(
    bench: Bench, role: Role, tool: Tool[Any], **arguments: JsonValue
) -> Observation:  # Any: as tools are kept
    """Call a tool as somebody with this role has it called."""
    registry = ToolRegistry([tool])
    prepared = registry.prepare_call(ToolCall("e1.0", tool.name, arguments))
    context: ToolContext = replace(bench.context(), role=role)
    return await registry.execute(prepared, context)


@pytest.mark.parametrize("name", ["list_dir", "glob", "grep"])
async def test_members_do_not_look_through_what_came_by_other_chats(name: str, bench: Bench, tmp_path: Path) -> None:
    """They are told so; owners and users find it; the workspace is open to both."""
    media = tmp_path / "media"
    media.mkdir()
    (media / f"{DIGEST}.txt").write_text("a private letter")
    rules = PathRules(extra_roots=(media,))
    tools: dict[str, Tool[Any]] = {tool.name: tool for tool in (ListDir(rules), Glob(rules), Grep(rules))}
    wanted: dict[str, JsonValue] = {} if name == "list_dir" else {"pattern": "*" if name == "glob" else "private"}

    theirs = await ran(bench, "member", tools[name], path=str(media), **wanted)
    ours = await ran(bench, "owner", tools[name], path=str(media), **wanted)
    inside = await ran(bench, "member", tools[name], path=".", **wanted)

    assert "members of groups may not look" in theirs.text
    assert DIGEST not in theirs.text
    assert DIGEST in ours.text
    assert not inside.is_error


async def test_a_file_is_read_by_its_whole_name_and_never_guessed(bench: Bench, tmp_path: Path) -> None:
    """What a message brought can be read where its path was told; a name that is nearly right leads nowhere."""
    media = tmp_path / "media"
    media.mkdir()
    (media / f"{DIGEST}.txt").write_text("a private letter")
    read: Tool[Any] = ReadFile(PathRules(extra_roots=(media,)))

    whole = await ran(bench, "member", read, path=str(media / f"{DIGEST}.txt"))
    guessed = await ran(bench, "member", read, path=str(media / f"{DIGEST[:-1]}.txt"))

    assert "a private letter" in whole.text
    assert DIGEST not in guessed.text.replace(DIGEST[:-1] + ".txt", "")
    assert "Similar" not in guessed.text
