"""The runner by itself: no loop, no session, no files."""

import asyncio
from typing import Any

import pytest

from nanobot.agent.bare import MemoryCheckpoint
from nanobot.agent.runner import AgentRunner
from nanobot.agent.spec import AgentRunSpec
from nanobot.agent.tools.base import Planned, ToolContext
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.runtime_events import ToolFinished, ToolStarted, TurnEvent
from nanobot.errors import AuthFailed, BadRequest, ContextOverflow
from nanobot.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    as_dicts,
    user_text,
)
from nanobot.providers.base import LLMResponse
from nanobot.session.entries import Effect
from tests.fakes.agent import Blocker, Echo, EchoArguments
from tests.fakes.legality import illegal
from tests.fakes.provider import ScriptedProvider, calls, says


class Unplannable(Echo):
    """A tool that changes the world and cannot say how."""

    name = "unplannable"
    effect: Effect = "opaque"

    async def plan(self, arguments: EchoArguments, context: ToolContext) -> Planned:
        """Fail."""
        raise OSError("the disk of hunter2 is gone")


def spec_of(*texts: str, tools: ToolRegistry | None = None, **options: object) -> AgentRunSpec:
    """Return a run that begins with these user messages."""
    messages = [user_text(text, entry=f"e{n}") for n, text in enumerate(texts, 1)]
    return AgentRunSpec(initial_messages=messages, tools=tools or ToolRegistry([]), model="m", **options)  # pyright: ignore[reportArgumentType]  # a test names only what it means


def calls_of(entry: str, *names: str) -> tuple[ToolCall, ...]:
    """Return calls of an answer, each with its number as text."""
    return tuple(ToolCall(f"{entry}.{i}", name, {"text": f"call {i}"}) for i, name in enumerate(names))


async def test_a_script_needs_messages_tools_and_a_model() -> None:
    """Dicts in OpenAI form go in; the answer, the messages and the tools used come out."""
    provider = ScriptedProvider([calls(("echo", {"text": "found"})), says("It is found.")])
    checkpoint = MemoryCheckpoint()
    spec = AgentRunSpec(
        initial_messages=[
            {"role": "user", "content": "earlier"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "x", "function": {"name": "echo", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "x", "content": "old"},
            {"role": "user", "content": "find it"},
        ],
        tools=ToolRegistry([Echo()]),
        model="some-model",
        checkpoint=checkpoint,
    )

    result = await AgentRunner(provider).run(spec)

    assert (result.final_content, result.stop_reason, result.error) == ("It is found.", "completed", None)
    assert (result.tools_used, result.iterations) == (("echo",), 2)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (20, 10)
    assert [row["role"] for row in as_dicts(result.messages)] == ["assistant", "tool", "assistant"]
    assert list(result.messages) == checkpoint.messages
    assert [illegal(request) for request in provider.requests] == [None, None]
    assert provider.requests[0].model == "some-model"


async def test_nothing_is_changed_in_what_was_given() -> None:
    """The caller's list and dicts stay as they were."""
    given: list[Message | dict[str, Any]] = [{"role": "user", "content": "hi"}]
    provider = ScriptedProvider([says("ok")])

    await AgentRunner(provider).run(AgentRunSpec(initial_messages=given, tools=ToolRegistry([]), model="m"))

    assert given == [{"role": "user", "content": "hi"}]


async def test_events_tell_of_each_call() -> None:
    """Who watches sees each call begin and end."""
    seen: list[TurnEvent] = []
    provider = ScriptedProvider([calls(("echo", {"text": "a"}), ("nope", {})), says("ok")])

    result = await AgentRunner(provider).run(spec_of("go", tools=ToolRegistry([Echo()]), emit=seen.append))

    assert [event.name for event in seen if isinstance(event, ToolStarted)] == ["echo", "nope"]
    ended = [(event.name, event.is_error) for event in seen if isinstance(event, ToolFinished)]
    assert ended == [("echo", False), ("nope", True)]
    assert [event.is_error for event in result.tool_events] == [False, True]


async def test_a_name_without_end_is_shown_short() -> None:
    """A model may call a tool that is not there by a name of any length; people see its beginning."""
    events: list[TurnEvent] = []
    provider = ScriptedProvider([calls(("x" * 5000, {})), says("ok")])
    await AgentRunner(provider).run(spec_of("hi", emit=events.append))

    [summary] = [event.summary for event in events if isinstance(event, ToolStarted)]
    assert summary == "x" * 59 + "…"


async def test_read_only_calls_run_side_by_side_and_others_in_order() -> None:
    """Results are read back in the order of the calls, whichever came first."""
    order: list[str] = []
    both = asyncio.Barrier(2)

    async def look(name: str) -> str:
        """Look."""
        await both.wait()
        order.append(name)
        return f"saw {name}"

    async def change(name: str) -> str:
        """Change."""
        order.append(name)
        return f"changed {name}"

    tools = ToolRegistry([function_tool(look, concurrent=True), function_tool(change)])
    wanted = calls(
        ("look", {"name": "a"}), ("look", {"name": "b"}), ("change", {"name": "c"}), ("change", {"name": "d"})
    )
    provider = ScriptedProvider([wanted, says("ok")])

    async with asyncio.timeout(5):
        await AgentRunner(provider).run(spec_of("go", tools=tools))

    results = [m.text for m in provider.requests[1].messages if isinstance(m, ToolMessage)]
    assert results == ["saw a", "saw b", "changed c", "changed d"]
    assert order[2:] == ["c", "d"]


async def test_a_failed_model_call_is_the_runs_error() -> None:
    """Provider errors do not come out as exceptions, and what was done before stays in the result."""
    provider = ScriptedProvider([calls(("echo", {"text": "a"})), AuthFailed("no key")])

    result = await AgentRunner(provider).run(spec_of("go", tools=ToolRegistry([Echo()])))

    assert (result.stop_reason, result.error, result.final_content) == ("error", "no key", "")
    assert result.tools_used == ("echo",)


async def test_too_long_is_cut_and_asked_once_more() -> None:
    """A provider's own "too long" leads to one harder cut and one retry, and no third."""
    long = [f"{n} " + "words and words " * 600 for n in range(8)]
    overflow = ContextOverflow("too long", limit_tokens=8_000)
    first = ScriptedProvider([overflow, says("ok")])
    second = ScriptedProvider([overflow, ContextOverflow("still too long")])

    result = await AgentRunner(first).run(spec_of(*long, max_tokens=1_000))
    failed = await AgentRunner(second).run(spec_of(*long, max_tokens=1_000))

    sizes = [sum(len(m.text) for m in request.messages) for request in first.requests]
    assert (result.final_content, sizes[1] < sizes[0] / 2) == ("ok", True)
    assert long[-1] in first.requests[1].messages[-1].text
    assert (failed.stop_reason, failed.error, len(second.requests)) == ("error", "still too long", 2)


@pytest.mark.parametrize("refusal", ["image input is not supported", "this model is not multimodal"])
async def test_refused_images_are_left_out_once(refusal: str) -> None:
    """Other refusals are not taken for one."""
    image = UserMessage((ImagePart("/a.png", "image/png", "00"), TextPart("what is it?")), entry="e1")
    blind = ScriptedProvider([BadRequest(refusal), says("cannot see")])
    other = ScriptedProvider([BadRequest("temperature must be 1")])
    spec = AgentRunSpec(initial_messages=[image], tools=ToolRegistry([]), model="m")

    result = await AgentRunner(blind).run(spec)
    failed = await AgentRunner(other).run(spec)

    assert result.final_content == "cannot see"
    sent = blind.requests[1].messages[0]
    assert isinstance(sent, UserMessage)
    assert not any(isinstance(part, ImagePart) for part in sent.parts)
    assert "image" in sent.text
    assert failed.error == "temperature must be 1"


async def test_a_run_that_goes_on_asks_for_nothing_it_has() -> None:
    """With the answer and one of two results given, only the missing call runs before the model is asked."""
    echo = Echo()
    answer = AssistantMessage("", calls_of("e2", "echo", "echo"), entry="e2")
    done = ToolMessage("e2.0", "echo", "first", entry="e3")
    provider = ScriptedProvider([says("ok")])

    result = await AgentRunner(provider).run(
        spec_of("go", tools=ToolRegistry([echo]), so_far=[(answer, "tool_calls"), (done, None)])
    )

    assert (echo.said, len(provider.requests), result.iterations) == (["call 1"], 1, 2)
    assert [m.text for m in provider.requests[0].messages if isinstance(m, ToolMessage)] == ["first", "call 1"]


async def test_steering_is_asked_for_at_the_top_of_each_iteration() -> None:
    """What came in is seen by the next request, in its place after the results."""
    waiting: list[list[UserMessage]] = [[], [user_text("and this", entry="e50")], []]
    provider = ScriptedProvider([calls(("echo", {"text": "a"})), says("both")])

    async def steer() -> list[UserMessage]:
        return waiting.pop(0)

    result = await AgentRunner(provider).run(spec_of("go", tools=ToolRegistry([Echo()]), steer=steer))

    assert result.had_injections
    assert provider.requests[1].messages[-1].text == "and this"


async def test_a_plan_that_fails_is_the_calls_result() -> None:
    """Whatever goes wrong before a call runs is told to the model, without secrets, and the Turn goes on."""
    provider = ScriptedProvider([calls(("unplannable", {"text": "x"})), says("I see.")])
    tools = ToolRegistry([Unplannable()], redact=lambda text: text.replace("hunter2", "[redacted]"))

    result = await AgentRunner(provider).run(spec_of("go", tools=tools))

    observed = next(message for message in result.messages if isinstance(message, ToolMessage))
    assert result.final_content == "I see."
    assert observed.is_error
    assert "Error before running unplannable" in observed.text
    assert "[redacted]" in observed.text
    assert "hunter2" not in observed.text


async def test_cancelling_a_run_cancels_its_tools() -> None:
    """The tool is gone when the run is."""
    block = Blocker()
    running = asyncio.create_task(
        AgentRunner(ScriptedProvider([calls(("block", {}))])).run(spec_of("go", tools=ToolRegistry([block])))
    )
    await block.entered.wait()

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert running.cancelled()
    assert len(asyncio.all_tasks()) == 1


async def test_parts_of_an_answer_are_joined() -> None:
    """Text cut off by length goes on where it stopped; a call in between is no part of it."""
    provider = ScriptedProvider(
        [
            LLMResponse(text="One, ", finish="length"),
            LLMResponse(text="two, ", finish="length"),
            says("three."),
        ]
    )

    result = await AgentRunner(provider).run(spec_of("count"))

    assert (result.final_content, result.iterations) == ("One, two, three.", 3)
