"""The log is the checkpoint: cut it after any record, go on, and the end is the same.

In memory and over fakes, so every record is tried in a moment; the real processes and disks have their own matrix.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from nanobot.agent.repair import repair
from nanobot.agent.settings import AgentSettings
from nanobot.agent.tools.base import BaseTool, Planned, Probed, ToolContext
from nanobot.messages import AssistantMessage, ToolMessage, UserMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Effect
from nanobot.session.log import SessionLog
from tests.fakes.agent import KEY, Agent, Echo, EchoArguments
from tests.fakes.legality import illegal
from tests.fakes.provider import calls, says
from tests.fakes.store import World


@dataclass
class Outside:
    """The world that tools change: what a probe can see of it, and how often each was done."""

    state: dict[str, str] = field(default_factory=dict[str, str])
    done: Counter[str] = field(default_factory=Counter[str])


class Change(BaseTool[EchoArguments]):
    """Changes the outside; how a crash is judged depends on its effect class."""

    description = "Change something."
    arguments = EchoArguments

    def __init__(self, name: str, effect: Effect, outside: Outside) -> None:
        self.name = name
        self.effect: Effect = effect
        self._outside = outside

    async def plan(self, arguments: EchoArguments, context: ToolContext) -> Planned:
        return Planned(before={"value": self._outside.state.get(self.name, "")}, after={"value": arguments.text})

    async def run(self, arguments: EchoArguments, context: ToolContext) -> str:
        self._outside.state[self.name] = arguments.text
        self._outside.done[self.name] += 1
        return f"{self.name} is {arguments.text}"

    async def probe(self, arguments: EchoArguments, context: ToolContext, planned: Planned) -> Probed:
        if self.effect == "opaque":
            return Probed("unknown")
        now = {"value": self._outside.state.get(self.name, "")}
        if now == planned.after:
            return Probed("done", f"{self.name} is {arguments.text}")
        return Probed("not_done" if now == planned.before else "unknown")


def model(request: LLMRequest, emit: Emit) -> LLMResponse:
    """Answer by what the request shows, so that the same history always gets the same answer."""
    said = sum(isinstance(message, AssistantMessage) for message in request.messages)
    match said:
        case 0:
            return calls(("echo", {"text": "a"}), ("echo", {"text": "b"}), ("file", {"text": "new"}), text="Looking.")
        case 1:
            return calls(("shell", {"text": "ran"}))
        case 2:
            return calls(("echo", {"text": "c"}))
        case _:
            return says("All done.")


def _agent(outside: Outside, world: World | None = None) -> Agent:
    tools = [Echo(), Change("file", "verifiable", outside), Change("shell", "opaque", outside)]
    return Agent([model] * 30, tools=tools, settings=AgentSettings(busy="steer"), world=world)


async def _undisturbed() -> tuple[Agent, Outside]:
    outside = Outside()
    agent = _agent(outside)
    async with agent:
        await agent.send("first", message_id="test:1:1")
        await agent.quiet()
        await agent.deliver_all()
    return agent, outside


def _transcript(log: SessionLog) -> list[tuple[str, str]]:
    """Return what is said, results in the order of their calls: those of calls that run at once are logged as they land."""
    return [(type(message).__name__, message.text) for message in repair([row.message for row in log.rows])]


async def _cut_after(lines: int) -> tuple[World, int]:
    """Return the world of a process that was killed right after its ``lines``-th record, and how many there are in all."""
    agent, _ = await _undisturbed()
    world = agent.store.world
    log = world.logs[KEY]
    total = len(log.lines)
    del log.lines[lines:]
    log.holder = log.claim = None
    log.open = True
    return world, total


def _outside_at(world: World) -> Outside:
    """Return the outside as it was when the log was cut: what was recorded was done; what was only intended was done too."""
    outside = Outside()
    text = b"\n".join(world.logs[KEY].lines)
    if b'"effect":"verifiable"' in text:
        outside.state["file"] = "new"
        outside.done["file"] = 1
    if b'"effect":"opaque"' in text:
        outside.state["shell"] = "ran"
        outside.done["shell"] = 1
    return outside


RECORDS = 16


@pytest.mark.parametrize("records", range(1, RECORDS + 1))
async def test_a_kill_after_any_record_ends_like_the_undisturbed_run(records: int) -> None:
    """Nothing recorded is asked for or done again, and the answer is owed exactly once."""
    undisturbed, _ = await _undisturbed()
    expected = _transcript(await undisturbed.log())
    world, total = await _cut_after(records)
    assert total == RECORDS
    outside = _outside_at(world)
    answered = sum(b'"role":"assistant"' in line for line in world.logs[KEY].lines)

    agent = _agent(outside, world)
    async with agent:
        await agent.loop.recover()
        await agent.quiet()
        delivered = list(agent.answers)
        await agent.deliver_all()

    log = await agent.log()
    unknown = [text for kind, text in _transcript(log) if kind == ToolMessage.__name__ and "outcome unknown" in text]
    got = [(k, "shell is ran" if t in unknown else t) for k, t in _transcript(log)]
    assert got == expected
    assert len(unknown) <= 1
    assert len(agent.provider.requests) == 4 - answered
    assert outside.done == Counter({"file": 1, "shell": 1})
    assert delivered == ([] if records == RECORDS else ["All done."])
    assert log.settled()
    assert [fault for request in agent.provider.requests if (fault := illegal(request))] == []


async def test_the_same_update_again_after_any_cut_changes_nothing() -> None:
    """The platform delivers its update again after each crash: it is one message all the same."""
    for records in range(1, RECORDS + 1):
        world, _ = await _cut_after(records)
        agent = _agent(_outside_at(world), world)
        async with agent:
            await agent.loop.recover()
            await agent.send("first", message_id="test:1:1")
            await agent.quiet()

        began = [row for row in (await agent.log()).rows if isinstance(row.message, UserMessage)]
        assert len(began) == 1, records


async def test_being_killed_again_and_again_still_ends() -> None:
    """A process that dies after each record it writes gets there, or says after three resumes that it does not."""
    outside = Outside()
    agent = _agent(outside)
    async with agent:
        await agent.send("first", message_id="test:1:1")
        await asyncio.sleep(0)
    log = await agent.log()
    for _ in range(10):
        agent = _agent(outside, agent.after_restart().store.world)
        async with agent:
            await agent.loop.recover()
            await asyncio.sleep(0.002)
        log = await agent.log()
        if log.open is None and not log.pending:
            break

    assert log.open is None
    assert not log.pending
    assert log.owed or log.recorded
    assert outside.done["file"] <= 1
    assert outside.done["shell"] <= 1


@pytest.mark.parametrize("busy", ["steer", "queue", "replace"])
async def test_after_long_downtime_each_chat_is_answered_once(busy: str) -> None:
    """What waited in several chats while nothing ran becomes one Turn and one answer a chat, in every mode."""
    settings = AgentSettings.model_validate({"busy": busy, "join_within_s": 0})
    before = Agent([], settings=settings)
    for number in range(3):
        for chat in ("1", "2"):
            await before.send(f"question {number} of {chat}", chat=chat, after_s=number * 10)
    agent = before.after_restart([says("all at once")] * 2)
    agent.now += timedelta(hours=5)
    async with agent:
        await agent.loop.recover()
        await agent.quiet()
        answers = list(agent.answers)

    assert answers == ["all at once"] * 2
    said = sorted(request.messages[-1].text for request in agent.provider.requests)
    for chat, text in zip("12", said, strict=True):
        assert [f"question {number} of {chat}" in text for number in range(3)] == [True] * 3


async def test_what_was_owed_goes_out_once_also_when_its_chat_speaks_first() -> None:
    """A start takes sessions up one after the other; one that is spoken to before its turn comes pays its debts once."""
    agent = Agent([says("before")])
    async with agent:
        await agent.send("one")
        await agent.quiet()
    later = agent.after_restart([says("after")])
    async with later:
        await later.send("two", message_id="test:1:2")
        await later.quiet()
        await later.loop.recover()
        await later.loop.recover()
        await later.quiet()
        answers = list(later.answers)

    assert answers == ["before", "after"]
