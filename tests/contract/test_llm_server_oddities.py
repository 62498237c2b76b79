"""The local model server writes badly in each way that real servers do."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.fakes.llm.raw_client import ANTHROPIC, OPENAI, RawClient, openai_text
from tests.fakes.llm_server import Call, LLMServer, Oddity, Reply, Tokens

WIRES = pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
CALL = Call("f", {"path": "é😀"})


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as http:
        yield RawClient(http)


@pytest.fixture
async def server() -> AsyncIterator[LLMServer]:
    async with LLMServer() as running:
        yield running


@pytest.mark.parametrize(
    ("oddity", "first"),
    [
        ("missing_ids", {"index": 0, "type": "function", "function": {"name": "f", "arguments": ""}}),
        ("empty_ids", {"index": 0, "id": "", "type": "function", "function": {"name": "f", "arguments": ""}}),
        ("empty_name_first", {"index": 0, "id": "c", "type": "function", "function": {"name": "", "arguments": ""}}),
        ("args_before_name", {"index": 0, "id": "c", "type": "function", "function": {"arguments": '{"a"'}}),
        ("no_index", {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "bcd"}'}}),
        (
            "args_object",
            {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": "bcd"}}},
        ),
    ],
)
async def test_e07_odd_first_deltas(
    client: RawClient, server: LLMServer, oddity: Oddity, first: dict[str, Any]
) -> None:
    """The first delta of a call is as odd as asked."""
    deltas = await client.calls(server, Reply(tool_calls=[Call("f", {"a": "bcd"}, id="c")], oddities=[oddity]))

    assert deltas[0] == first


@pytest.mark.parametrize(
    ("oddity", "second"),
    [
        ("null_continuation", {"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": '{"a"'}}),
        (
            "empty_continuation",
            {"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": '{"a"'}},
        ),
        (
            "repeat_id_name",
            {"index": 0, "id": "c", "type": "function", "function": {"name": "ff", "arguments": '{"a"'}},
        ),
        ("fragmented_names", {"index": 0, "function": {"name": "f", "arguments": ""}}),
        ("empty_name_first", {"index": 0, "function": {"name": "ff", "arguments": ""}}),
        ("args_before_name", {"index": 0, "function": {"name": "ff"}}),
    ],
)
async def test_e07_odd_continuations(
    client: RawClient, server: LLMServer, oddity: Oddity, second: dict[str, Any]
) -> None:
    """The second delta of a call is as odd as asked, and the arguments are whole."""
    deltas = await client.calls(server, Reply(tool_calls=[Call("ff", {"a": "bcd"}, id="c")], oddities=[oddity]))

    assert deltas[1] == second
    assert "".join(delta["function"].get("arguments", "") for delta in deltas) == '{"a": "bcd"}'


async def test_odd_calls_in_parallel(client: RawClient, server: LLMServer) -> None:
    """Ids repeat, deltas take turns, arguments break off or split inside escapes."""
    two = [Call("f", {"a": "1"}), Call("g", {"b": "2"})]

    same = await client.calls(server, Reply(tool_calls=two, oddities=["duplicate_ids"]))
    turns = await client.calls(server, Reply(tool_calls=two, oddities=["interleaved"]))
    broken = await client.calls(server, Reply(tool_calls=two[:1], oddities=["broken_json"]))
    split = await client.calls(server, Reply(tool_calls=[CALL], oddities=["split_escapes"]))

    assert [delta["id"] for delta in same if "id" in delta] == ["call_same", "call_same"]
    assert [delta["index"] for delta in turns] == [0, 1] * 4
    assert "".join(delta["function"]["arguments"] for delta in broken) == '{"a": "'[:6]
    parts = [delta["function"]["arguments"] for delta in split]
    assert json.loads("".join(parts)) == CALL.arguments
    assert max(map(len, parts)) == 2


async def test_odd_text_and_usage(client: RawClient, server: LLMServer) -> None:
    """Null content, thinking in tags, usage in other places, stop beside calls, and vendor's extras."""
    extra = {"google": {"thought_signature": "s"}}
    server.queue(
        Reply("", oddities=["null_content"]),
        Reply("yes", reasoning="hm", oddities=["think_tags"]),
        Reply("yes", usage=Tokens(1, 2), oddities=["usage_in_finish"]),
        Reply("yes", usage=None),
        Reply(tool_calls=[Call("f", extra=extra)], oddities=["stop_with_calls"]),
        Reply("yes", reasoning="hm", oddities=["reasoning_field"]),
    )

    null = (await client.ask(server, OPENAI)).json()
    tags = await client.events(server, OPENAI)
    finish = await client.events(server, OPENAI, stream_options={"include_usage": True})
    without = await client.events(server, OPENAI, stream_options={"include_usage": True})
    stop = (await client.ask(server, OPENAI)).json()["choices"][0]
    other = await client.events(server, OPENAI)

    assert null["choices"][0]["message"]["content"] is None
    assert openai_text(tags) == "<think>hm</think>\n\nyes"
    assert not any("<think>" in json.dumps(event) for event in tags)
    assert finish[-1]["usage"]["completion_tokens"] == 2
    assert finish[-1]["choices"][0]["finish_reason"] == "stop"
    assert not any(event.get("usage") for event in without)
    assert (stop["finish_reason"], stop["message"]["tool_calls"][0]["extra_content"]) == ("stop", extra)
    assert openai_text(other, "reasoning") == "hm"


async def test_odd_messages(client: RawClient, server: LLMServer) -> None:
    """Pings, empty and redacted thinking, input without deltas, and the other stop reasons."""
    server.queue(
        Reply("yes", oddities=["pings", "empty_thinking", "redacted_thinking"]),
        Reply(tool_calls=[CALL], oddities=["input_in_start"]),
        Reply("cut", finish="length"),
        Reply("no", finish="refusal"),
    )

    pings = await client.events(server, ANTHROPIC)
    inputs = await client.events(server, ANTHROPIC)
    reasons = [(await client.ask(server, ANTHROPIC)).json()["stop_reason"] for _ in range(2)]

    starts = [event["content_block"]["type"] for event in pings if event["type"] == "content_block_start"]
    assert starts == ["thinking", "redacted_thinking", "text"]
    assert {"type": "ping"} in pings
    assert [event["content_block"]["input"] for event in inputs if "content_block" in event] == [CALL.arguments]
    assert not any(event["type"] == "content_block_delta" for event in inputs)
    assert reasons == ["max_tokens", "refusal"]
