"""The network half that both wires share: one provider over a ``Wire``.

A ``Wire`` is what differs: how a message is encoded, what a body looks like, how a stream folds, how the SDK is made and how its
errors are ours.  The provider around it keeps encodings, loads images and the SDK off the event loop, and reads within limits.  It
sends what it is given: leaving something out is the runner's decision, which the log must know of.

The SDKs are slow to import (up to two seconds), so they are loaded in a thread at the first request, or before it by ``warm``.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from nanobot.errors import ProviderError, StreamStalled, Unavailable
from nanobot.messages import Message, images_of
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.providers.endpoint import first_token_s, proxy_for
from nanobot.providers.faults import Endpoint, ServerFault, to_error, unreachable
from nanobot.providers.images import Images, load_image
from nanobot.providers.reading import Fold, Limits, SdkStream, most_chars, read_answer
from nanobot.providers.settings import RemoteSettings
from nanobot.providers.wire import as_object
from nanobot.redaction import parts_of
from nanobot.values import frozen

log = logging.getLogger(__name__)

_COUNT_S = 10.0  # a count that takes longer is not worth waiting for
_JSON = {"Content-Type": "application/json"}
NO_KEY = "no-key"  # local servers want none, the SDKs want some

E = TypeVar("E")
S = TypeVar("S")


class SdkClient(Protocol):
    """The part of both SDKs' clients used here."""

    async def post(
        self, path: str, *, cast_to: Any, content: bytes, stream: bool, stream_cls: Any, options: Any
    ) -> Any: ...  # Any: the SDKs' own types, which must not be imported here
    async def close(self) -> None: ...


@frozen
class Sdk:
    """An SDK, loaded: its client and its class of streams."""

    client: SdkClient
    stream_class: Any  # as above


class WireFold(Fold, Protocol):
    """A fold that ends in a response."""

    def end(self) -> Sequence[Any]: ...
    def response(self, request: LLMRequest, *, provider: str, tag: str) -> LLMResponse: ...


class Wire(Protocol[E]):
    """What differs between the wires.  All pure, but for ``load``."""

    @property
    def name(self) -> str:
        """The wire's name, under which encodings are kept."""
        ...

    @property
    def path(self) -> str:
        """Where requests are posted, below the base address."""
        ...

    @property
    def tag(self) -> str:
        """The vendor's name in what it wants back (``ProviderExtra.provider``)."""
        ...

    def depends(self, message: Message) -> bool:
        """Whether a message's encoding depends on more than the wire: the server, the model."""
        ...

    def encode(self, message: Message, model: str, images: Images) -> E: ...
    def prefix(self, request: LLMRequest, elements: Sequence[E]) -> list[bytes]: ...
    def body(self, request: LLMRequest, elements: Sequence[E]) -> bytes: ...
    def count_request(self, request: LLMRequest, elements: Sequence[E]) -> tuple[str, bytes] | None:
        """Return the path and body that ask how long a request is; None where that cannot be asked."""
        ...

    def learns(self, error: ProviderError) -> bool:
        """Learn from a refusal how this server wants its requests; say whether the same request would be another one now."""
        ...

    def new_fold(self, request: LLMRequest) -> WireFold: ...
    def load(self) -> Sdk:
        """Import the SDK and make its client.  Slow: runs in a thread."""
        ...

    def map_error(self, error: Exception) -> ProviderError: ...


@frozen
class Remote:
    """A configured server, resolved: its address, the way to it, and what its errors may say."""

    base_url: str
    api_key: str
    proxy: str | None
    headers: Mapping[str, str]
    at: Endpoint
    limits: Limits


def resolve(
    name: str, settings: RemoteSettings, *, base_url: str, key_variable: str, environ: Mapping[str, str]
) -> Remote:
    """Return where and how a server is reached.

    Raises:
        ConfigError: the proxy cannot be used.
    """
    configured = settings.proxy.get_secret_value() if settings.proxy else None
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    headers = {header: value.get_secret_value() for header, value in settings.headers.items()}
    whole = filter(None, (key, configured, *headers.values()))
    secrets = tuple(part for secret in whole for part in parts_of(secret))
    return Remote(
        base_url=base_url,
        api_key=key or NO_KEY,
        proxy=proxy_for(base_url, provider=name, configured=configured, environ=environ),
        headers=headers,
        at=Endpoint(name, base_url, key_variable, secrets),
        limits=Limits(
            first_token_s=first_token_s(settings.timeouts, base_url),
            idle_s=settings.timeouts.idle_s,
            total_s=settings.timeouts.total_s,
            key=f"providers.{name}.timeouts",
        ),
    )


class RemoteProvider(Generic[E]):
    """An ``LLMProvider`` over one server, by its wire."""

    def __init__(self, name: str, wire: Wire[E], limits: Limits) -> None:
        self._name = name
        self._wire = wire
        self._limits = limits
        self._sdk = Lazy(wire.load)

    @property
    def name(self) -> str:
        return self._name

    async def warm(self) -> None:
        """Load the SDK now, so that the first request does not wait for it."""
        await self._sdk.get()

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        try:
            return await self._stream(request, emit)
        except ProviderError as error:
            if not self._wire.learns(error):
                raise
        return await self._stream(request, emit)

    async def _stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        wire = self._wire
        body = wire.body(request, await self._elements(request))
        fold = wire.new_fold(request)
        try:
            sdk = await self._sdk.get()

            async def open_stream() -> SdkStream:
                return await sdk.client.post(
                    wire.path,
                    content=body,
                    cast_to=object,
                    stream=True,
                    stream_cls=sdk.stream_class,
                    options={"headers": _JSON},
                )

            await read_answer(open_stream, fold, emit, self._limits, max_chars=most_chars(request.max_tokens))
        except Exception as error:  # the port promises ProviderError alone, whatever SDK and server do
            raise wire.map_error(error) from error
        for delta in fold.end():
            emit(delta)
        return fold.response(request, provider=self._name, tag=wire.tag)

    async def count_tokens(self, request: LLMRequest) -> int | None:
        """See ``CountsTokens``: None on a wire that cannot count, and when the server does not answer soon."""
        question = self._wire.count_request(request, await self._elements(request))
        if question is None:
            return None
        path, body = question
        try:
            async with asyncio.timeout(_COUNT_S):
                sdk = await self._sdk.get()
                answer = await sdk.client.post(
                    path, content=body, cast_to=object, stream=False, stream_cls=None, options={"headers": _JSON}
                )
        except Exception as error:  # noqa: BLE001  # a count is a courtesy: without it the estimate counts
            log.debug("%s did not count a request: %s", self._name, type(error).__name__)
            return None
        tokens = as_object(answer).get("input_tokens")
        return tokens if isinstance(tokens, int) else None

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return self._wire.prefix(request, await self._elements(request))

    async def close(self) -> None:
        sdk = self._sdk.take()
        if sdk is not None:
            await sdk.client.close()

    async def _elements(self, request: LLMRequest) -> list[E]:
        """Return each message's encoding, made now for those that have none yet.

        An encoding that depends on the wire alone is kept under its name, the others under all they depend on.
        """
        plain = self._wire.name
        kept: list[E | None] = [message.encoded.get(plain) for message in request.messages]  # most were encoded before
        return [
            await self._element(message, request.model) if element is None else element
            for message, element in zip(request.messages, kept, strict=True)
        ]

    async def _element(self, message: Message, model: str) -> E:
        wire = self._wire
        key = (wire.tag, model) if wire.depends(message) else wire.name
        element: E | None = message.encoded.get(key)
        if element is None:
            element = message.encoded[key] = wire.encode(message, model, await _images_of(message))
        return element


class Lazy(Generic[S]):
    """A value made once, in a thread, when it is first wanted."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = asyncio.Lock()
        self._value: S | None = None

    async def get(self) -> S:
        """Return the value; make it if this is the first call."""
        if self._value is None:
            async with self._lock:
                if self._value is None:
                    self._value = await asyncio.to_thread(self._make)
        return self._value

    def take(self) -> S | None:
        """Return the value if there is one, and forget it."""
        value, self._value = self._value, None
        return value


def other_error(error: Exception, at: Endpoint) -> ProviderError:
    """Return the error of our tree for anything but an SDK's own errors: from our fold, the HTTP client, or nobody knows where."""
    import httpx2  # lazily: only a wire that has loaded it comes here

    if isinstance(error, StreamStalled):
        return StreamStalled(f"{at.provider!r}: {error}", provider=at.provider)
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, ServerFault):
        return to_error(error.fault, at)
    if isinstance(error, httpx2.HTTPError | OSError):
        return unreachable(error, at)
    if isinstance(error, json.JSONDecodeError):
        return Unavailable(f"{at.provider!r} sent something that is no JSON.", provider=at.provider)
    return Unavailable(
        f"{at.provider!r} answered in a way we do not understand ({type(error).__name__}).", provider=at.provider
    )


async def _images_of(message: Message) -> Images:
    return {part: await asyncio.to_thread(load_image, part) for part in images_of(message)}
