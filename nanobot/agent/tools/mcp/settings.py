"""What a configuration says of MCP servers."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from nanobot.agent.tools.mcp.names import label_of
from nanobot.providers.settings import HeaderName, HeaderValue, Seconds, Url
from nanobot.session.entries import Effect

SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|PRIVATE|DSN|CONNECTION_?STRING", re.IGNORECASE
)
"""A name whose value is a secret."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
_RESERVED = ("read", "list", "get")  # of mcp_read_resource and the like
_URL_SECRET_CHARS = 12

Transport = Literal["stdio", "http", "sse"]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class OAuthSettings(BaseModel):
    """How we log in where a server wants OAuth; ``nanobot mcp login NAME`` does it once.

    Without ``client_id`` we register ourselves, as most servers allow.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    client_id: str | None = Field(default=None, min_length=1)
    client_secret: SecretStr | None = None
    scope: str | None = Field(default=None, min_length=1)
    callback_port: int = Field(
        default=8765, ge=1024, le=65_535, description="of 127.0.0.1, where the browser comes back"
    )


class McpServerSettings(BaseModel):
    """One server: a ``command`` to run, or a ``url`` to call."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    command: str | None = Field(default=None, min_length=1, description="the program; found along PATH")
    args: tuple[str, ...] = ()
    env: dict[EnvName, SecretStr] = Field(default_factory=dict)
    cwd: Path | None = Field(
        default=None, description="where it runs; a directory of its own in the data directory when null"
    )
    url: Url | None = None
    transport: Literal["http", "sse"] = Field(default="http", description="of a url")
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    oauth: OAuthSettings | None = None
    tools: tuple[str, ...] = Field(default=("*",), description="names or patterns of tools to offer")
    effect: Effect | dict[str, Effect] = Field(
        default="opaque", description="what its calls do: pure, idempotent or opaque; or by name or pattern of a tool"
    )
    timeout_s: Seconds = Field(default=60.0, le=3600, description="for one call")
    start_timeout_s: Seconds = Field(default=30.0, le=600, description="until it has said what it offers")
    max_result_chars: int | None = Field(default=None, ge=200, description="agent.max_tool_result_chars when null")

    @field_validator("effect")
    @classmethod
    def _can_be_known(cls, value: Effect | dict[str, Effect]) -> Effect | dict[str, Effect]:
        if "verifiable" in (value.values() if isinstance(value, dict) else (value,)):
            raise ValueError("what a server did cannot be verified; write pure, idempotent or opaque")
        return value

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give a command to run or a url to call, and not both")
        if self.url is None and (self.headers or self.oauth):
            raise ValueError("headers and oauth belong to a url; a command gets its secrets by env")
        if self.url is not None and (self.args or self.env or self.cwd):
            raise ValueError("args, env and cwd belong to a command")
        return self

    @property
    def kind(self) -> Transport:
        """How it is talked to."""
        return "stdio" if self.url is None else self.transport

    def offers(self, tool: str) -> bool:
        """Whether the allow-list lets this tool in."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def effect_of(self, tool: str) -> Effect:
        """Return the effect class of a tool: by its exact name, else by the first pattern."""
        if not isinstance(self.effect, dict):
            return self.effect
        if tool in self.effect:
            return self.effect[tool]
        for pattern, effect in self.effect.items():
            if fnmatchcase(tool, pattern):
                return effect
        return "opaque"

    def secrets(self) -> Iterator[str]:
        """Yield the values that must never show.

        Not every variable is one: what ``NODE_ENV`` says must not vanish from all texts.  So a name decides.
        """
        yield from _named(self.env)
        for name, value in self.headers.items():
            if SECRET_NAME.search(name):
                yield value.get_secret_value()
                yield value.get_secret_value().rpartition(" ")[2]  # without "Bearer"
        if self.oauth and self.oauth.client_secret:
            yield self.oauth.client_secret.get_secret_value()
        yield from _in_arguments(self.args)
        yield from _in_url(self.url or "")


class McpSettings(BaseModel):
    """All servers, and how long a new conversation waits for those that are starting."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wait_s: float = Field(
        default=10.0, ge=0, le=120, description="how long after the start a new conversation waits for servers"
    )
    servers: dict[str, McpServerSettings] = Field(default_factory=dict[str, McpServerSettings])

    @field_validator("servers")
    @classmethod
    def _names_are_usable(cls, value: dict[str, McpServerSettings]) -> dict[str, McpServerSettings]:
        labels: dict[str, str] = {}
        for name in value:
            if not _NAME.fullmatch(name) or name in _RESERVED:
                raise ValueError("a server's name is 1 to 31 letters, digits, '-' or '_', and not read, list or get")
            if label_of(name) in labels:
                raise ValueError(f"the names {labels[label_of(name)]!r} and {name!r} are one in the names of tools")
            labels[label_of(name)] = name
        return value


def _named(values: dict[str, SecretStr]) -> Iterator[str]:
    for name, value in values.items():
        if SECRET_NAME.search(name):
            yield value.get_secret_value()


def _in_arguments(args: tuple[str, ...]) -> Iterator[str]:
    """Yield what follows ``--api-key`` and its like."""
    for at, arg in enumerate(args):
        name, has_value, value = arg.partition("=")
        if name.startswith("-") and SECRET_NAME.search(name):
            yield value if has_value else (*args, "")[at + 1]


def _in_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if parts.password:
        yield unquote(parts.password)
    for name, value in parse_qsl(parts.query):
        if SECRET_NAME.search(name) or len(value) >= _URL_SECRET_CHARS:
            yield value
