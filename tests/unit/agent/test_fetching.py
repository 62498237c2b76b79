"""Files of a message are fetched by the Turn that takes it up; whatever becomes of them, the message is answered."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nanobot.agent.fetching import Files
from nanobot.agent.tools.base import Tool
from nanobot.bus.events import InboundMessage, Media
from nanobot.errors import FileUnavailable
from nanobot.messages import ImagePart, UserMessage
from nanobot.session.entries import Head
from tests.fakes.agent import KEY, Agent, Blocker
from tests.fakes.provider import Step, calls, says

PHOTO = Media("image", "P", "photo.jpg", "image/jpeg")
REPORT = Media("file", "R", "report.pdf", "application/pdf")


class Platform:
    """Has files; ``gate`` holds them back, ``asked`` are the references that were asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.refusal = ""

    async def fetch(self, channel: str, media: Media, /) -> Media:
        self.asked.append(media.ref)
        await self.gate.wait()
        if self.refusal:
            raise FileUnavailable(self.refusal)
        return replace(media, path=f"/media/{channel}-{media.ref}", sha256="ab")

    async def asked_for(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.asked) < count:  # noqa: ASYNC110  # the core has no event for it
                await asyncio.sleep(0.001)


def agent_with(platform: Platform, *steps: Step, timeout_s: float = 60.0, tools: Sequence[Tool[Any]] = ()) -> Agent:
    return Agent(steps, files=Files(platform.fetch, timeout_s), tools=tools)


async def user_rows(agent: Agent) -> list[UserMessage]:
    return [row.message for row in (await agent.log()).rows if isinstance(row.message, UserMessage)]


async def test_the_turn_fetches_and_the_log_keeps_what_it_got() -> None:
    """Accepting fetches nothing; the user message holds path and digest, each file asked for once."""
    platform = Platform()
    async with agent_with(platform, says("nice")) as agent:
        inbound = await agent.send("look", media=(PHOTO, REPORT, PHOTO))
        await agent.quiet()
        (user,) = await user_rows(agent)

    assert platform.asked == ["P", "R"]
    assert "[file report.pdf: /media/test-R]" in user.text
    assert [part for part in user.parts if isinstance(part, ImagePart)] == [
        ImagePart("/media/test-P", "image/jpeg", "ab")
    ] * 2
    assert inbound.media[0].path == ""


@pytest.mark.parametrize(
    ("refusal", "timeout_s", "why"),
    [("it is larger than 20 MB", 60.0, "it is larger than 20 MB"), ("", 0.01, "it did not arrive within 0.01 s")],
)
async def test_d19_a_file_that_cannot_be_had_costs_a_sentence(refusal: str, timeout_s: float, why: str) -> None:
    """The message is answered without it, and the model knows why."""
    platform = Platform()
    platform.refusal = refusal
    if not refusal:
        platform.gate.clear()
    async with agent_with(platform, says("ok"), timeout_s=timeout_s) as agent:
        await agent.send("summarise", media=(REPORT,))
        await agent.quiet()
        (user,) = await user_rows(agent)

    assert agent.answers == ["ok"]
    assert user.text.startswith(f"summarise\n[file report.pdf: not available, {why}]\n\n[")


async def test_a_fault_of_the_channel_costs_the_file_only() -> None:
    """Whatever a channel raises, the Turn goes on."""

    async def broken(channel: str, media: Media, /) -> Media:
        raise ValueError("ours")

    async with Agent([says("ok")], files=Files(broken)) as agent:
        await agent.send("hi", media=(REPORT,))
        await agent.quiet()

    assert agent.answers == ["ok"]


async def test_a_download_that_hangs_delays_nobody_else_and_can_be_stopped() -> None:
    """Another chat is answered meanwhile; /stop ends the wait, closes the Turn, and says so."""
    platform = Platform()
    platform.gate.clear()
    async with agent_with(platform, says("quick")) as agent:
        await agent.send("slow", media=(REPORT,))
        await platform.asked_for(1)
        await agent.send("hi", chat="2")
        async with asyncio.timeout(5):
            while agent.answers != ["quick"]:  # noqa: ASYNC110  # the core has no event for it
                await asyncio.sleep(0.001)
        await agent.send("/stop")
        await agent.quiet()
        log = await agent.log()

    assert agent.answers == ["quick", "Stopped."]
    assert not log.pending
    assert log.open is None


async def test_a_shutdown_while_a_file_comes_leaves_the_message_to_be_taken_up_again() -> None:
    """No Turn is begun; the next process fetches and answers."""
    platform = Platform()
    platform.gate.clear()
    async with agent_with(platform) as agent:
        await agent.send("look", media=(REPORT,))
        await platform.asked_for(1)
        await agent.loop.shutdown(grace_s=0)
        kept = [type(entry) for entry in await agent.entries()]
    platform.gate.set()
    async with agent.after_restart([says("seen")], files=Files(platform.fetch)) as later:
        await later.loop.recover()
        await later.quiet()

    assert kept == [InboundMessage, Head]
    assert later.answers == ["seen"]


async def test_a_resumed_turn_does_not_fetch_again() -> None:
    """What was fetched stands in the log: the request after a restart is the same."""
    platform = Platform()
    blocker = Blocker(effect="pure")
    async with agent_with(platform, calls(("block", {})), tools=[blocker]) as agent:
        await agent.send("look", media=(REPORT,))
        await blocker.entered.wait()
        await agent.loop.shutdown(grace_s=0)
        before = await user_rows(agent)
    blocker.gate.set()
    async with agent.after_restart([says("seen")], files=Files(platform.fetch)) as later:
        await later.loop.recover()
        await later.quiet()
        after = await user_rows(later)

    assert platform.asked == ["R"]
    assert [message.text for message in before] == [message.text for message in after]
    assert later.answers == ["seen"]


async def test_what_comes_with_a_steered_message_is_fetched_too() -> None:
    """A file sent while a Turn runs reaches it at its next iteration."""
    platform = Platform()
    blocker = Blocker()
    async with agent_with(platform, calls(("block", {})), says("both"), tools=[blocker]) as agent:
        await agent.send("work")
        await blocker.entered.wait()
        await agent.send("and this", media=(REPORT,))
        blocker.gate.set()
        await agent.quiet()
        rows = await user_rows(agent)

    assert "[file report.pdf: /media/test-R]" in rows[1].text
    assert agent.answers == ["both"]


async def test_what_is_said_while_a_file_comes_joins_the_turn() -> None:
    """Text that follows a slow photo is part of the same request, and a second photo is fetched as well."""
    platform = Platform()
    platform.gate.clear()
    async with agent_with(platform, says("one answer")) as agent:
        await agent.send("first", media=(REPORT,))
        await platform.asked_for(1)
        await agent.send("second", media=(PHOTO,))
        await agent.send("third")
        platform.gate.set()
        await agent.quiet()
        (user,) = await user_rows(agent)

    assert platform.asked == ["R", "P"]
    assert [word in user.text for word in ("first", "second", "third", "/media/test-R")] == [True] * 4
    assert agent.answers == ["one answer"]


async def test_direct_media_is_there_already() -> None:
    """A script's files lie on disk when they are handed in: nothing is fetched."""
    platform = Platform()
    async with agent_with(platform, says("ok")) as agent:
        result = await agent.loop.process_direct("look", session_key=KEY, media=[replace(REPORT, path="/m/r.pdf")])

    assert result.content == "ok"
    assert platform.asked == []
