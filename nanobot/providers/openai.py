"""The Chat Completions adapter: OpenAI itself, and every server that speaks its wire.

Uses the official SDK for authentication, errors and streaming, with its retries, timeouts and reading of the environment turned
off; body bytes are ours (``openai_wire``), because the SDK's own transform walks the whole history again at each request.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nanobot.errors import ProviderError
from nanobot.messages import Message
from nanobot.providers import openai_wire
from nanobot.providers.adapter import Remote, RemoteProvider, Sdk, other_error, resolve
from nanobot.providers.base import LLMRequest
from nanobot.providers.endpoint import build_http_client, http_timeout
from nanobot.providers.faults import Endpoint, Fault, to_error, unreachable, wants_reasoning
from nanobot.providers.images import Images
from nanobot.providers.openai_stream import OpenAIFold, fault_of
from nanobot.providers.openai_wire import Element
from nanobot.providers.settings import OpenAISettings

_AFTER_DONE_S = 0.1  # for the end of the body, without which the connection cannot be used again


class OpenAIWire:
    """OpenAI's wire, as ``adapter.Wire`` wants it."""

    name = "openai"
    path = "/chat/completions"

    def __init__(self, settings: OpenAISettings, remote: Remote, *, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._remote = remote
        self._environ = environ
        self._dialect = openai_wire.dialect_of(settings)
        self._pads = False  # this server wants reasoning with every answer, also with those of other models

    @property
    def tag(self) -> str:
        return self._dialect.tag

    def depends(self, message: Message) -> bool:
        return openai_wire.depends(message, self._dialect)

    def encode(self, message: Message, model: str, images: Images) -> Element:
        return openai_wire.encode_message(message, self._dialect, model, images)

    def prefix(self, request: LLMRequest, elements: Sequence[Element]) -> list[bytes]:
        return openai_wire.prefix_elements(request, self._padded(elements))

    def body(self, request: LLMRequest, elements: Sequence[Element]) -> bytes:
        return openai_wire.request_body(request, self._padded(elements), self._dialect)

    def _padded(self, elements: Sequence[Element]) -> Sequence[Element]:
        return openai_wire.padded(elements) if self._pads else elements

    def count_request(self, request: LLMRequest, elements: Sequence[Element]) -> None:
        """Say that this wire has no question for it."""

    def learns(self, error: ProviderError) -> bool:
        if self._pads or not wants_reasoning(error):
            return False
        self._pads = True
        return True

    def new_fold(self, request: LLMRequest) -> OpenAIFold:
        return OpenAIFold(request.tools, tool_choice=request.tool_choice)

    def load(self) -> Sdk:
        import openai  # lazily: 0.8 s and 52 MB, for those who use it only

        remote, timeouts = self._remote, self._settings.timeouts
        client = openai.AsyncOpenAI(
            api_key=remote.api_key,
            base_url=remote.base_url,
            timeout=http_timeout(timeouts.connect_s),
            max_retries=0,
            default_headers=remote.headers,
            http_client=build_http_client(proxy=remote.proxy, timeouts=timeouts, environ=self._environ),
        )
        client.organization = client.project = None  # it took them from the environment
        return Sdk(client, _read_to_the_end(openai.AsyncStream[object], openai.APIError))

    def map_error(self, error: Exception) -> ProviderError:
        return map_error(error, self._remote.at)


def _read_to_the_end(stream: Any, failed: type[Exception]) -> Any:  # Any: the SDK's class, and one like it
    """Return the SDK's stream, but one that reads on after ``[DONE]``.

    The SDK stops there, and four generators that have yet to end are left to the garbage collector and to tasks of their own, for a
    fifth of a request's CPU.  Where the SDK no longer asks ``_iter_events``, it is as it was.
    """

    class ReadToTheEnd(stream):
        def _iter_events(self) -> AsyncGenerator[Any]:
            return _to_the_end(stream._iter_events(self), failed)  # the SDK's own

    return ReadToTheEnd


async def _to_the_end(events: AsyncGenerator[Any], failed: type[Exception]) -> AsyncGenerator[Any]:  # Any: as above
    async for event in events:
        if event.data.startswith("[DONE]"):
            with suppress(TimeoutError, failed):  # what comes after the end changes nothing
                async with asyncio.timeout(_AFTER_DONE_S):
                    async for _ in events:
                        pass
            return
        yield event


def openai_provider(name: str, settings: OpenAISettings, *, environ: Mapping[str, str]) -> RemoteProvider[Element]:
    """Return an ``LLMProvider`` over one server that speaks this wire.

    Args:
        name: the provider's name in the configuration.
        settings: its settings.
        environ: the environment, for proxies and certificates only.

    Raises:
        ConfigError: the proxy cannot be used.
    """
    base_url = (settings.base_url or openai_wire.DEFAULT_BASE_URL).rstrip("/")
    remote = resolve(name, settings, base_url=base_url, key_variable="OPENAI_API_KEY", environ=environ)
    return RemoteProvider(name, OpenAIWire(settings, remote, environ=environ), remote.limits)


def map_error(error: Exception, at: Endpoint) -> ProviderError:
    """Return the error of our tree for anything that the SDK, its HTTP client or our fold raised.  Total."""
    import openai  # lazily, as in ``load``; by now it is loaded

    if isinstance(error, openai.APIStatusError):
        text = error.response.text
        fault = fault_of(error.body or text, status=error.status_code)
        return to_error(Fault(fault.text or text, fault.status, fault.kind, error.response.headers), at)
    if isinstance(error, openai.APIConnectionError):
        return unreachable(error, at)
    if isinstance(error, openai.APIError):
        return to_error(fault_of(error.body or error.message), at)
    return other_error(error, at)
