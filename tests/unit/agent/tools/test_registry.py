"""The registry: exact names, valid arguments, bounded runs."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import Field

from nanobot.agent.bare import bare_context
from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, Planned, Probed, Tool, ToolContext
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.errors import MisuseError, ToolError
from nanobot.messages import JsonObject, ToolCall
from tests.unit.agent.tools.conftest import Bench


class EchoArguments(ToolArguments):
    text: str = Field(description="What to say")
    times: int = 1


class Echo(BaseTool[EchoArguments]):
    name = "echo_text"
    description = "Say it."
    arguments = EchoArguments

    def __init__(self, *, timeout_s: float | None = 5.0) -> None:
        self.timeout_s: float | None = timeout_s
        self.started = asyncio.Event()
        self.cancelled = False

    async def plan(self, arguments: EchoArguments, context: ToolContext) -> Planned:
        if arguments.text == "boom":
            raise RuntimeError("no plan")
        return Planned(before={"text": arguments.text})

    async def run(self, arguments: EchoArguments, context: ToolContext) -> str:
        self.started.set()
        if arguments.text == "boom":
            raise RuntimeError("it broke")
        if arguments.text == "own timeout":
            raise TimeoutError("the server did not answer")
        if arguments.text == "hang":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
        return arguments.text * arguments.times

    async def probe(self, arguments: EchoArguments, context: ToolContext, planned: Planned) -> Probed:
        if arguments.text == "boom":
            raise RuntimeError("no probe")
        return Probed("done", arguments.text)


class Other(Echo):
    name = "other"


def prepare_error(registry: ToolRegistry, name: str, arguments: JsonObject | str) -> str:
    """Return why a call is refused."""
    with pytest.raises(ToolError) as caught:
        registry.prepare_call(ToolCall("e1.0", name, arguments))
    return str(caught.value)


@pytest.mark.parametrize("name", ["echo-text", "Echo_Text", "echo_txt", "echo_text ", ""])
def test_a_name_is_exact_and_nothing_else_runs(name: str) -> None:
    """A wrong name is an error that suggests, never a call of something similar."""
    text = prepare_error(ToolRegistry([Echo(), Other()]), name, {"text": "x"})

    assert "no tool named" in text
    assert "nothing was run" in text
    assert not name or "Did you mean echo_text?" in text
    assert "echo_text, other" in text


def test_e04_broken_arguments_say_that_nothing_ran() -> None:
    """A call that was cut off is an argument error of that tool."""
    text = prepare_error(ToolRegistry([Echo()]), "echo_text", '{"text": "rm')

    assert text.startswith("Error in the arguments of echo_text (nothing was run)")
    assert "cut off" in text


def test_specs_are_sorted_and_the_same_bytes_whatever_the_order() -> None:
    """The prompt prefix does not depend on how the registry was filled."""
    one, two = (
        json.dumps([(s.name, s.description, s.parameters) for s in registry.specs()])
        for registry in (ToolRegistry([Echo(), Other()]), ToolRegistry([Other(), Echo()]))
    )

    assert one == two
    assert [spec.name for spec in ToolRegistry([Other(), Echo()]).specs()] == ["echo_text", "other"]


def test_two_tools_of_one_name_are_a_misuse() -> None:
    """A name means one tool."""
    with pytest.raises(MisuseError, match="two tools"):
        ToolRegistry([Echo(), Echo()])


async def test_what_a_tool_raises_becomes_an_observation(bench: Bench) -> None:
    """An exception names its line and ends neither Turn nor process."""
    text = await bench.error(Echo(), text="boom")

    assert "while running echo_text" in text
    assert "RuntimeError: it broke" in text


async def test_a_tool_is_stopped_at_its_own_timeout(bench: Bench) -> None:
    """A tool that hangs is cancelled and the model is told how long it had."""
    tool = Echo(timeout_s=0.02)

    assert "longer than 0.02 s" in await bench.error(tool, text="hang")
    assert tool.cancelled


async def test_a_tools_own_timeout_error_is_not_taken_for_the_limit(bench: Bench) -> None:
    """The model is told what really happened."""
    assert "the server did not answer" in await bench.error(Echo(), text="own timeout")


async def test_cancelling_a_run_cancels_the_tool(bench: Bench) -> None:
    """A stop reaches the tool, and comes out as a cancellation."""
    tool = Echo()
    task = asyncio.create_task(bench.call(tool, text="hang"))
    await tool.started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert tool.cancelled


async def test_observations_are_clean_and_redacted_once(bench: Bench) -> None:
    """No NUL, no lone surrogate and no secret leaves the registry, from results, errors, plans and probes alike."""
    bench.redact = lambda text: text.replace("hunter2", "[redacted]")
    registry, prepared = bench.prepare(Echo(), text="a\0 \ud800 hunter2")

    observation = await registry.execute(prepared, bench.context())
    probed = await registry.probe(prepared, bench.context(), Planned())

    assert observation.text == "a \ufffd [redacted]"
    assert probed.text == "a \ufffd [redacted]"
    with pytest.raises(ToolError, match=r"\[redacted\]"):
        registry.prepare_call(ToolCall("e1.0", "echo_text", {"text": "x", "times": "hunter2"}))


async def test_plans_and_probes_that_fail_are_contained(bench: Bench) -> None:
    """A broken plan is a tool error, a broken probe knows nothing."""
    registry, prepared = bench.prepare(Echo(), text="boom")

    with pytest.raises(ToolError, match="no plan"):
        await registry.plan(prepared, bench.context())
    assert (await registry.probe(prepared, bench.context(), Planned())).outcome == "unknown"


def test_limits_win_over_the_tools_own_and_that_over_the_default() -> None:
    """The operator has the last word on budgets."""
    tool = Other()
    tool.max_observation_chars = 900
    registry = ToolRegistry([Echo(), tool], default_max_chars=5_000, limits={"echo_text": 700})

    assert registry.max_chars("echo_text") == 700
    assert registry.max_chars("other") == 900
    assert registry.max_chars("unknown") == 5_000


# -- tools that come and go ----------------------------------------------------------------------------------------------------


def brought(*names: str, text: str = "Does it.") -> list[Tool[Any]]:
    return [named(name, text) for name in names]


def named(name: str, text: str = "Does it.") -> Tool[Any]:
    def ran() -> str:
        return f"{name} ran"

    return function_tool(ran, name=name, description=text)


def test_a_source_replaces_its_whole_set_at_once() -> None:
    """What a source brought before is gone, what others brought stays, and the list stays sorted."""
    registry = ToolRegistry([named("own")], sources=["a", "b"])
    registry.replace("a", brought("mcp_a_one", "mcp_a_two"))
    registry.replace("b", brought("mcp_b_one"))
    registry.replace("a", brought("mcp_a_two", "mcp_a_three"))

    assert [spec.name for spec in registry.specs()] == ["mcp_a_three", "mcp_a_two", "mcp_b_one", "own"]
    assert [spec.source for spec in registry.specs()] == ["a", "a", "b", ""]
    assert [spec.name for spec in registry.own_specs()] == ["own"]
    assert registry.get("mcp_a_one") is None


def test_what_is_unchanged_stays_the_same_object() -> None:
    """A spec is encoded once, however often its server comes up again."""
    registry = ToolRegistry([], sources=["a"])
    registry.replace("a", brought("mcp_a_one", "mcp_a_two"))
    before = registry.specs()
    registry.replace("a", [named("mcp_a_one"), named("mcp_a_two", "Does something else.")])

    assert registry.specs()[0] is before[0]
    assert registry.specs()[1] is not before[1]


def test_a_name_that_is_taken_replaces_nothing() -> None:
    """A source cannot put a tool of its own in the place of another one."""
    registry = ToolRegistry([named("own")], sources=["a"])
    registry.replace("a", brought("mcp_a_one"))
    with pytest.raises(MisuseError, match="two tools named 'own'"):
        registry.replace("a", brought("own", "mcp_a_two"))

    assert [spec.name for spec in registry.specs()] == ["mcp_a_one", "own"]


async def test_a_call_that_has_begun_outlives_the_replacement() -> None:
    """The tool that a call was prepared with runs it."""
    registry = ToolRegistry([], sources=["a"])
    registry.replace("a", brought("mcp_a_one"))
    prepared = registry.prepare_call(ToolCall("e1.0", "mcp_a_one", {}))
    registry.replace("a", [])

    assert (await registry.execute(prepared, bare_context())).text == "mcp_a_one ran"


def test_a_tool_that_is_not_there_may_have_a_stand_in() -> None:
    """What a frozen prompt still names is answered by its source, not as an unknown name."""
    stand_in = named("mcp_a_gone")
    registry = ToolRegistry([], absent=lambda name: stand_in if name.startswith("mcp_a_") else None)

    assert registry.prepare_call(ToolCall("e1.0", "mcp_a_gone", {})).tool is stand_in
    with pytest.raises(ToolError, match="no tool named 'other'"):
        registry.prepare_call(ToolCall("e1.0", "other", {}))
