"""What a configuration can say about model providers.

``config`` joins this as ``providers: dict[str, ProviderSettings]``; a model is named ``<provider name>/<model id>``.
"""

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, SecretStr

from nanobot.addresses import checked_url

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SENDABLE = re.compile(r"[\t\x20-\x7e]*")  # the rest breaks a header, or the client that encodes it


def _key(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x20-\x7e]*", value.get_secret_value()):
        raise ValueError("it holds a character that no key has, such as a line break or an accent; copy it anew")
    return value


def _header_name(value: str) -> str:
    if not _HEADER_NAME.fullmatch(value):
        raise ValueError("a header's name is made of letters, digits and '-' only")
    return value


def _header_value(value: SecretStr) -> SecretStr:
    if not _SENDABLE.fullmatch(value.get_secret_value()):
        raise ValueError("it holds a character that no header has, such as a line break or an accent")
    return value


Url: TypeAlias = Annotated[str, AfterValidator(checked_url)]
Key: TypeAlias = Annotated[SecretStr, AfterValidator(_key)]
HeaderName: TypeAlias = Annotated[str, AfterValidator(_header_name)]
HeaderValue: TypeAlias = Annotated[SecretStr, AfterValidator(_header_value)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TimeoutSettings(_Settings):
    """How long to wait for a model, in seconds.

    Args:
        connect_s: for the connection.
        first_token_s: for the first piece of an answer; unset means 120, or 600 for a server on this machine or a private network,
            which may have to load its model first.
        idle_s: between two pieces of an answer; keep-alives do not count.
        total_s: for the whole answer.
    """

    connect_s: Seconds = 10.0
    first_token_s: Seconds | None = None
    idle_s: Seconds = 60.0
    total_s: Seconds = 900.0


class RetrySettings(_Settings):
    """How often and how patiently a failed model call is tried again.

    ``attempts`` counts the first try.  ``cap_s`` is also the longest wait a server may ask for: if it wants more, we give up
    at once.
    """

    attempts: int = Field(default=4, ge=1, le=20)
    base_s: Seconds = 1.0
    cap_s: Seconds = 60.0


class _RemoteSettings(_Settings):
    api_key: Key | None = None
    base_url: Url | None = None
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    proxy: SecretStr | None = None
    timeouts: TimeoutSettings = TimeoutSettings()
    max_tokens: int | None = Field(default=None, gt=0)  # longest answer; unset: the agent's own setting
    context_window: int | None = Field(default=None, gt=0)  # of this provider's models, when ours would be a guess
    extra_body: dict[str, JsonValue] = Field(default_factory=dict)  # put over the request's; null takes one away


class AnthropicSettings(_RemoteSettings):
    """A server that speaks Anthropic's Messages API."""

    type: Literal["anthropic"] = "anthropic"
    prompt_caching: bool = True


class OpenAISettings(_RemoteSettings):
    """A server that speaks OpenAI's Chat Completions API: OpenAI itself, or one of the many compatible ones."""

    type: Literal["openai"] = "openai"
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None  # unset: chosen by host
    send_reasoning: bool = True  # give a model its own earlier reasoning back


class OfflineSettings(_Settings):
    """The provider inside: no network, no model, a few fixed phrases."""

    type: Literal["offline"] = "offline"


ProviderSettings: TypeAlias = Annotated[
    AnthropicSettings | OpenAISettings | OfflineSettings, Field(discriminator="type")
]
RemoteSettings: TypeAlias = AnthropicSettings | OpenAISettings
