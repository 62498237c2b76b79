"""The provider inside."""

import pytest

from nanobot.bus.runtime_events import ModelEvent, TextDelta
from nanobot.messages import AssistantMessage, JsonObject, Message, ToolCall, ToolMessage, user_text
from nanobot.providers.base import LLMRequest, LLMResponse, ToolCallRequest, ToolSpec
from nanobot.providers.offline import OfflineProvider

TOOLS = tuple(ToolSpec(name, name, {"type": "object"}) for name in ("exec", "read_file", "list_dir", "grep"))


async def say(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS) -> tuple[LLMResponse, list[ModelEvent]]:
    events: list[ModelEvent] = []
    request = LLMRequest(model="phrases", system="", messages=messages, tools=tools)
    return await OfflineProvider().stream(request, events.append), events


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("time", "exec", {"command": "date"}),
        ("What time is it?", "exec", {"command": "date"}),
        ("list files", "list_dir", {"path": "."}),
        ("List the files in docs/adr", "list_dir", {"path": "docs/adr"}),
        ("read notes.md", "read_file", {"path": "notes.md"}),
        ("read the file 'my notes.md'", "read_file", {"path": "my notes.md"}),
        ("run echo hi; ls -la", "exec", {"command": "echo hi; ls -la"}),
        ("search TODO", "grep", {"pattern": "TODO", "path": "."}),
        ("search for f(x) in src", "grep", {"pattern": "f\\(x\\)", "path": "src"}),
        ("time\n\n[2026-11-30 12:00 +00:00 · cli]", "exec", {"command": "date"}),
        ("[2026-11-30 12:00 +00:00 · cli]\n\nlist files", "list_dir", {"path": "."}),
    ],
)
async def test_phrases_ask_for_real_tools(text: str, name: str, arguments: JsonObject) -> None:
    """A known phrase becomes a tool call, with or without the runtime's block around it."""
    response, _ = await say(user_text(text))

    assert response.tool_calls == (ToolCallRequest(name, arguments),)
    assert response.finish == "tool_calls"


async def test_results_are_reported_plainly() -> None:
    """What the tools said comes back whole, in a fence that its own fences cannot close."""
    call = AssistantMessage("", (ToolCall("e2.0", "exec", {}),))

    response, events = await say(user_text("run x"), call, ToolMessage("e2.0", "exec", "a\n```\nb"))

    assert response.text == "exec says:\n\n````\na\n```\nb\n````"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == response.text


async def test_everything_else_is_answered_with_how_to_configure_a_model() -> None:
    """Nobody has to guess why there is no answer: both variables, the config lines and the phrases are named."""
    response, events = await say(user_text("Write me a poem"))

    assert all(
        word in response.text
        for word in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "config.yaml", "base_url", "list files")
    )
    assert len(events) > 3
    assert response.tool_calls == ()


async def test_a_phrase_without_its_tool_says_so() -> None:
    """No call is made of a tool that is not offered."""
    response, _ = await say(user_text("run ls"), tools=())

    assert response.tool_calls == ()
    assert "'exec'" in response.text
