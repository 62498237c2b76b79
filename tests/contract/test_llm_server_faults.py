"""The local model server falls silent, breaks off, trickles and fails in mid-stream as asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.fakes.llm.raw_client import ANTHROPIC, OPENAI, RawClient, anthropic_text, openai_text, until
from tests.fakes.llm_server import LLMServer, Reply

WIRES = pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])


@pytest.fixture
async def client() -> AsyncIterator[RawClient]:
    async with httpx2.AsyncClient(trust_env=False, timeout=5) as http:
        yield RawClient(http)


@pytest.fixture
async def server() -> AsyncIterator[LLMServer]:
    async with LLMServer() as running:
        yield running


@WIRES
@pytest.mark.parametrize("hang", ["accept", "headers", "after_delta"])
async def test_e17_it_can_fall_silent(client: RawClient, server: LLMServer, path: str, hang: Any) -> None:
    """Before the headers, after them, or after a delta nothing more comes; a client that leaves is noticed."""
    server.queue(Reply("one two three", hang=hang))
    got = bytearray()

    async def read() -> None:
        response = await client.http.send(client.request(server, path, stream=True), stream=True)
        try:
            async for piece in response.aiter_bytes():
                got.extend(piece)
        finally:
            await response.aclose()

    reader = asyncio.create_task(read())
    done, _ = await asyncio.wait([reader], timeout=0.05)
    reader.cancel()
    await asyncio.wait([reader])
    await until(lambda: server.in_flight == 0)

    assert not done
    assert (b"one" in got) == (hang == "after_delta")
    assert b"three" not in got
    assert server.requests[0].is_gone


async def test_a_whole_answer_can_fall_silent_too(client: RawClient, server: LLMServer) -> None:
    """Without streaming, a hang after the headers leaves the body out."""
    server.queue(Reply("x", hang="headers"))

    with pytest.raises(httpx2.ReadTimeout):
        await client.ask(server, OPENAI, timeout_s=0.05)


@WIRES
async def test_keep_alives_defeat_read_timeouts(client: RawClient, server: LLMServer, path: str) -> None:
    """Comments or pings come while nothing else does."""
    gate = asyncio.Event()
    server.queue(Reply("done", gate=gate, keepalive_every_s=0.01))
    asyncio.get_running_loop().call_later(0.06, gate.set)

    response = await client.ask(server, path, timeout_s=0.05, stream=True)

    assert response.text.count(": keep-alive\n\n" if path == OPENAI else "event: ping") >= 2
    events = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith('data: {"')]
    assert (openai_text(events) if path == OPENAI else anthropic_text(events)) == "done"


@WIRES
async def test_a_gate_holds_the_answer(client: RawClient, server: LLMServer, path: str) -> None:
    """Requests at a gate are in flight together, and counted."""
    gate = asyncio.Event()
    server.queue(Reply("a", gate=gate), Reply("b", gate=gate))
    asks = [asyncio.create_task(client.ask(server, path)) for _ in range(2)]
    await until(lambda: server.in_flight == 2)

    gate.set()
    responses = await asyncio.gather(*asks)

    assert [response.status_code for response in responses] == [200, 200]
    assert server.max_concurrent == 2
    assert sorted(request.in_flight for request in server.requests) == [1, 2]


@WIRES
async def test_a_socket_can_break_in_mid_stream(client: RawClient, server: LLMServer, path: str) -> None:
    """After so many events the connection is gone, and the next request works."""
    server.queue(Reply("one two three", break_after=3), Reply("ok"), Reply("x", break_after=0))

    with pytest.raises(httpx2.RemoteProtocolError):
        await client.ask(server, path, stream=True)
    assert (await client.ask(server, path)).status_code == 200
    with pytest.raises(httpx2.RemoteProtocolError):
        await client.ask(server, path)


@WIRES
async def test_e29_a_stream_can_end_early_and_properly(client: RawClient, server: LLMServer, path: str) -> None:
    """The body ends well but says neither finish nor done."""
    server.queue(Reply("one two three", end_early=True), Reply("one two three", oddities=["no_done"]))

    early = (await client.ask(server, path, stream=True)).text
    no_done = (await client.ask(server, path, stream=True)).text

    assert "hree" in early
    assert '"stop"' not in early
    assert "end_turn" not in early
    assert '"finish_reason":"stop"' in no_done or '"stop_reason":"end_turn"' in no_done
    assert "[DONE]" not in no_done
    assert "message_stop" not in no_done


@WIRES
@pytest.mark.parametrize("after", [0, 1])
async def test_e19_errors_come_inside_a_good_stream(
    client: RawClient, server: LLMServer, path: str, after: int
) -> None:
    """Before any text or after some, an error event ends a stream with status 200."""
    server.queue(
        Reply("one two three", stream_error={"type": "overloaded_error", "message": "Overloaded"}, after=after)
    )

    events = await client.events(server, path)

    assert events[-1]["error"] == {"type": "overloaded_error", "message": "Overloaded"}
    text = openai_text(events[:-1]) if path == OPENAI else anthropic_text(events[:-1])
    assert len(text) == 5 * after


async def test_raw_bytes_go_out_as_they_are(client: RawClient, server: LLMServer) -> None:
    """A test can write the wire itself."""
    server.queue(Reply(raw_events=[b"data: one\n\n", b"da", b"ta: two\n\n"]), Reply(raw_body=b"<html>", status=502))

    assert (await client.ask(server, OPENAI, stream=True)).content == b"data: one\n\ndata: two\n\n"
    response = await client.ask(server, OPENAI)
    assert (response.status_code, response.content) == (502, b"<html>")


@WIRES
@pytest.mark.parametrize("how", [{"chop": 1}, {"chop": 7}, {"delay_s": 0}, {"delay_s": 0.001}, {"deltas": 50}])
async def test_the_pace_changes_nothing(client: RawClient, server: LLMServer, path: str, how: dict[str, Any]) -> None:
    """Cut through characters, slow or in many pieces: the text is the same."""
    server.queue(Reply("héllo 😀 wörld", **how))

    events = await client.events(server, path)

    assert (openai_text(events) if path == OPENAI else anthropic_text(events)) == "héllo 😀 wörld"
