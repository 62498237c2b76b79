"""Idle sessions are compacted once, by timers."""

import asyncio

from nanobot.agent import summary
from nanobot.agent.autocompact import AutoCompact
from nanobot.agent.settings import AgentSettings
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Summary
from tests.fakes.agent import KEY, Agent, Blocker, OneModel
from tests.fakes.provider import calls, says

TEXT = "This is about /etc/app.conf. " + "More words about it. " * 400


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def talker(*, tool: Blocker | None = None) -> Agent:
    async def answer(request: LLMRequest, emit: Emit) -> LLMResponse:
        if request.system == summary.SYSTEM:
            return says("Facts: /etc/app.conf")
        if tool is not None and request.messages[-1].text.startswith("block"):
            return calls(("block", {}))
        return says("yes")

    return Agent([answer] * 100, tools=[tool] if tool else [], settings=AgentSettings(max_tokens=1_000))


async def idle(agent: Agent, clock: Clock, seconds: float) -> AutoCompact:
    """Return the timers after everything that was said so far, ``seconds`` later."""
    timers = AutoCompact(agent.consolidator, sessions=agent.sessions, ttl_s=600, clock=clock)
    session = agent.sessions.loaded(KEY)
    assert session is not None
    timers.after_turn(session, OneModel(agent.provider, 128_000).resolve(None))
    clock.now += seconds
    await timers.compact_due()
    await settle()
    return timers


async def settle() -> None:
    """Wait until no summary is being made, or for a while if it is held up: it goes through a thread."""
    for _ in range(60):
        if not any(task.get_name().startswith("compact ") for task in asyncio.all_tasks()):
            return
        await asyncio.sleep(0.002)


async def summaries(agent: Agent) -> int:
    return sum(isinstance(entry, Summary) for entry in await agent.entries())


async def test_an_idle_session_is_compacted_once() -> None:
    """After the time to live the summary is in the log, although the window is nearly empty; and it is not made again."""
    clock = Clock()
    async with talker() as agent:
        for i in range(6):
            await agent.ask(f"{i} {TEXT}")
        timers = await idle(agent, clock, 601)

        assert await summaries(agent) == 1
        clock.now += 6_000
        await timers.compact_due()
        await settle()
        assert await summaries(agent) == 1
        await timers.close()


async def test_a_session_that_is_talked_to_is_not_idle() -> None:
    """Each Turn sets the timer anew."""
    clock = Clock()
    async with talker() as agent:
        for i in range(6):
            await agent.ask(f"{i} {TEXT}")
        timers = await idle(agent, clock, 599)
        session = agent.sessions.loaded(KEY)
        assert session is not None
        timers.after_turn(session, OneModel(agent.provider, 128_000).resolve(None))
        clock.now += 599
        await timers.compact_due()
        await settle()

        assert await summaries(agent) == 0
        await timers.close()


async def test_b05_a_running_turn_is_never_compacted() -> None:
    """B05: a timer that runs out while a Turn waits for a slow tool does nothing."""
    clock = Clock()
    tool = Blocker()
    async with talker(tool=tool) as agent:
        for i in range(6):
            await agent.ask(f"{i} {TEXT}")
        running = asyncio.create_task(agent.ask("block"))
        await tool.entered.wait()
        timers = await idle(agent, clock, 601)

        assert await summaries(agent) == 0
        assert not any(request.system == summary.SYSTEM for request in agent.provider.requests)
        tool.gate.set()
        await running
        await timers.close()


async def test_the_timer_runs_by_itself() -> None:
    """The one task wakes when the first timer runs out."""
    async with talker() as agent:
        for i in range(6):
            await agent.ask(f"{i} {TEXT}")
        timers = AutoCompact(agent.consolidator, sessions=agent.sessions, ttl_s=0.01)
        session = agent.sessions.loaded(KEY)
        assert session is not None
        timers.after_turn(session, OneModel(agent.provider, 128_000).resolve(None))
        await asyncio.sleep(0.02)
        await settle()

        assert await summaries(agent) == 1
        await timers.close()
