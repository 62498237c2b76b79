"""The Chat Completions adapter: OpenAI itself, and every server that speaks its wire.

Uses the official SDK for authentication, errors and streaming, with its retries, timeouts and reading of the environment turned
off; body bytes are ours (``openai_wire``), because the SDK's own transform walks the whole history again at each request.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nanobot.errors import ProviderError, StreamStalled, Unavailable
from nanobot.messages import Message
from nanobot.providers.adapter import BlindModels, Lazy, kept_elements
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.providers.endpoint import build_http_client, first_token_s, http_timeout, proxy_for
from nanobot.providers.faults import Endpoint, Fault, to_error, unreachable
from nanobot.providers.openai_stream import OpenAIFold, ServerFault, fault_of
from nanobot.providers.openai_wire import (
    DEFAULT_BASE_URL,
    Element,
    dialect_of,
    element_key,
    encode_message,
    prefix_elements,
    request_body,
)
from nanobot.providers.reading import Limits, SdkStream, read_answer
from nanobot.providers.settings import OpenAISettings

if TYPE_CHECKING:
    import openai

_JSON = {"Content-Type": "application/json"}
NO_KEY = "no-key"  # local servers want none, the SDK wants some


@dataclass(frozen=True, slots=True)
class _Sdk:
    client: "openai.AsyncOpenAI"
    stream_class: "type[openai.AsyncStream[object]]"


class OpenAIProvider:
    """An ``LLMProvider`` over one server that speaks Chat Completions.

    Args:
        name: the provider's name in the configuration.
        settings: its settings.
        environ: the environment, for proxies and certificates only.

    Raises:
        ConfigError: the proxy cannot be used.
    """

    def __init__(self, name: str, settings: OpenAISettings, *, environ: Mapping[str, str]) -> None:
        self._name = name
        self._settings = settings
        self._environ = environ
        self._base_url = (settings.base_url or DEFAULT_BASE_URL).rstrip("/")
        self._dialect = dialect_of(settings)
        proxy = settings.proxy.get_secret_value() if settings.proxy else None
        self._proxy = proxy_for(self._base_url, provider=name, configured=proxy, environ=environ)
        key = settings.api_key.get_secret_value() if settings.api_key else ""
        headers = tuple(value.get_secret_value() for value in settings.headers.values())
        self._at = Endpoint(name, self._base_url, "OPENAI_API_KEY", tuple(filter(None, (key, proxy, *headers))))
        self._limits = Limits(
            first_token_s=first_token_s(settings.timeouts, self._base_url),
            idle_s=settings.timeouts.idle_s,
            total_s=settings.timeouts.total_s,
            key=f"providers.{name}.timeouts",
        )
        self._blind = BlindModels()
        self._sdk = Lazy(self._load)

    @property
    def name(self) -> str:
        return self._name

    async def warm(self) -> None:
        """Load the SDK now, so that the first request does not wait for it."""
        await self._sdk.get()

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        try:
            return await self._ask(request, emit)
        except ProviderError as error:
            if not self._blind.learn(error, request):
                raise
        return await self._ask(request, emit)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return prefix_elements(request, await self._elements(request))

    async def close(self) -> None:
        sdk = self._sdk.take()
        if sdk is not None:
            await sdk.client.close()

    async def _ask(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        body = request_body(request, await self._elements(request), self._dialect)
        fold = OpenAIFold(request.tools, tool_choice=request.tool_choice)
        try:
            sdk = await self._sdk.get()

            async def open_stream() -> SdkStream:
                return await sdk.client.post(
                    "/chat/completions",
                    content=body,
                    cast_to=object,
                    stream=True,
                    stream_cls=sdk.stream_class,
                    options={"headers": _JSON},
                )

            await read_answer(open_stream, fold, emit, self._limits)
        except Exception as error:  # the port promises ProviderError alone, whatever SDK and server do
            raise map_error(error, self._at) from error
        for delta in fold.end():
            emit(delta)
        return fold.response(request, provider=self._name, tag=self._dialect.tag)

    async def _elements(self, request: LLMRequest) -> list[Element]:
        dialect, model = self._dialect, request.model
        with_images = model not in self._blind

        def key_of(message: Message) -> object:
            return element_key(message, dialect, model, with_images=with_images)

        return await kept_elements(
            request.messages,
            key_of,
            lambda message, images: encode_message(message, dialect, model, images),
            with_images=with_images,
        )

    def _load(self) -> _Sdk:
        import openai  # lazily: 0.8 s and 52 MB, for those who use it only

        settings = self._settings
        client = openai.AsyncOpenAI(
            api_key=settings.api_key.get_secret_value() if settings.api_key else NO_KEY,
            organization=None,
            project=None,
            base_url=self._base_url,
            timeout=http_timeout(settings.timeouts.connect_s),
            max_retries=0,
            default_headers={name: value.get_secret_value() for name, value in settings.headers.items()},
            http_client=build_http_client(proxy=self._proxy, timeouts=settings.timeouts, environ=self._environ),
        )
        return _Sdk(client, openai.AsyncStream[object])


def map_error(error: Exception, at: Endpoint) -> ProviderError:
    """Return the error of our tree for anything that the SDK, its HTTP client or our fold raised.  Total."""
    import httpx2  # lazily, as in _load; by now it is loaded
    import openai

    if isinstance(error, StreamStalled):
        return StreamStalled(f"{at.provider!r}: {error}", provider=at.provider)
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, ServerFault):
        return to_error(error.fault, at)
    if isinstance(error, openai.APIStatusError):
        text = error.response.text
        fault = fault_of(error.body or text, status=error.status_code)
        return to_error(Fault(fault.text or text, fault.status, fault.kind, error.response.headers), at)
    if isinstance(error, openai.APIConnectionError):
        return unreachable(_cause(error), at)
    if isinstance(error, openai.APIError):
        return to_error(fault_of(error.body or error.message), at)
    if isinstance(error, httpx2.HTTPError | OSError):
        return unreachable(_cause(error), at)
    if isinstance(error, json.JSONDecodeError):
        return Unavailable(f"{at.provider!r} sent something that is no JSON.", provider=at.provider)
    return Unavailable(
        f"{at.provider!r} answered in a way we do not understand ({type(error).__name__}).", provider=at.provider
    )


def _cause(error: BaseException) -> str:
    inner = error.__cause__ or error
    return f"{type(inner).__name__} {inner}".strip()
