"""The head of a prompt is frozen until a cut, whatever changes on disk meanwhile."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nanobot.agent.settings import AgentSettings, CompactionSettings
from nanobot.agent.tools.base import BaseTool
from nanobot.session.entries import Head
from tests.fakes.agent import Agent, Echo, EchoArguments
from tests.fakes.provider import says

TEXT = "words " * 800


class Another(BaseTool[EchoArguments]):
    """One more tool."""

    name = "another"
    description = "Does something else."
    arguments = EchoArguments


def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("The first rule.")
    return folder


def systems(agent: Agent) -> list[str]:
    return [request.system for request in agent.provider.requests if "You are nanobot" in request.system]


async def heads(agent: Agent) -> Sequence[Head]:
    return [entry for entry in await agent.entries() if isinstance(entry, Head)]


async def test_a_changed_file_takes_effect_at_a_cut_and_not_before(tmp_path: Path) -> None:
    """The system prompt stays the same over Turns and a restart; /new brings the new one."""
    folder = workspace(tmp_path)
    async with Agent([says("1"), says("2")], workspace=folder) as agent:
        await agent.ask("q1")
        (folder / "AGENTS.md").write_text("The second rule.")
        await agent.ask("q2")
        before = systems(agent)
        assert len(await heads(agent)) == 1
    again = agent.after_restart([says("3"), says("4")], workspace=folder)
    async with again:
        await again.ask("q3")
        await again.ask("/new")
        await again.ask("q4")

        assert len(set(before)) == 1
        assert systems(again)[0] == before[0]
        assert "The first rule." in before[0]
        assert "The second rule." in systems(again)[1]
        assert len(await heads(again)) == 2


@pytest.mark.parametrize("command", ["/compact", "/model fake/other"])
async def test_other_cuts_bring_a_new_head(command: str, tmp_path: Path) -> None:
    """A summary changes the prefix anyway, and another model has another cache."""
    folder = workspace(tmp_path)
    settings = AgentSettings(compaction=CompactionSettings(keep_tokens=500))
    async with Agent([says("Goal: words.")] * 9, workspace=folder, settings=settings) as agent:
        for _ in range(3):
            await agent.ask(TEXT)
        (folder / "AGENTS.md").write_text("The second rule.")
        await agent.ask(command)
        await agent.ask("q")

        assert "The second rule." in systems(agent)[-1]


async def test_a_changed_tool_list_is_a_cut_of_its_own(tmp_path: Path) -> None:
    """A model must not call what is no longer there, so other tools mean another head, and it is in the log."""
    folder = workspace(tmp_path)
    async with Agent([says("1")], tools=[Echo()], workspace=folder) as agent:
        await agent.ask("q1")
    again = agent.after_restart([says("2")], tools=[Echo(), Another()], workspace=folder)
    async with again:
        await again.ask("q2")

        assert [tool.name for tool in again.provider.requests[0].tools] == ["another", "echo"]
        assert len(await heads(again)) == 2


async def test_sessions_that_begin_alike_share_what_they_begin_with(tmp_path: Path) -> None:
    """The same prompt is in memory once, so that it is measured and encoded once, too."""
    async with Agent([says("1"), says("2")], workspace=workspace(tmp_path)) as agent:
        await agent.ask("q1", key="cli:one")
        await agent.ask("q2", key="cli:two")

        one, two = agent.provider.requests
        assert one.system is two.system
        assert one.tools is two.tools
