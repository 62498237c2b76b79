"""A provider that answers from a script and remembers what it was asked.

Each request takes the next step: an ``LLMResponse`` to give, a ``ProviderError`` to raise, or a function of request and emit (plain
or async) that returns a response, may emit, sleep or raise.  A request after the last step is the test's mistake and says so.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from inspect import isawaitable
from typing import TypeAlias

from nanobot.bus.runtime_events import ReasoningDelta, TextDelta, Usage
from nanobot.errors import ProviderError
from nanobot.messages import JsonObject, as_dict
from nanobot.providers.base import Emit, LLMRequest, LLMResponse, ToolCallRequest

Step: TypeAlias = (
    LLMResponse
    | ProviderError
    | Callable[[LLMRequest, Emit], LLMResponse]
    | Callable[[LLMRequest, Emit], Awaitable[LLMResponse]]
)


def says(text: str, *, usage: Usage | None = None) -> LLMResponse:
    """Return a final answer."""
    return LLMResponse(text=text, usage=usage or Usage(input_tokens=10, output_tokens=5))


def calls(*wanted: tuple[str, JsonObject | str], text: str = "") -> LLMResponse:
    """Return an answer that asks for tools, each given as (name, arguments)."""
    requests = tuple(ToolCallRequest(name, arguments) for name, arguments in wanted)
    return LLMResponse(
        text=text, tool_calls=requests, finish="tool_calls", usage=Usage(input_tokens=10, output_tokens=5)
    )


class ScriptedProvider:
    """An ``LLMProvider`` over a script; ``requests`` holds what it was asked, ``closed`` whether it was closed."""

    def __init__(self, steps: Iterable[Step] = (), *, name: str = "scripted") -> None:
        self._name = name
        self._steps = list(steps)
        self.requests: list[LLMRequest] = []
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    def queue(self, *steps: Step) -> None:
        """Add steps to the end of the script."""
        self._steps.extend(steps)

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        self.requests.append(request)
        assert self._steps, f"request {len(self.requests)} came after the script's last step: {request.messages[-1:]!r}"
        step = self._steps.pop(0)
        await asyncio.sleep(0)
        if isinstance(step, ProviderError):
            raise step
        if not isinstance(step, LLMResponse):
            made = step(request, emit)
            response = await made if isawaitable(made) else made
            return self._signed(response, request)
        if step.reasoning:
            emit(ReasoningDelta(step.reasoning))
        for piece in (step.text[: len(step.text) // 2], step.text[len(step.text) // 2 :]):
            if piece:
                emit(TextDelta(piece))
                await asyncio.sleep(0)
        return self._signed(step, request)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        rows: list[object] = [
            [[tool.name, tool.description, tool.parameters] for tool in request.tools],
            request.system,
            *(as_dict(message) for message in request.messages),
        ]
        return [json.dumps(row).encode() for row in rows]

    async def close(self) -> None:
        self.closed = True

    def _signed(self, response: LLMResponse, request: LLMRequest) -> LLMResponse:
        return replace(response, model=response.model or request.model, provider=response.provider or self._name)
