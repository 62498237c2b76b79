"""What the measurements share: a model server in another process, and a bot whose requests can be sent again without us."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.providers.adapter import RemoteProvider, Sdk, resolve
from nanobot.providers.anthropic import AnthropicWire
from nanobot.providers.base import Emit, LLMProvider, LLMRequest, LLMResponse
from nanobot.providers.openai import OpenAIWire
from nanobot.providers.retry import Retrying
from nanobot.providers.settings import AnthropicSettings, OpenAISettings, RetrySettings

WireName = Literal["anthropic", "openai"]
KEY = "bench:1"


@dataclass(frozen=True, slots=True)
class Cost:
    """What something took, each time, in ms."""

    cpu_ms: float
    wall_ms: float


class Meter:
    """Measures a block: CPU of all our threads, and time on the wall."""

    def __init__(self) -> None:
        self._cpu = process_time()
        self._wall = perf_counter()

    def cost(self, times: int) -> Cost:
        """Return what was spent since the meter was made, per time."""
        return Cost((process_time() - self._cpu) * 1000 / times, (perf_counter() - self._wall) * 1000 / times)


def best(costs: Sequence[Cost]) -> Cost:
    """Return the least of each: what else the machine did is no cost of ours."""
    return Cost(min(cost.cpu_ms for cost in costs), min(cost.wall_ms for cost in costs))


class Recording:
    """An ``LLMProvider`` around one that remembers the requests."""

    def __init__(self, inner: LLMProvider) -> None:
        self._inner = inner
        self.name = inner.name
        self.requests: list[LLMRequest] = []

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        self.requests.append(request)
        return await self._inner.stream(request, emit)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return await self._inner.encoded(request)

    async def close(self) -> None:
        await self._inner.close()


class Instant:
    """An ``LLMProvider`` without a network."""

    name = "instant"

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        return LLMResponse(text="It is what it is.", provider=self.name, model=request.model)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return []

    async def close(self) -> None:
        """Nothing to close."""


class Bare:
    """The floor: the SDK's low-level call with bytes that are ready, its stream read to the end."""

    def __init__(self, wire: AnthropicWire | OpenAIWire) -> None:
        self._wire: Any = wire  # Any: two wires, one shape
        self._sdk: Sdk = wire.load()

    def body(self, request: LLMRequest) -> bytes:
        """Return the bytes that nanobot sent for this request."""
        wire = self._wire
        return wire.body(request, [wire.encode(message, request.model, {}) for message in request.messages])

    async def send(self, body: bytes) -> None:
        """Send them and read the answer."""
        options = {"headers": {"Content-Type": "application/json"}}
        stream = await self._sdk.client.post(
            self._wire.path,
            content=body,
            cast_to=object,
            stream=True,
            stream_cls=self._sdk.stream_class,
            options=options,
        )
        async for _ in stream:
            pass

    async def close(self) -> None:
        await self._sdk.client.close()


@asynccontextmanager
async def model_server() -> AsyncGenerator[str]:
    """Run the strict local model server in another process and yield its address."""
    command = [sys.executable, "-m", "tests.fakes.llm_server", "--port", "0", "--delay-s", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        yield first.split()[-1]
    finally:
        process.terminate()
        await process.wait()


def wire_pair(name: WireName, url: str) -> tuple[Recording, Bare]:
    """Return nanobot's provider for the server, and the bare SDK for the same."""
    if name == "anthropic":
        settings = AnthropicSettings(base_url=url)
        remote = resolve(name, settings, base_url=url, key_variable="", environ={})
        return _pair(AnthropicWire(settings, remote, environ={}), name, remote)
    settings = OpenAISettings(base_url=f"{url}/v1")
    remote = resolve(name, settings, base_url=f"{url}/v1", key_variable="", environ={})
    return _pair(OpenAIWire(settings, remote, environ={}), name, remote)


def _pair(wire: Any, name: str, remote: Any) -> tuple[Recording, Bare]:  # Any: as in Bare
    return Recording(Retrying(RemoteProvider(name, wire, remote.limits), RetrySettings())), Bare(wire)


def bot(folder: Path, provider: LLMProvider, *, sync: str = "turn", concurrency: int = 8) -> Nanobot:
    """Return a bot that lives in this folder and asks this provider; its window holds whatever a benchmark says."""
    settings = Settings.model_validate(
        {
            "workspace": folder / "workspace",
            "data_dir": folder / "data",
            "agent": {"context_window": 100_000_000, "compaction": {"enabled": False}, "concurrency": concurrency},
            "session": {"sync": sync},
        }
    )
    return Nanobot(settings, provider=provider)


async def turns(nanobot: Nanobot, count: int, *, key: str = KEY) -> None:
    """Run Turns one after the other; each must be answered."""
    for index in range(count):
        result = await nanobot.process_direct(f"This is message {index} of the benchmark.", session_key=key)
        assert result.error is None, result.error


async def sends(bare: Bare, bodies: Sequence[bytes]) -> None:
    """Send the requests one after the other."""
    for body in bodies:
        await bare.send(body)
