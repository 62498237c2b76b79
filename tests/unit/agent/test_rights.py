"""Who may do what with a conversation that several people share."""

from typing import Literal

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.bus.events import Role
from nanobot.session.entries import Finished
from tests.fakes.agent import Agent, Blocker
from tests.fakes.provider import calls, says


def _busy(busy: Literal["steer", "queue", "replace"] = "steer") -> tuple[Agent, Blocker]:
    tool = Blocker("pure")
    steps = [calls(("block", {"text": ""})), says("done"), says("later")]
    return Agent(steps, tools=[tool], settings=AgentSettings(busy=busy)), tool


async def _reasons(agent: Agent) -> list[str]:
    return [entry.stop_reason for entry in await agent.entries() if isinstance(entry, Finished)]


@pytest.mark.parametrize(
    ("role", "text"), [("member", "/stop"), ("user", "/stop"), ("user", "/new"), ("member", "/new")]
)
async def test_c08_nobody_stops_what_another_started(role: Role, text: str) -> None:
    """A Turn is stopped by who started it, or by an owner; others are told so and it goes on."""
    agent, tool = _busy()
    async with agent:
        await agent.send("work", sender="1", role="owner")
        await tool.entered.wait()
        await agent.send(text, sender="2", role=role)
        tool.gate.set()
        await agent.quiet()

        assert "user_stop" not in await _reasons(agent)
        if text == "/stop":
            assert "Only an owner may stop what somebody else started." in agent.answers


@pytest.mark.parametrize(("sender", "role"), [("2", "member"), ("1", "owner")])
async def test_c08_ones_own_turn_and_an_owners_word(sender: str, role: Role) -> None:
    """A member stops what they started, and an owner stops anything."""
    agent, tool = _busy()
    async with agent:
        await agent.send("work", sender="2", role="member")
        await tool.entered.wait()
        await agent.send("/stop", sender=sender, role=role)
        await agent.quiet()

        assert await _reasons(agent) == ["command", "user_stop"]


async def test_c08_a_members_message_replaces_nobodys_turn() -> None:
    """With busy: replace, somebody else's message waits instead of stopping an owner's Turn."""
    agent, tool = _busy("replace")
    async with agent:
        await agent.send("work", sender="1")
        await tool.entered.wait()
        await agent.send("me too", sender="2", role="member")
        tool.gate.set()
        await agent.quiet()

        assert agent.answers == ["done", "later"]


async def test_c08_who_started_a_turn_is_known_after_a_restart() -> None:
    """The log says who it was."""
    agent, tool = _busy()
    async with agent:
        await agent.send("work", sender="1")
        await tool.entered.wait()
    later = agent.after_restart([says("done")], tools=[again := Blocker("pure")])
    async with later:
        await later.loop.recover()
        await again.entered.wait()
        await later.send("/stop", sender="2", role="member")
        again.gate.set()
        await later.quiet()

        assert "Only an owner may stop what somebody else started." in later.answers
        assert "user_stop" not in await _reasons(later)


@pytest.mark.parametrize("text", ["/new", "/undo", "/retry", "/model x", "/compact", "/approve", "/deny"])
async def test_g14_members_cannot_change_the_conversation(text: str) -> None:
    """Commands that change what others said are refused politely; what was said stays."""
    agent = Agent([says("hello")])
    async with agent:
        await agent.send("hi", sender="1")
        await agent.quiet()
        await agent.send(text, sender="2", role="member", after_s=60)
        await agent.quiet()

        assert agent.answers[-1] == f"Only owners and people admitted by name may use {text.split()[0]}."
        assert len((await agent.log()).rows) == 2


async def test_g14_a_members_new_voids_no_message() -> None:
    """What others sent before it is still taken up."""
    agent, tool = _busy("queue")
    async with agent:
        await agent.send("work", sender="1")
        await tool.entered.wait()
        await agent.send("and this", sender="1")
        await agent.send("/new", sender="2", role="member")
        tool.gate.set()
        await agent.quiet()

        assert "later" in agent.answers
