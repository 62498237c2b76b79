"""Encoding for both wires, without a socket."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nanobot.messages import AssistantMessage, Message, ProviderExtra, ToolCall, ToolMessage, user_text
from nanobot.providers import anthropic_wire, openai_wire
from nanobot.providers.anthropic_stream import AnthropicFold
from nanobot.providers.base import LLMRequest, ToolSpec
from nanobot.providers.settings import AnthropicSettings, OpenAISettings

TOOL = ToolSpec("exec", "run", {"type": "object", "properties": {}})
CALL = AssistantMessage("", (ToolCall("e2.0", "exec", {}), ToolCall("e2.1", "exec", {})), entry="e2")
RESULTS = (ToolMessage("e2.0", "exec", "a"), ToolMessage("e2.1", "exec", "b", is_error=True))


def openai_body(*messages: Message, request: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    asked = replace(LLMRequest(model="m", system="s", messages=messages, tools=(TOOL,)), **(request or {}))
    dialect = openai_wire.dialect_of(OpenAISettings(**settings))
    elements = [openai_wire.encode_message(message, dialect, asked.model, {}) for message in messages]
    return json.loads(openai_wire.request_body(asked, elements, dialect))


def anthropic_body(*messages: Message, request: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    asked = replace(LLMRequest(model="m", system="s", messages=messages, tools=(TOOL,)), **(request or {}))
    dialect = anthropic_wire.dialect_of(AnthropicSettings(**settings))
    elements = [anthropic_wire.encode_message(message, dialect, asked.model, {}) for message in messages]
    return json.loads(anthropic_wire.request_body(asked, elements, dialect))


@pytest.mark.parametrize(
    ("base_url", "model", "field", "expected"),
    [
        (None, "gpt-5.4-mini", None, "max_completion_tokens"),
        (None, "gpt-4o", None, "max_completion_tokens"),
        ("http://localhost:11434/v1", "llama", None, "max_tokens"),
        ("http://localhost:11434/v1", "llama", "max_completion_tokens", "max_completion_tokens"),
        (None, "gpt-4o", "max_tokens", "max_tokens"),
    ],
)
def test_the_room_for_the_answer_has_the_name_this_server_knows(
    base_url: str | None, model: str, field: str | None, expected: str
) -> None:
    """OpenAI wants the new name, compatible servers the old one, and the settings win."""
    body = openai_body(user_text("hi"), request={"model": model}, base_url=base_url, max_tokens_field=field)

    assert [name for name in body if name.startswith("max_")] == [expected]


def test_reasoning_models_at_openai_get_no_temperature() -> None:
    """They refuse it; all others take it."""
    asked: dict[str, Any] = {"temperature": 0.5, "reasoning_effort": "low", "model": "gpt-5.4-mini"}

    assert "temperature" not in openai_body(user_text("hi"), request=asked)
    assert openai_body(user_text("hi"), request=asked)["reasoning_effort"] == "low"
    assert openai_body(user_text("hi"), request=asked | {"model": "gpt-4o"})["temperature"] == 0.5


def test_extra_body_is_put_over_and_null_takes_away() -> None:
    """Servers that want one more field, or one less, get it by configuration."""
    body = openai_body(
        user_text("hi"), extra_body={"stream_options": None, "top_k": 5, "max_tokens": 7}, base_url="http://h/v1"
    )

    assert "stream_options" not in body
    assert (body["top_k"], body["max_tokens"]) == (5, 7)


def test_e01_an_empty_assistant_row_is_left_out() -> None:
    """A blank answer is not sent, and the user rows around it become one."""
    body = openai_body(user_text("a"), AssistantMessage("  "), user_text("b"))

    assert body["messages"][1:] == [{"role": "user", "content": "a\n\nb"}]
    rows = anthropic_body(user_text("a"), AssistantMessage("  "), user_text("b"))["messages"]
    assert [row["role"] for row in rows] == ["user"]


def test_text_cut_off_says_so() -> None:
    """A model that sees its own cut-off text knows that it was cut off."""
    cut = AssistantMessage("half a sen", cut_off=True)

    assert openai_body(user_text("a"), cut, user_text("b"))["messages"][2]["content"] == "half a sen\n[cut off here]"


def test_e11_a_signature_returns_to_its_own_model_only() -> None:
    """Vendor fields go back to the provider and model they came from; Gemini gets its skip value for strangers' first calls."""
    google = "https://generativelanguage.googleapis.com/v1beta/openai"
    tag = openai_wire.dialect_of(OpenAISettings(base_url=google)).tag
    own = {"google": {"thought_signature": "s"}}
    signed = AssistantMessage("", CALL.tool_calls, ProviderExtra(tag, "m", json.dumps({"calls": [own, None]})))

    mine = openai_body(user_text("a"), signed, *RESULTS, base_url=google)["messages"][2]["tool_calls"]
    other_model = openai_body(user_text("a"), signed, *RESULTS, base_url=google, request={"model": "n"})["messages"][2][
        "tool_calls"
    ]
    other_host = openai_body(user_text("a"), signed, *RESULTS, base_url="http://h/v1")["messages"][2]["tool_calls"]

    assert [call.get("extra_content") for call in mine] == [own, None]
    assert [call.get("extra_content") for call in other_model] == [
        {"google": {"thought_signature": "skip_thought_signature_validator"}},
        None,
    ]
    assert not any("extra_content" in call for call in other_host)


def test_results_and_what_was_said_after_them_are_one_row_on_the_messages_wire() -> None:
    """Results come first, errors are marked, and a steered message follows in the same row."""
    body = anthropic_body(user_text("a"), CALL, *RESULTS, user_text("stop that"))

    last = body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "tool_result", "text"]
    assert [block.get("is_error", False) for block in last] == [False, True, False]


def test_cache_marks_are_four_at_most_and_never_kept() -> None:
    """Marks stand on tools, system and the last two user rows of the body; the kept encodings know none."""
    messages = (user_text("a"), AssistantMessage("b"), user_text("c"), AssistantMessage("d"), user_text("e"))
    body = anthropic_body(*messages)

    marked = [row["content"][-1]["text"] for row in body["messages"] if "cache_control" in row["content"][-1]]
    assert marked == ["c", "e"]
    assert json.dumps(body).count("cache_control") == 4
    assert b"cache_control" not in b"".join(
        str(value).encode() for m in (*messages, TOOL) for value in m.encoded.values()
    )
    assert "cache_control" not in json.dumps(anthropic_body(*messages, prompt_caching=False))


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("claude-sonnet-5-5", "adaptive"),
        ("claude-opus-4-6", "adaptive"),
        ("claude-sonnet-4-5-20250929", "enabled"),
        ("glm-5", "enabled"),
    ],
)
def test_thinking_is_asked_for_as_the_model_wants_it(model: str, kind: str) -> None:
    """Newer models think adaptively, older and foreign ones within a budget that leaves room for the answer."""
    body = anthropic_body(
        user_text("a"), request={"model": model, "reasoning_effort": "high", "temperature": 0.2, "max_tokens": 4_000}
    )

    assert body["thinking"]["type"] == kind
    assert body["thinking"].get("budget_tokens", 0) < body["max_tokens"]
    assert "temperature" not in body


def test_thinking_stays_off_inside_a_round_that_began_without_it() -> None:
    """A round of tools begun by another model has no signed thinking to begin with, so it is not asked for."""
    asked: dict[str, Any] = {"model": "claude-sonnet-4-5", "reasoning_effort": "low"}

    assert "thinking" not in anthropic_body(user_text("a"), CALL, *RESULTS, request=asked)
    assert "thinking" in anthropic_body(
        user_text("a"), CALL, *RESULTS, AssistantMessage("ok"), user_text("b"), request=asked
    )


def test_thinking_keeps_its_place_among_text_and_calls() -> None:
    """Blocks return in the order the model wrote them; altered text moves thinking to the front, where it is still legal."""
    tag = anthropic_wire.dialect_of(AnthropicSettings()).tag
    think = {"type": "thinking", "thinking": "t", "signature": "s"}
    extra = ProviderExtra(tag, "m", json.dumps({"blocks": [2, think, 3, "call", "call"]}))

    kept = anthropic_body(user_text("a"), AssistantMessage("abcde", CALL.tool_calls, extra), *RESULTS)["messages"][1][
        "content"
    ]
    altered = anthropic_body(user_text("a"), AssistantMessage("xyz", CALL.tool_calls, extra), *RESULTS)["messages"][1][
        "content"
    ]

    assert [block.get("text", block["type"]) for block in kept] == ["ab", "thinking", "cde", "tool_use", "tool_use"]
    assert [block.get("text", block["type"]) for block in altered] == ["thinking", "xyz", "tool_use", "tool_use"]


@pytest.mark.parametrize(("model", "base_url"), [("other", None), ("m", "http://elsewhere/v1")])
def test_thinking_is_no_strangers_business(model: str, base_url: str | None) -> None:
    """Signed thinking goes to the model and server that signed it, and nowhere else."""
    tag = anthropic_wire.dialect_of(AnthropicSettings()).tag
    think = {"type": "thinking", "thinking": "t", "signature": "s"}
    said = AssistantMessage("abc", extra=ProviderExtra(tag, "m", json.dumps({"blocks": [think, 3]})))

    body = anthropic_body(user_text("a"), said, user_text("b"), request={"model": model}, base_url=base_url)

    assert body["messages"][1]["content"] == [{"type": "text", "text": "abc"}]


def _fed(*events: dict[str, Any]) -> AnthropicFold:
    fold = AnthropicFold()
    for event in events:
        fold.feed(event)
    return fold


def _used(index: int, name: str, arguments: str) -> list[dict[str, Any]]:
    block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        {"type": "content_block_delta", "index": index, "delta": delta},
    ]


def test_e07_blocks_of_one_index_are_several() -> None:
    """A second call under the number of the first is a call of its own, and takes nothing from it."""
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    response = _fed(*_used(0, "a", '{"x":1}'), *_used(0, "b", "{}"), end).response(
        LLMRequest(model="m", system="", messages=()), provider="p", tag="t"
    )

    assert [(call.name, call.arguments) for call in response.tool_calls] == [("a", {"x": 1}), ("b", {})]


def test_an_end_without_a_reason_is_an_end() -> None:
    """A server that says ``message_stop`` and no reason has answered; one that just stops has not."""
    text = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}}

    assert _fed(text, {"type": "message_delta", "delta": {"stop_reason": None}}, {"type": "message_stop"}).complete
    assert not _fed(text).complete
