"""The gate looks at the disk for secret files where something turns on them, and only there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from nanobot.agent.gates import Allow, Ask, Deny, Verdict
from nanobot.agent.rule_gate import RuleGate
from nanobot.agent.rules import placed
from nanobot.agent.tools.base import BaseTool, Standing, ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.rules import Rule
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.bus.events import Role
from nanobot.messages import JsonValue, ToolCall


class _Loose(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class _Anything(BaseTool[_Loose]):
    """Takes whatever it is given, as tools of servers do."""

    name = "mcp_mail_send"
    description = "Send it."
    arguments = _Loose
    outward = True

    async def run(self, arguments: _Loose, context: ToolContext) -> str:
        return "sent"


class _Counting(SecretPaths):
    """Counts how often the disk was looked at."""

    looks = 0

    def named_through(self, arguments: Mapping[str, object], workspace: Path) -> str:
        self.looks += 1
        return super().named_through(arguments, workspace)


async def _judged(workspace: Path, role: Role, path: str, rules: Sequence[Rule] = ()) -> tuple[Verdict, int]:
    secret_paths, tools = _Counting(), ToolRegistry([ReadFile(PathRules())])
    gate = RuleGate(placed(rules), tools, secret_paths=secret_paths)
    prepared = tools.prepare_call(ToolCall("e1.0", "read_file", {"path": path}))
    verdict = await gate.review(prepared.call, prepared.arguments, replace(_context(workspace), role=role))
    return verdict, secret_paths.looks


def _context(workspace: Path) -> ToolContext:
    async def none(entry: str) -> str:
        raise KeyError(entry)

    return ToolContext(
        session_key="cli:direct",
        turn="t1",
        call_id="e1.0",
        role="owner",
        workspace=workspace,
        scratch=workspace / "scratch",
        full_result=none,
        standing=lambda: Standing(untrusted=("a page",)),
    )


@pytest.mark.parametrize("path", ["notes.md", ".env"])
async def test_an_owners_inward_call_looks_at_no_disk(tmp_path: Path, path: str) -> None:
    """What it reads goes nowhere by itself: nothing turns on whether it is secret."""
    assert await _judged(tmp_path, "owner", path) == (Allow(), 0)


async def test_a_members_link_to_a_secret_is_followed(tmp_path: Path) -> None:
    """A harmless name that leads to a secret file is looked through."""
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "notes.md").symlink_to(".env")

    verdict, looks = await _judged(tmp_path, "member", "notes.md")

    assert isinstance(verdict, Deny)
    assert looks == 1


@pytest.mark.parametrize("more", [{"command": "ls"}, {"url": "https://said.example/a"}])
async def test_what_an_argument_means_is_known_of_our_own_tools_alone(
    tmp_path: Path, more: Mapping[str, JsonValue]
) -> None:
    """A server's call that could leak is not let through for a harmless command or address among arguments it does not look at."""
    tools = ToolRegistry([_Anything()])
    prepared = tools.prepare_call(ToolCall("e1.0", "mcp_mail_send", {"body": "the key", **more}))
    standing = Standing(untrusted=("a page",), secrets=(".env",), said=lambda word: True)

    verdict = await RuleGate((), tools).review(
        prepared.call, prepared.arguments, replace(_context(tmp_path), standing=lambda: standing)
    )

    assert isinstance(verdict, Ask)


async def test_a_rule_on_secrets_has_them_looked_for(tmp_path: Path) -> None:
    """For an owner too, where a rule asks."""
    rule = Rule(tool=("read_file",), secrets=True, action="deny")

    assert isinstance((await _judged(tmp_path, "owner", ".env", [rule]))[0], Deny)
    assert isinstance((await _judged(tmp_path, "owner", "notes.md", [rule]))[0], Allow)
