"""Tools that servers bring come and go; the beginning of a prompt changes only at a cut."""

from collections.abc import Sequence
from typing import Any

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.function import function_tool
from nanobot.session.entries import Head
from tests.fakes.agent import Agent, Echo
from tests.fakes.provider import calls, says

SOURCE = "mcp time"


def tool(name: str, text: str = "Does it.") -> Tool[Any]:
    def ran() -> str:
        return f"{name} ran"

    return function_tool(ran, name=name, description=text)


def offered(agent: Agent) -> list[list[str]]:
    """Return what each request offered."""
    return [[spec.name for spec in request.tools] for request in agent.provider.requests]


async def heads(agent: Agent) -> Sequence[Head]:
    return [entry for entry in await agent.entries() if isinstance(entry, Head)]


async def test_a_late_server_waits_for_the_next_cut() -> None:
    """Tools that come up in a conversation do not change its prefix; /status says so, and /new brings them."""
    async with Agent([says("1"), says("2"), says("3")], tools=[Echo()], sources=[SOURCE]) as agent:
        await agent.ask("q1")
        agent.registry.replace(SOURCE, [tool("mcp_time_now")])
        await agent.ask("q2")
        status = await agent.ask("/status")
        await agent.ask("/new")
        await agent.ask("q3")
        after = await agent.ask("/status")

        assert offered(agent) == [["echo"], ["echo"], ["echo", "mcp_time_now"]]
        assert "New tools wait for the next cut; /new or /compact brings them: mcp_time_now" in status.content
        assert "wait" not in after.content
        assert len(await heads(agent)) == 2


async def test_a_server_that_is_away_after_a_restart_changes_nothing() -> None:
    """The frozen list stays as it was, while the server starts and when it is there again."""
    async with Agent([says("1")], tools=[Echo()], sources=[SOURCE]) as agent:
        agent.registry.replace(SOURCE, [tool("mcp_time_now")])
        await agent.ask("q1")
    again = agent.after_restart([says("2"), says("3")])
    async with again:
        await again.ask("q2")
        again.registry.replace(SOURCE, [tool("mcp_time_now")])
        await again.ask("q3")

        assert offered(agent) + offered(again) == [["echo", "mcp_time_now"]] * 3
        assert len(await heads(again)) == 1


async def test_a_changed_tool_keeps_its_frozen_words() -> None:
    """Another description of a known tool waits for a cut as a new tool does, and the tool is called all the same."""
    steps = [says("1"), calls(("mcp_time_now", {})), says("2")]
    async with Agent(steps, sources=[SOURCE]) as agent:
        agent.registry.replace(SOURCE, [tool("mcp_time_now")])
        await agent.ask("q1")
        agent.registry.replace(SOURCE, [tool("mcp_time_now", "Does it better.")])
        result = await agent.ask("q2")

        assert {spec.description for request in agent.provider.requests for spec in request.tools} == {"Does it."}
        assert result.tools_used == ("mcp_time_now",)
        assert "mcp_time_now" in (await agent.ask("/status")).content


async def test_other_sources_in_the_configuration_make_a_new_head() -> None:
    """Who adds or removes a server has its tools, or is rid of them, with the next message."""
    async with Agent([says("1")], tools=[Echo()], sources=[SOURCE]) as agent:
        agent.registry.replace(SOURCE, [tool("mcp_time_now")])
        await agent.ask("q1")
    again = agent.after_restart([says("2")], sources=["mcp other"])
    async with again:
        again.registry.replace("mcp other", [tool("mcp_other_one")])
        await again.ask("q2")

        assert offered(again) == [["echo", "mcp_other_one"]]
        assert [head.sources for head in await heads(again)] == [(SOURCE,), ("mcp other",)]


async def test_tools_without_end_do_not_crowd_out_the_conversation() -> None:
    """A server whose tools would fill the window costs those that have no room, and they are named; the person is answered."""
    many = [tool(f"mcp_time_{number:03}", "word " * 2_000) for number in range(100)]
    async with Agent([says("1"), says("2")], tools=[Echo()], sources=[SOURCE], window=32_000) as agent:
        agent.registry.replace(SOURCE, [*many, tool("mcp_time_small")])
        answer = await agent.ask("q1")
        status = await agent.ask("/status")
        (request,) = agent.provider.requests

    assert answer.error is None
    assert {"echo", "mcp_time_small"} < {spec.name for spec in request.tools}
    assert 2 < len(request.tools) < 12
    assert "tools of MCP servers are not offered" in request.system
    assert "tools of MCP servers are not offered" in status.content
    assert "wait for the next cut" not in status.content


async def test_a_smaller_model_gets_fewer_tools() -> None:
    """A head that was frozen for a larger window is made anew when the conversation goes on with a smaller one."""
    many = [tool(f"mcp_time_{number:03}", "word " * 2_000) for number in range(20)]
    async with Agent([says("1")], sources=[SOURCE], window=128_000) as agent:
        agent.registry.replace(SOURCE, many)
        await agent.ask("q1")
    again = agent.after_restart([says("2")], window=32_000)
    async with again:
        again.registry.replace(SOURCE, many)
        answer = await again.ask("q2")

        assert answer.error is None
        assert len(offered(agent)[0]) == 20
        assert len(offered(again)[0]) < 10
