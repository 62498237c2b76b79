"""What a model is to us: one streaming call over plain values.

``LLMProvider.stream`` takes an ``LLMRequest``, tells ``emit`` what arrives while it arrives, and returns the whole answer as an
``LLMResponse``.  It raises ``ProviderError`` and nothing else (but cancellation), and never returns an error as text.  Retrying,
falling back and measuring are providers around providers.

Legality is the caller's job (``nanobot.agent.passes``), encoding is the adapter's: it maps call ids, merges neighbouring roles
where its wire wants that, and encodes each message alone, so that request *n* is an element-wise prefix of request *n + 1*.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from nanobot.bus.runtime_events import ModelEvent, Usage
from nanobot.messages import JsonObject, Message, ProviderExtra
from nanobot.values import frozen

Emit: TypeAlias = Callable[[ModelEvent], None]
Finish = Literal["stop", "tool_calls", "length", "refusal"]
ToolChoice = Literal["auto", "none"]


@frozen
class ToolSpec:
    """A tool as the model sees it.  ``parameters`` is a JSON schema of type object; it is never changed after.

    ``source`` names what brought the tool and may bring others while we run, such as ``mcp github``; empty: it is part of us.  No
    model sees it.
    """

    name: str
    description: str
    parameters: JsonObject
    source: str = ""
    encoded: dict[Any, Any] = field(default_factory=dict[Any, Any], init=False, compare=False, repr=False)


@frozen(kw_only=True)
class LLMRequest:
    """One request: what the model sees, and how much it may say.

    ``tool_choice="none"`` forbids calls while the tools stay in the prompt, so that its prefix stays the same.
    ``cache_key`` names the conversation for providers that route by it.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 8_192
    tool_choice: ToolChoice = "auto"
    temperature: float | None = None
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    cache_key: str = ""


@frozen
class ToolCallRequest:
    """A call as the model asked for it, in its order.  ``arguments`` is the parsed object, or the text that was no object."""

    name: str
    arguments: JsonObject | str


@frozen(kw_only=True)
class LLMResponse:
    """One normalized answer.

    ``finish`` is ``tool_calls`` exactly when there are calls and the model was not cut off; ``length`` when the room for the answer
    ran out; ``refusal`` when a safety system stopped it.  ``usage`` is None when the provider did not say.  ``model`` and
    ``provider`` name who really answered.  ``text`` holds no reasoning and no NULs or lone surrogates.
    """

    text: str = ""
    tool_calls: tuple[ToolCallRequest, ...] = ()
    finish: Finish = "stop"
    usage: Usage | None = None
    extra: ProviderExtra | None = None
    reasoning: str = ""
    model: str = ""
    provider: str = ""


class LLMProvider(Protocol):
    """Anything that answers an ``LLMRequest``."""

    @property
    def name(self) -> str:
        """The configured name, for messages to people."""
        ...

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        """Ask once; call ``emit`` for each delta as it arrives; return the whole answer.

        Raises:
            ProviderError: whatever went wrong, mapped.  After an error, text already emitted is void: whoever asks again emits
                ``TextReset`` first.
        """
        ...

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        """Return the request's prefix elements as this wire encodes them: tools, system, then each message, without cache marks.

        Exactly what ``stream`` sends: for tests of prefix stability, and for ``nanobot inspect``.
        """
        ...

    async def close(self) -> None:
        """Close connections.  Calling it twice is harmless."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A provider that can be asked how long a request is, which costs a round trip."""

    async def count_tokens(self, request: LLMRequest) -> int | None:
        """Return the tokens of the prompt as the provider counts them; None if it does not say now.  Raises nothing."""
        ...


async def counted_tokens(provider: LLMProvider, request: LLMRequest) -> int | None:
    """Ask a provider how long a request is; None from one that does not count."""
    return await provider.count_tokens(request) if isinstance(provider, CountsTokens) else None
