"""The veto seam and the hook that adapts it: who may look at a call before it runs."""

from dataclasses import dataclass, field
from typing import Any

from nanobot.agent.gates import Allow, Ask, Deny, Verdict, review
from nanobot.agent.hooks import AgentHook, HookGate
from nanobot.agent.tools.base import ToolContext
from nanobot.bus.runtime_events import (
    RuntimeEvent,
    StageFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.messages import ToolCall, ToolMessage
from tests.fakes.agent import Agent, Echo
from tests.fakes.provider import calls, says


@dataclass
class Fixed:
    """A gate with one verdict for calls that say ``about``; ``seen`` holds what it was asked."""

    verdict: Verdict
    about: str = ""
    seen: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:
        self.seen.append((call.name, arguments.text, context.call_id))
        return self.verdict if self.about in arguments.text else Allow()


async def results_of(agent: Agent) -> list[ToolMessage]:
    """Return the results that the model was given in its last request."""
    return [m for m in agent.provider.requests[-1].messages if isinstance(m, ToolMessage)]


async def test_a_denied_call_does_not_run_and_the_model_is_told_why() -> None:
    """Others of the same answer do."""
    echo, gate = Echo(), Fixed(Deny("secrets stay here"), about="secret")
    steps = [calls(("echo", {"text": "secret"}), ("echo", {"text": "fine"})), says("ok")]
    async with Agent(steps, tools=[echo], gates=[gate]) as agent:
        await agent.ask("go")

        denied, ran = await results_of(agent)
        assert (denied.is_error, ran.is_error, echo.said) == (True, False, ["fine"])
        assert "secrets stay here" in denied.text
        assert [name for name, _, _ in gate.seen] == ["echo", "echo"]
        assert len({call_id for _, _, call_id in gate.seen}) == 2


async def test_where_nobody_can_be_asked_asking_is_a_denial() -> None:
    """The question is in the result, so that the model can say what it wanted."""
    echo = Echo()
    async with Agent(
        [calls(("echo", {"text": "x"})), says("ok")], tools=[echo], gates=[Fixed(Ask("Send it?"))]
    ) as agent:
        await agent.ask("go")

        (result,) = await results_of(agent)
        assert "Send it?" in result.text
        assert echo.said == []


async def test_the_first_gate_that_does_not_allow_decides() -> None:
    """Later ones are not asked."""
    context: Any = None
    first, second, third = Fixed(Allow()), Fixed(Deny("no")), Fixed(Ask("well?"))
    arguments = type("Arguments", (), {"text": "x"})()
    context = type("Context", (), {"call_id": "e1.0"})()

    verdict = await review([first, second, third], ToolCall("e1.0", "echo", {}), arguments, context)

    assert verdict == Deny("no")
    assert (len(first.seen), len(second.seen), third.seen) == (1, 1, [])
    assert await review([], ToolCall("e1.0", "echo", {}), arguments, context) == Allow()


async def test_gates_see_only_calls_that_could_run() -> None:
    """Unknown tools and wrong arguments are refused before anybody is asked."""
    gate = Fixed(Allow())
    steps = [calls(("nope", {}), ("echo", "{broken"), ("echo", {"text": [1]})), says("ok")]
    async with Agent(steps, tools=[Echo()], gates=[gate]) as agent:
        await agent.ask("go")

        assert [m.is_error for m in await results_of(agent)] == [True] * 3
        assert gate.seen == []


async def test_a_gate_that_fails_lets_nothing_through() -> None:
    """A veto that cannot be cast is no permission; the Turn ends in a sentence and the session goes on."""

    class Broken:
        async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:
            raise ZeroDivisionError

    echo = Echo()
    async with Agent(
        [calls(("echo", {"text": "x"})), says("ok"), says("later")], tools=[echo], gates=[Broken()]
    ) as agent:
        result = await agent.ask("go")
        after = await agent.ask("again")

        assert echo.said == []
        assert "ZeroDivisionError" in (result.error or "") or result.content == "ok"
        assert after.error is None


class Recorder(AgentHook):
    """Remembers what it was told, and denies one text."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_turn_started(self, event: TurnStarted) -> None:
        self.told.append("started")

    def on_text(self, event: TextDelta) -> None:
        self.told.append(f"text {event.text}")

    def on_tool_started(self, event: ToolStarted) -> None:
        self.told.append(f"tool {event.name}")

    def on_tool_finished(self, event: ToolFinished) -> None:
        self.told.append(f"done {event.name}")

    def on_turn_finished(self, event: TurnFinished) -> None:
        self.told.append("finished")

    async def before_tool(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:
        return Deny("not this") if arguments.text == "bad" else Allow()


async def test_a_hook_is_told_of_each_event_in_order_and_may_veto() -> None:
    """The class is an adapter over both seams."""
    hook, echo = Recorder(), Echo()
    steps = [calls(("echo", {"text": "bad"})), says("ok")]
    async with Agent(steps, tools=[echo], gates=[HookGate(hook)]) as agent:
        agent.runtime.observe(hook.on_event)
        await agent.ask("go")

    assert hook.told == ["started", "tool echo", "done echo", "text o", "text k", "finished"]
    assert echo.said == []


def test_a_bare_hook_does_nothing() -> None:
    """Every event may come; none needs a method of one's own."""
    events: list[RuntimeEvent] = [
        TurnStarted(),
        StageFinished(stage="run", duration_ms=1),
        TextDelta("x"),
        ToolStarted(call_id="1", name="x", summary="x"),
        ToolFinished(call_id="1", name="x", is_error=False, duration_ms=1, result_chars=1),
        TurnFinished(stop_reason="completed", content=""),
    ]

    for event in events:
        AgentHook().on_event(event)
