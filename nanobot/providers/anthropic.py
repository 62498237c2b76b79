"""The Messages adapter: Anthropic itself, and servers that speak its wire.

Uses the official SDK for authentication, errors and streaming, with its retries, timeouts and reading of the environment turned
off; body bytes are ours (``anthropic_wire``), because the SDK's own transform walks the whole history again at each request.
"""

from collections.abc import Mapping, Sequence

from nanobot.errors import ProviderError
from nanobot.messages import Message
from nanobot.providers import anthropic_wire
from nanobot.providers.adapter import Remote, RemoteProvider, Sdk, other_error, resolve
from nanobot.providers.anthropic_stream import AnthropicFold, fault_of
from nanobot.providers.anthropic_wire import Blocks
from nanobot.providers.base import LLMRequest
from nanobot.providers.endpoint import build_http_client, http_timeout
from nanobot.providers.faults import Endpoint, Fault, to_error, unreachable
from nanobot.providers.images import Images
from nanobot.providers.settings import AnthropicSettings


class AnthropicWire:
    """Anthropic's wire, as ``adapter.Wire`` wants it."""

    name = "anthropic"
    path = "/v1/messages"

    def __init__(self, settings: AnthropicSettings, remote: Remote, *, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._remote = remote
        self._environ = environ
        self._dialect = anthropic_wire.dialect_of(settings)

    @property
    def tag(self) -> str:
        return self._dialect.tag

    def depends(self, message: Message) -> bool:
        return anthropic_wire.depends(message, self._dialect)

    def encode(self, message: Message, model: str, images: Images) -> Blocks:
        return anthropic_wire.encode_message(message, self._dialect, model, images)

    def prefix(self, request: LLMRequest, elements: Sequence[Blocks]) -> list[bytes]:
        return anthropic_wire.prefix_elements(request, elements)

    def body(self, request: LLMRequest, elements: Sequence[Blocks]) -> bytes:
        return anthropic_wire.request_body(request, elements, self._dialect)

    def count_request(self, request: LLMRequest, elements: Sequence[Blocks]) -> tuple[str, bytes]:
        return f"{self.path}/count_tokens", anthropic_wire.count_body(request, elements, self._dialect)

    def learns(self, error: ProviderError) -> bool:
        return False

    def new_fold(self, request: LLMRequest) -> AnthropicFold:
        return AnthropicFold()

    def load(self) -> Sdk:
        import anthropic  # lazily: 1.9 s and 78 MB, for those who use it only

        remote, timeouts = self._remote, self._settings.timeouts
        client = anthropic.AsyncAnthropic(
            api_key=remote.api_key,
            base_url=remote.base_url,
            timeout=http_timeout(timeouts.connect_s),
            max_retries=0,
            default_headers=remote.headers,
            http_client=build_http_client(proxy=remote.proxy, timeouts=timeouts, environ=self._environ),
        )
        return Sdk(client, anthropic.AsyncStream[object])

    def map_error(self, error: Exception) -> ProviderError:
        return map_error(error, self._remote.at)


def anthropic_provider(name: str, settings: AnthropicSettings, *, environ: Mapping[str, str]) -> RemoteProvider[Blocks]:
    """Return an ``LLMProvider`` over one server that speaks this wire.

    Args:
        name: the provider's name in the configuration.
        settings: its settings.
        environ: the environment, for proxies and certificates only.

    Raises:
        ConfigError: the proxy cannot be used.
    """
    base_url = (settings.base_url or anthropic_wire.DEFAULT_BASE_URL).rstrip("/").removesuffix("/v1")  # the path has it
    remote = resolve(name, settings, base_url=base_url, key_variable="ANTHROPIC_API_KEY", environ=environ)
    return RemoteProvider(name, AnthropicWire(settings, remote, environ=environ), remote.limits)


def map_error(error: Exception, at: Endpoint) -> ProviderError:
    """Return the error of our tree for anything that the SDK, its HTTP client or our fold raised.  Total."""
    import anthropic  # lazily, as in ``load``; by now it is loaded

    if isinstance(error, anthropic.APIStatusError):
        # An error event inside a stream comes with the stream's own status: only its type counts then.
        status = error.status_code if error.status_code != 200 else None
        fault = fault_of(error.body, status=status)
        return to_error(Fault(fault.text or str(error.message), status, fault.kind, error.response.headers), at)
    if isinstance(error, anthropic.APIConnectionError):
        return unreachable(error, at)
    if isinstance(error, anthropic.APIError):
        return to_error(fault_of(error.body or error.message), at)
    return other_error(error, at)
