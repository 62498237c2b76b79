"""The floors: the requests that nanobot sent, sent again by the bare SDK (``sdk``) or by its HTTP client alone (``http``).

``paused`` is the SDK again, but each request waits for 2 ms first, as one waits that comes after a look at a disk: what was hot in
the processor's caches is not any more, and the same code takes more CPU.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any

from bench.contestants.driver import Job, Turn, load, main


@asynccontextmanager
async def sdk(job: Job, pause_s: float = 0.0) -> AsyncGenerator[Turn]:
    """Yield the low-level ``post`` of the wire's SDK."""
    module: Any = import_module(job.wire)  # Any: two SDKs, one shape
    make = module.AsyncAnthropic if job.wire == "anthropic" else module.AsyncOpenAI
    base, path = (job.url, "/v1/messages") if job.wire == "anthropic" else (f"{job.url}/v1", "/chat/completions")
    bodies = cycle(_bodies(job))
    async with make(api_key="k", base_url=base, max_retries=0) as client:

        async def turn(key: str, text: str) -> None:
            for body in next(bodies):
                if pause_s:
                    await asyncio.sleep(pause_s)  # what it does to the processor is the figure
                stream = await client.post(
                    path,
                    content=body,
                    cast_to=object,
                    stream=True,
                    stream_cls=module.AsyncStream[object],
                    options={"headers": {"Content-Type": "application/json"}},
                )
                async for _ in stream:
                    pass

        yield turn


@asynccontextmanager
async def http(job: Job) -> AsyncGenerator[Turn]:
    """Yield a POST, read to its end."""
    client_module: Any = import_module("httpx2")  # Any: loaded here alone
    path = "/v1/messages" if job.wire == "anthropic" else "/v1/chat/completions"
    bodies = cycle(_bodies(job))
    async with client_module.AsyncClient(trust_env=False) as client:

        async def turn(key: str, text: str) -> None:
            for body in next(bodies):
                async with client.stream("POST", job.url + path, content=body) as response:
                    async for _ in response.aiter_raw():
                        pass

        yield turn


def _bodies(job: Job) -> list[list[bytes]]:
    """Return the requests of each Turn."""
    bodies = load(job.bodies)
    return [bodies[at : at + job.requests] for at in range(0, len(bodies), job.requests)]


if __name__ == "__main__":
    chosen = {"sdk": sdk, "http": http, "paused": partial(sdk, pause_s=0.002)}[sys.argv.pop(1)]
    main(chosen)
