"""The implementations of ``LLMProvider`` that the contract runs on, and what it asks them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from nanobot.bus.runtime_events import ModelEvent, ReasoningDelta, TextDelta, TextReset
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, user_text
from nanobot.providers.anthropic import anthropic_provider
from nanobot.providers.base import LLMProvider, LLMRequest, LLMResponse, ToolSpec
from nanobot.providers.fallback import Fallback
from nanobot.providers.openai import openai_provider
from nanobot.providers.retry import Retrying
from nanobot.providers.settings import AnthropicSettings, OpenAISettings, RetrySettings, TimeoutSettings
from tests.fakes.llm_server import LLMServer, Reply

MODEL = "test-model"
EXEC = ToolSpec(
    "exec", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
)
READ = ToolSpec("read_file", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = (EXEC, READ)
QUICK = TimeoutSettings(connect_s=2, first_token_s=0.25, idle_s=0.15, total_s=5)
PATIENT = TimeoutSettings(connect_s=5, first_token_s=10, idle_s=10, total_s=20)


@dataclass
class Seen:
    """An ``emit`` that keeps what it was told."""

    events: list[ModelEvent] = field(default_factory=list[ModelEvent])

    def __call__(self, event: ModelEvent) -> None:
        self.events.append(event)

    @property
    def text(self) -> str:
        """The text as a person sees it in the end."""
        text = ""
        for event in self.events:
            if isinstance(event, TextReset):
                text = ""
            elif isinstance(event, TextDelta):
                text += event.text
        return text

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))


def openai_at(server: LLMServer, timeouts: TimeoutSettings = PATIENT, **more: object) -> LLMProvider:
    settings = OpenAISettings.model_validate(
        {"base_url": f"{server.url}/v1", "api_key": "sk-test-key", "timeouts": timeouts, **more}
    )
    return openai_provider("one", settings, environ={})


def anthropic_at(server: LLMServer, timeouts: TimeoutSettings = PATIENT, **more: object) -> LLMProvider:
    settings = AnthropicSettings.model_validate(
        {"base_url": server.url, "api_key": "sk-test-key", "timeouts": timeouts, **more}
    )
    return anthropic_provider("one", settings, environ={})


async def no_sleep(_delay_s: float) -> None:
    """Take no time."""


def _retrying(server: LLMServer, timeouts: TimeoutSettings = PATIENT) -> LLMProvider:
    return Retrying(openai_at(server, timeouts), RetrySettings(attempts=1), sleep=no_sleep)


def _fallback(server: LLMServer, timeouts: TimeoutSettings = PATIENT) -> LLMProvider:
    return Fallback([(anthropic_at(server, timeouts), MODEL)])


WIRES: dict[str, Callable[..., LLMProvider]] = {"openai": openai_at, "anthropic": anthropic_at}
ALL: dict[str, Callable[..., LLMProvider]] = {**WIRES, "retrying": _retrying, "fallback": _fallback}


@asynccontextmanager
async def serving(
    make: Callable[..., LLMProvider], *replies: Reply, timeouts: TimeoutSettings = PATIENT
) -> AsyncGenerator[tuple[LLMServer, LLMProvider]]:
    """Give a strict server with a script, and a provider that asks it."""
    async with LLMServer(replies, strict_roles=True) as server:
        provider = make(server, timeouts)
        try:
            yield server, provider
        finally:
            await provider.close()


def ask(*messages: Message, **more: Any) -> LLMRequest:
    """Return a request with a system prompt and tools; ``more`` are other fields of it."""
    request = LLMRequest(model=MODEL, system="Be brief.", messages=messages or (user_text("hi"),), tools=TOOLS)
    return replace(request, **more)


def follow(request: LLMRequest, response: LLMResponse, entry: str, *results: str) -> LLMRequest:
    """Return the request after this one: the answer, then its calls' results or "go on"."""
    number = int(entry[1:])
    calls = tuple(ToolCall(f"{entry}.{i}", call.name, call.arguments) for i, call in enumerate(response.tool_calls))
    answer = AssistantMessage(response.text, calls, response.extra, entry=entry)
    after: list[Message] = [
        ToolMessage(call.id, call.name, results[i] if i < len(results) else f"result {i}", entry=f"e{number + 1 + i}")
        for i, call in enumerate(calls)
    ]
    if not calls:
        after.append(user_text("go on", entry=f"e{number + 1}"))
    return replace(request, messages=(*request.messages, answer, *after))
