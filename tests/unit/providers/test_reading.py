"""Reading a stream within limits."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from nanobot.bus.runtime_events import ModelEvent, TextDelta
from nanobot.errors import ProviderError, StreamStalled
from nanobot.providers.openai_stream import OpenAIFold
from nanobot.providers.reading import Limits, read_answer

EMPTY: dict[str, Any] = {"choices": [{"delta": {"content": ""}}]}
END: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def text(words: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": words}}]}


def call(arguments: str) -> dict[str, Any]:
    function = {"name": "exec", "arguments": arguments}
    return {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}]}


class FakeResponse:
    """A response that streams, or holds one JSON body."""

    def __init__(self, body: bytes | None) -> None:
        self._body = body
        self.headers = {"content-type": "application/json" if body is not None else "text/event-stream"}

    async def aread(self) -> bytes:
        assert self._body is not None
        return self._body


class FakeStream:
    """A stream of given events: a number is a pause, an exception is raised, ``repeat`` comes for ever after."""

    def __init__(self, events: Sequence[object], *, repeat: object = None, body: bytes | None = None) -> None:
        self.response: Any = FakeResponse(body)
        self.closed = 0
        self._events = list(events)
        self._repeat = repeat

    async def __anext__(self) -> object:
        await asyncio.sleep(0)
        if not self._events and self._repeat is None:
            raise StopAsyncIteration
        event = self._events.pop(0) if self._events else self._repeat
        if isinstance(event, float):
            await asyncio.sleep(event)
            return await self.__anext__()
        if isinstance(event, Exception):
            raise event
        return event

    async def close(self) -> None:
        self.closed += 1


async def read(
    stream: FakeStream,
    *,
    idle_s: float = 0.05,
    total_s: float = 5,
    first_token_s: float = 0.05,
    max_chars: int = 1_000_000,
) -> list[ModelEvent]:
    shown: list[ModelEvent] = []

    async def open_stream() -> FakeStream:
        return stream

    limits = Limits(first_token_s, idle_s, total_s, "providers.x.timeouts")
    await read_answer(open_stream, OpenAIFold(), shown.append, limits, max_chars=max_chars)
    return shown


async def test_a_whole_answer_is_read_and_its_stream_closed() -> None:
    """Deltas are shown in order; the connection is let go."""
    stream = FakeStream([text("a"), text("b"), END])

    assert await read(stream) == [TextDelta("a"), TextDelta("b")]
    assert stream.closed == 1


@pytest.mark.parametrize(
    ("events", "limit"), [([], "first_token_s"), ([text("a")], "idle_s")], ids=["before the first", "in the middle"]
)
async def test_e17_empty_chunks_do_not_keep_a_silent_stream_alive(events: list[object], limit: str) -> None:
    """A server that sends chunks without content for ever has gone silent."""
    stream = FakeStream(events, repeat=EMPTY)

    with pytest.raises(StreamStalled, match=rf"providers\.x\.timeouts\.{limit}"):
        await read(stream)
    assert stream.closed == 1


async def test_the_whole_answer_has_a_limit() -> None:
    """A model that never ends is ended, however lively it is."""
    with pytest.raises(StreamStalled, match="total_s"):
        await read(FakeStream([], repeat=text("x")), total_s=0.05)


@pytest.mark.parametrize("event", [text("x" * 40), call("x")], ids=["text", "arguments"])
async def test_an_answer_without_end_is_ended(event: object) -> None:
    """A server that streams on, whatever was asked for, fills neither memory nor disk; asking again would not help."""
    stream = FakeStream([], repeat=event)

    with pytest.raises(ProviderError, match="did not end") as caught:
        await read(stream, max_chars=200)
    assert not caught.value.retryable
    assert stream.closed == 1


async def test_silence_after_the_end_is_no_failure() -> None:
    """An answer that is complete counts, also when the server does not hang up."""
    assert await read(FakeStream([text("a"), END, 60.0])) == [TextDelta("a")]


@pytest.mark.parametrize("error", [ValueError("x"), TimeoutError("the SDK's own")])
async def test_errors_pass_and_the_stream_is_closed(error: Exception) -> None:
    """What the SDK raises is not taken for our limits."""
    stream = FakeStream([text("a"), error])

    with pytest.raises(type(error)):
        await read(stream)
    assert stream.closed == 1


async def test_e31_a_cancelled_read_closes_its_stream() -> None:
    """No connection is left half read."""
    stream = FakeStream([text("a"), 60.0])
    task = asyncio.create_task(read(stream, idle_s=60))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert stream.closed == 1


async def test_e08_one_json_body_is_an_answer() -> None:
    """A server that ignores ``stream`` is understood by its content type."""
    body = b'{"choices":[{"message":{"content":"whole"}}]}'

    assert await read(FakeStream([], body=body)) == [TextDelta("whole")]
