"""The local model server over its sockets: answers, refusals, the cache meter, HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.fakes.llm.raw_client import ANTHROPIC, HI, OPENAI, RawClient, anthropic_text, openai_text
from tests.fakes.llm_server import Call, LLMServer, Recorded, Reply, Tokens

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


async def test_an_empty_script_echoes(client: RawClient, server: LLMServer) -> None:
    """Without a script the last user text comes back."""
    response = await client.ask(server, OPENAI)

    assert response.json()["choices"][0]["message"]["content"] == "echo: hi"
    assert server.requests[0].body["model"] == "m"
    assert server.refusals == []


async def test_chat_completions_stream_and_whole_say_the_same(client: RawClient, server: LLMServer) -> None:
    """Text, reasoning, calls, finish and usage are equal in both forms."""
    reply = Reply("héllo", [CALL, Call("g")], "hm", usage=Tokens(10, 5, 4, 2))
    server.queue(reply, reply)

    whole = (await client.ask(server, OPENAI)).json()
    events = await client.events(server, OPENAI, stream_options={"include_usage": True})
    message = whole["choices"][0]["message"]
    streamed = [
        call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", [])
    ]
    assert (message["content"], message["reasoning_content"]) == ("héllo", "hm")
    assert (openai_text(events), openai_text(events, "reasoning_content")) == ("héllo", "hm")
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [CALL.arguments, {}]
    arguments = "".join(call["function"]["arguments"] for call in streamed if call["index"] == 0)
    assert arguments == message["tool_calls"][0]["function"]["arguments"]
    assert [call["function"]["name"] for call in streamed if "id" in call] == ["f", "g"]
    assert events[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "tool_calls"
    assert events[-1]["usage"] == whole["usage"]
    assert events[-1]["choices"] == []
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 4


async def test_messages_stream_and_whole_say_the_same(client: RawClient, server: LLMServer) -> None:
    """Blocks, stop reason and usage are equal in both forms."""
    reply = Reply("héllo", [CALL], "hm", usage=Tokens(10, 5, 4, written=1))
    server.queue(reply, reply)

    whole = (await client.ask(server, ANTHROPIC)).json()
    events = await client.events(server, ANTHROPIC)

    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert anthropic_text(events, "signature") == whole["content"][0]["signature"]
    assert anthropic_text(events, "text") == "héllo"
    assert json.loads(anthropic_text(events, "partial_json")) == whole["content"][2]["input"] == CALL.arguments
    assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"] == "tool_use"
    assert events[-1] == {"type": "message_stop"}
    assert whole["usage"]["input_tokens"] == 5
    assert events[0]["message"]["usage"]["cache_read_input_tokens"] == 4


async def test_its_own_thinking_is_taken_back(client: RawClient, server: LLMServer) -> None:
    """What the server signed it accepts, and with one letter changed it does not."""
    server.queue(Reply("", [Call("f")], "hm", oddities=["redacted_thinking"]))
    content = (await client.ask(server, ANTHROPIC)).json()["content"]
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "ok"}
    messages = [*HI, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]

    assert (await client.ask(server, ANTHROPIC, messages=messages)).status_code == 200
    content[0]["thinking"] = "hm?"
    assert (await client.ask(server, ANTHROPIC, messages=messages)).status_code == 400
    assert server.refusals == ["messages.1.content.0: Invalid `signature` in `thinking` block"]


async def test_refusals_take_nothing_from_the_script(client: RawClient, server: LLMServer) -> None:
    """A refused request gets the vendor's error body; the next legal one gets the scripted reply."""
    server.queue(Reply("first"))

    wrong = await client.ask(server, OPENAI, top_k=1)
    right = await client.ask(server, OPENAI)

    error = {
        "message": "Unknown parameter: 'top_k'.",
        "type": "invalid_request_error",
        "param": "top_k",
        "code": "unknown_parameter",
    }
    assert (wrong.status_code, wrong.json()) == (400, {"error": error})
    assert right.json()["choices"][0]["message"]["content"] == "first"
    assert [request.status for request in server.requests] == [400, 200]


async def test_messages_errors_name_type_and_request(client: RawClient, server: LLMServer) -> None:
    """An error body on the Messages wire has the vendor's three keys."""
    body = (await client.ask(server, ANTHROPIC, seed=1)).json()

    assert body["type"] == "error"
    assert body["error"] == {"type": "invalid_request_error", "message": "seed: Extra inputs are not permitted"}
    assert body["request_id"].startswith("req_")


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        (OPENAI, 401, "invalid_request_error"),
        (OPENAI, 429, "requests"),
        (OPENAI, 500, "server_error"),
        (OPENAI, 502, "server_error"),
        (ANTHROPIC, 429, "rate_limit_error"),
        (ANTHROPIC, 500, "api_error"),
        (ANTHROPIC, 529, "overloaded_error"),
    ],
)
async def test_scripted_errors_look_like_the_vendors(
    client: RawClient, server: LLMServer, path: str, status: int, kind: str
) -> None:
    """A status alone makes the vendor's body; headers come along."""
    server.queue(Reply(status=status, headers={"retry-after": "7"}))

    response = await client.ask(server, path, stream=True)

    assert response.status_code == status
    assert response.headers["retry-after"] == "7"
    assert response.json()["error"]["type"] == kind


async def test_e08_an_error_can_call_itself_a_success(client: RawClient, server: LLMServer) -> None:
    """An error body with status 200, and answers without choices."""
    server.queue(Reply(status=200, error={"error": {"message": "rate limited", "code": 429}}))
    server.queue(Reply("x", oddities=["null_choices"]), Reply("x", oddities=["empty_choices"]))

    bodies = [(await client.ask(server, OPENAI)).json() for _ in range(3)]

    assert bodies[0] == {"error": {"message": "rate limited", "code": 429}}
    assert [body["choices"] for body in bodies[1:]] == [None, []]


@pytest.mark.parametrize(
    ("path", "headers", "message"),
    [
        (OPENAI, {}, "You didn't provide an API key."),
        (OPENAI, {"authorization": "Bearer no"}, "Incorrect API key provided."),
        (ANTHROPIC, {}, "x-api-key header is required"),
        (ANTHROPIC, {"x-api-key": "no"}, "invalid x-api-key"),
    ],
)
async def test_wrong_keys_get_401(client: RawClient, path: str, headers: dict[str, str], message: str) -> None:
    """The key is checked before the body."""
    async with LLMServer(api_key="yes") as server:
        response = await client.http.post(server.url + path, json={}, headers=headers)

    assert response.status_code == 401
    assert response.json()["error"]["message"] == message


async def test_right_keys_get_in(client: RawClient) -> None:
    """Each wire's own header is read."""
    async with LLMServer(api_key="yes") as server:
        client.http.headers |= {"authorization": "Bearer yes", "x-api-key": "yes"}
        statuses = [(await client.ask(server, path)).status_code for path in (OPENAI, ANTHROPIC)]

    assert statuses == [200, 200]


async def test_models_and_counts(client: RawClient, server: LLMServer) -> None:
    """Both wires list models; a count takes nothing from the script."""
    server.queue(Reply("kept"))

    listed = (await client.http.get(server.url + "/v1/models")).json()
    other = (await client.http.get(server.url + "/v1/models", headers={"anthropic-version": "1"})).json()
    count = await client.http.post(
        server.url + "/v1/messages/count_tokens",
        json={"model": "m", "messages": HI},
        headers={"anthropic-version": "1"},
    )

    assert (listed["data"][0]["id"], other["data"][0]["id"]) == ("test-model", "test-model")
    assert count.json()["input_tokens"] > 0
    assert (await client.ask(server, OPENAI)).json()["choices"][0]["message"]["content"] == "kept"


async def test_e22_a_wrong_path_gets_404(client: RawClient, server: LLMServer) -> None:
    """A base URL without /v1 is told so by a 404."""
    response = await client.http.post(server.url + "/chat/completions", json={"model": "m", "messages": HI})

    assert response.status_code == 404
    assert response.json()["error"]["message"] == "Invalid URL (POST /chat/completions)"


async def test_e14_large_bodies_get_413(client: RawClient) -> None:
    """A body over the limit is not read."""
    async with LLMServer(max_body_bytes=100) as server:
        response = await client.ask(server, OPENAI, messages=[{"role": "user", "content": "x" * 200}])

    assert response.status_code == 413


async def test_the_cache_meter_counts_the_common_beginning(client: RawClient, server: LLMServer) -> None:
    """What begins as an earlier request did, byte for byte, is cached; a changed system prompt is not."""
    longer = [{"role": "system", "content": "s" * 400}, *HI, {"role": "assistant", "content": "yes"}, *HI]
    changed = [{"role": "system", "content": "S" + "s" * 399}, *longer[1:]]

    for messages in (longer[:2], longer, changed, longer):
        await client.ask(server, OPENAI, messages=messages)

    first, second, third, fourth = server.requests
    assert first.cached_tokens == 0
    assert second.cached_tokens == first.prompt_tokens
    assert third.cached_tokens == 0
    assert fourth.cached_tokens == fourth.prompt_tokens == second.prompt_tokens
    assert second.reported is not None
    assert second.reported.cached == second.cached_tokens


async def test_marks_move_without_breaking_the_prefix_but_only_marked_ones_are_read(
    client: RawClient, server: LLMServer
) -> None:
    """On the Messages wire the meter ignores marks, and the usage reports what they let the vendor cache."""

    def row(text: str, *, is_marked: bool) -> dict[str, Any]:
        block = {"type": "text", "text": text, **({"cache_control": {"type": "ephemeral"}} if is_marked else {})}
        return {"role": "user", "content": [block]}

    for marks in ([True], [False, True], [False, False, False]):
        messages = [row(f"m{at}" * 50, is_marked=is_marked) for at, is_marked in enumerate(marks)]
        await client.ask(server, ANTHROPIC, messages=messages)

    first, second, third = server.requests
    assert second.cached_tokens == first.prompt_tokens
    assert third.cached_tokens == second.prompt_tokens
    assert first.reported is not None
    assert second.reported is not None
    assert third.reported is not None
    assert (first.reported.cached, first.reported.written) == (0, first.prompt_tokens)
    assert second.reported.cached == first.prompt_tokens
    assert third.reported.cached == 0


async def test_a_responder_answers_instead_of_the_script(client: RawClient, server: LLMServer) -> None:
    """A function of the request makes the reply, and what it raises fails the test at the end."""
    server.responder = lambda recorded: Reply(f"{recorded.wire} {len(recorded.elements)}")
    assert (await client.ask(server, OPENAI)).json()["choices"][0]["message"]["content"] == "openai 1"

    def broken(recorded: Recorded) -> Reply:
        raise LookupError(recorded.path)

    failing = await LLMServer().__aenter__()
    failing.responder = broken
    response = await client.ask(failing, OPENAI)
    with pytest.raises(LookupError, match=OPENAI):
        await failing.__aexit__(None, None, None)

    assert response.status_code == 500


async def test_one_connection_serves_many_requests_in_chunks_or_not(server: LLMServer) -> None:
    """Requests that wait behind each other on one socket are answered in order, however their bytes arrive."""
    body = json.dumps({"model": "m", "messages": HI}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
    counted = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, body[at : at + 1]) for at in range(len(body)))
    chunked = head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks + b"0\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))

    for at in range(0, len(counted + chunked), 40):
        writer.write((counted + chunked)[at : at + 40])
        await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.count(b"echo: hi") == 2


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"])
async def test_what_is_no_http_gets_400(server: LLMServer, raw: bytes) -> None:
    """Garbage is answered and the connection closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert answer.startswith(b"HTTP/1.1 400 ")
