"""An edited message is answered as it is meant now: in its place while it waits, as a message of its own afterwards."""

import asyncio
from dataclasses import replace

import pytest

from nanobot.agent.fetching import Files
from nanobot.agent.settings import AgentSettings
from nanobot.bus.events import InboundMessage, Media
from nanobot.messages import UserMessage
from tests.fakes.agent import KEY, Agent, Blocker
from tests.fakes.provider import calls, says


async def edit(agent: Agent, message: InboundMessage, text: str, date: int = 100) -> None:
    """Edit a message, as a channel hands it in."""
    await agent.send(text, message_id=f"{message.id}:{date}", replaces=message.id)


async def told(agent: Agent) -> list[str]:
    """Return what the model was told, without the lines that say when."""
    rows = (await agent.log()).rows
    return [row.message.text.rpartition("\n\n[")[0] for row in rows if isinstance(row.message, UserMessage)]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_d28_an_edit_of_a_message_that_waits_takes_its_place(is_killed: bool) -> None:
    """What waits for its Turn is answered once, as it reads now, in its place; also by the next process."""
    blocker, settings = Blocker(effect="pure"), AgentSettings(busy="queue", join_within_s=60)
    steps = [calls(("block", {})), says("worked"), says("called")]
    async with Agent(steps, tools=[blocker], settings=settings) as agent:
        await agent.send("work")
        await blocker.entered.wait()
        waiting = await agent.send("call Bab")
        await agent.send("thanks")
        await edit(agent, waiting, "call Bub", 100)
        await edit(agent, waiting, "call Bob", 200)
        await edit(agent, waiting, "call Bob", 200)
        if is_killed:
            await agent.loop.shutdown(grace_s=0)
        blocker.gate.set()
        await agent.quiet()
    async with agent.after_restart(steps[1:]) as later:
        await later.loop.resume(KEY)
        await later.quiet()

        assert await told(later) == ["work", "call Bob\n\nthanks"]


async def test_d28_an_edit_of_what_was_answered_is_a_new_message_that_says_so() -> None:
    """The model can tell that it reads a new version, and not a new request."""
    async with Agent([says("Bab called"), says("Bob called")]) as agent:
        message = await agent.send("call Bab")
        await agent.quiet()
        await edit(agent, message, "call Bob")
        await agent.quiet()

        assert agent.answers == ["Bab called", "Bob called"]
        assert await told(agent) == ["call Bab", "[edited: the new version of an earlier message]\ncall Bob"]


async def test_d28_an_edit_while_the_file_of_its_message_comes_counts() -> None:
    """Until the Turn is begun, the message can be corrected; its file is not asked for twice."""
    asked: list[str] = []
    gate, is_asked = asyncio.Event(), asyncio.Event()

    async def fetch(channel: str, media: Media, /) -> Media:
        asked.append(media.ref)
        is_asked.set()
        await gate.wait()
        return replace(media, path="/m/x", sha256="ab")

    photo = (Media("image", "P", "x.jpg", "image/jpeg"),)
    async with Agent([says("ok")], files=Files(fetch)) as agent:
        message = await agent.send("what is tihs?", media=photo)
        await is_asked.wait()
        await agent.send("what is this?", message_id=f"{message.id}:100", replaces=message.id, media=photo)
        gate.set()
        await agent.quiet()

        assert await told(agent) == ["what is this?\n[image x.jpg: /m/x]"]
        assert asked == ["P"]
