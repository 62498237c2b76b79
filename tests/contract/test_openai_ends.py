"""The end of an answer on OpenAI's wire, which comes in two steps: ``[DONE]``, and the end of the body."""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from nanobot.providers.base import LLMProvider
from nanobot.providers.openai import openai_provider
from nanobot.providers.settings import OpenAISettings
from tests.contract.provider_cases import Seen, ask

_EVENTS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@asynccontextmanager
async def serving(*, ends: bool) -> AsyncGenerator[tuple[LLMProvider, list[int]]]:
    """Serve this one answer, whose body ends or not; yield a provider, and how many requests came over each connection."""
    connections: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = len(connections)
        connections.append(0)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                connections[at] += 1
                writer.write(_HEAD + b"%x\r\n%s\r\n" % (len(_EVENTS), _EVENTS) + (b"0\r\n\r\n" if ends else b""))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        closed.release()

    closed = asyncio.Semaphore(0)
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        provider = openai_provider("one", OpenAISettings(base_url=url), environ={})
        try:
            yield provider, connections
        finally:
            await provider.close()
            for _ in connections:
                await closed.acquire()


async def test_nothing_of_a_read_answer_is_left_to_the_garbage_collector() -> None:
    """What read it has ended, so no tasks have to end it later; and the connection is used again."""
    left: list[str] = []
    hooks = sys.get_asyncgen_hooks()

    def finalizer(generator: Any) -> None:  # Any: as Python gives it
        left.append(generator.__qualname__)
        assert hooks.finalizer is not None
        hooks.finalizer(generator)

    async with serving(ends=True) as (provider, connections):
        await provider.stream(ask(), Seen())
        sys.set_asyncgen_hooks(finalizer=finalizer)
        try:
            for _ in range(3):
                assert (await provider.stream(ask(), Seen())).text == "Hello."
            gc.collect()
        finally:
            sys.set_asyncgen_hooks(finalizer=hooks.finalizer)

    assert left == []
    assert connections == [4]


async def test_a_body_that_does_not_end_is_not_waited_for() -> None:
    """The answer is there with ``[DONE]``; its connection is given up."""
    async with serving(ends=False) as (provider, connections):
        begin = time.monotonic()
        texts = [(await provider.stream(ask(), Seen())).text for _ in range(2)]

    assert texts == ["Hello."] * 2
    assert time.monotonic() - begin < 3
    assert connections == [1, 1]
