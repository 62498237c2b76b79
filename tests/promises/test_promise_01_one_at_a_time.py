"""1. One at a time: Turns of one session never overlap; different ones run side by side, up to a limit, and none starves another.

More: ``test_c01_*`` and its neighbours in tests/unit/agent/test_loop.py.
"""

import asyncio

from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.function import function_tool
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from tests.fakes.agent import KEY, Agent
from tests.fakes.provider import calls, says


class Model:
    """Answers after a moment; knows how many answers of each session, and of all, were under way at once."""

    def __init__(self) -> None:
        self.now: list[str] = []
        self.most_of_one = 0
        self.most = 0

    async def __call__(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        self.now.append(request.cache_key)
        self.most = max(self.most, len(self.now))
        self.most_of_one = max(self.most_of_one, self.now.count(request.cache_key))
        await asyncio.sleep(0.005)
        self.now.remove(request.cache_key)
        return says("done")


async def test_every_way_in_takes_the_same_lock() -> None:
    """Direct calls and messages of channels to one session are worked on one after the other."""
    model = Model()
    settings = AgentSettings(busy="queue", join_within_s=0)
    async with Agent([model] * 8, settings=settings) as agent:
        direct = [asyncio.create_task(agent.ask(f"d{i}", key=KEY)) for i in range(4)]
        for i in range(4):
            await agent.send(f"b{i}", after_s=i)
        await asyncio.gather(*direct)
        await agent.quiet()

        assert (len(agent.provider.requests), model.most_of_one) == (8, 1)


async def test_sessions_run_side_by_side_up_to_the_limit() -> None:
    """As many Turns run at once as there are slots, and no more."""
    model = Model()
    async with Agent([model] * 9, settings=AgentSettings(concurrency=3)) as agent:
        await asyncio.gather(*(agent.ask("hi", key=f"test:{i}") for i in range(9)))

        assert model.most == 3


async def test_one_busy_chat_does_not_starve_another() -> None:
    """Who waits for a session's lock holds no slot: another session gets in although one has a long queue."""
    gate = asyncio.Event()

    async def slow(request: LLMRequest, emit: Emit) -> LLMResponse:
        await (asyncio.sleep(0) if request.cache_key == "test:quick" else gate.wait())
        return says(request.cache_key)

    async with Agent([slow] * 5, settings=AgentSettings(concurrency=2)) as agent:
        queue = [asyncio.create_task(agent.ask("work", key="test:busy")) for _ in range(4)]
        await asyncio.sleep(0.01)
        quick = await agent.ask("hi", key="test:quick")
        gate.set()
        await asyncio.gather(*queue)

        assert quick.content == "test:quick"


async def test_a_child_turn_uses_its_parents_slot() -> None:
    """A tool that asks another session does not wait for the slot that its own Turn holds."""

    async def ask_other() -> str:
        """Ask another session."""
        return (await agent.loop.process_direct("inner", session_key="test:other")).content

    steps = [calls(("ask_other", {})), says("inner"), says("outer")]
    async with Agent(steps, tools=[function_tool(ask_other)], settings=AgentSettings(concurrency=1)) as agent:
        assert (await agent.ask("go")).content == "outer"
