"""Callers of ``process_direct`` come and go at any moment: each gets its result, and none leaves anything behind."""

import asyncio
from contextlib import suppress

import pytest

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.function import function_tool
from nanobot.bus.runtime_events import TurnFinished
from tests.fakes.agent import Agent, Blocker
from tests.fakes.legality import illegal
from tests.fakes.provider import calls, says


async def test_a_caller_that_leaves_at_once_leaves_nothing_pending() -> None:
    """Its message may be on disk already: it is closed, and asking again with the same id is answered."""
    async with Agent([says("now"), says("again")]) as agent:
        for number in range(5):
            leaving = asyncio.create_task(agent.ask("never mind", message_id=f"m{number}"))
            for _ in range(number):
                await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        await agent.quiet()

        assert not (await agent.log()).pending
        assert (await agent.log()).open is None


async def test_one_of_two_callers_with_one_id_leaves() -> None:
    """The other one still gets the result: the Turn goes on as long as somebody waits for it."""
    block = Blocker()
    async with Agent([calls(("block", {})), says("done")], tools=[block]) as agent:
        first = asyncio.create_task(agent.ask("hi", message_id="m"))
        second = asyncio.create_task(agent.ask("hi", message_id="m"))
        await block.entered.wait()
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        block.gate.set()

        assert (await second).content == "done"
        assert block.runs == 1


async def test_a_turn_that_waits_for_a_slot_can_be_stopped_and_left() -> None:
    """Neither /stop nor a caller that leaves has to wait until another session's Turn gives its slot back."""
    block = Blocker()
    steps = [calls(("block", {})), says("first done"), says("later")]
    async with Agent(steps, tools=[block], settings=AgentSettings(concurrency=1)) as agent:
        busy = asyncio.create_task(agent.ask("work", key="test:busy"))
        await block.entered.wait()
        stopped = asyncio.create_task(agent.ask("wait", key="test:stopped"))
        left = asyncio.create_task(agent.ask("wait", key="test:left"))
        await asyncio.sleep(0.01)
        await agent.ask("/stop", key="test:stopped")
        left.cancel()
        async with asyncio.timeout(1):
            result = await stopped
            await asyncio.gather(left, return_exceptions=True)

        assert result.stop_reason == "user_stop"
        assert (await agent.log("test:left")).open is None
        block.gate.set()
        assert (await busy).content == "first done"
        assert (await agent.ask("and now?", key="test:stopped")).content == "later"


@pytest.mark.parametrize("how", ["user_stop", "limit"])
async def test_a_tool_that_does_not_end_is_left_behind(how: str) -> None:
    """The Turn is closed without it, the session goes on, and what it brings later is not taken."""
    entered, gate, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def deaf() -> str:
        """Do not listen."""
        entered.set()
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await gate.wait()
        ended.set()
        return "too late"

    limit_s = 0.3 if how == "limit" else 60
    steps = [calls(("deaf", {})), says("next")]
    settings = AgentSettings(turn_timeout_s=limit_s)
    async with Agent(steps, tools=[function_tool(deaf)], settings=settings, comply_s=0.02) as agent:
        first = asyncio.create_task(agent.ask("go"))
        await entered.wait()
        if how == "user_stop":
            await agent.ask("/stop")
        result = await first
        after = await agent.ask("and now?")
        logged = len(await agent.entries())
        gate.set()
        await ended.wait()
        await asyncio.sleep(0.01)

        assert (result.stop_reason, after.content) == (how, "next")
        assert len(await agent.entries()) == logged
        assert [illegal(request) for request in agent.provider.requests] == [None, None]
        finished = [event for event in agent.events if isinstance(event, TurnFinished)]
        assert isinstance(agent.events[-1], TurnFinished)
        assert finished[-1].content == "next"


async def test_asking_after_the_end_is_answered_at_once() -> None:
    """A caller that is too late does not wait for ever."""
    agent = Agent()
    async with agent:
        pass

    result = await agent.ask("anybody?")

    assert result.stop_reason == "shutdown"


async def test_a_cancellation_that_nobody_asked_for_is_an_error_and_not_a_shutdown() -> None:
    """A tool or model that raises CancelledError by itself leaves no open Turn behind."""

    class Odd(Blocker):
        """Cancels itself."""

        async def run(self, arguments: object, context: object) -> str:
            raise asyncio.CancelledError

    def odd(request: object, emit: object) -> None:
        raise asyncio.CancelledError

    async with Agent([calls(("block", {}), ("block", {})), says("told"), odd, says("fine")], tools=[Odd()]) as agent:  # pyright: ignore[reportArgumentType]  # raises before it returns
        by_tool = await agent.ask("one")
        by_model = await agent.ask("two")
        after = await agent.ask("three")

        assert (by_tool.content, by_tool.error) == ("told", None)
        assert by_model.stop_reason == "error"
        assert after.content == "fine"
        assert (await agent.log()).open is None
