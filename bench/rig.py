"""What the measurements share: a model server in another process, and a bot whose requests can be sent again without us."""

from pathlib import Path
from typing import Any, Literal

from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.providers.adapter import Sdk
from nanobot.providers.anthropic import AnthropicWire
from nanobot.providers.base import Emit, LLMProvider, LLMRequest, LLMResponse
from nanobot.providers.openai import OpenAIWire

WireName = Literal["anthropic", "openai"]
KEY = "bench:1"


class Recording:
    """An ``LLMProvider`` around one that remembers the requests, if it shall."""

    def __init__(self, inner: LLMProvider, *, keep: bool = True) -> None:
        self._inner = inner
        self._keep = keep
        self.name = inner.name
        self.requests: list[LLMRequest] = []

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        if self._keep:
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
