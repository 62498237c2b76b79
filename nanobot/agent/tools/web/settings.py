"""The web tools' part of the configuration."""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from nanobot.providers.settings import Key, Seconds, Url

if TYPE_CHECKING:
    from nanobot.agent.tools.web.targets import AllowList


def _entry(value: str) -> str:
    from nanobot.agent.tools.web.targets import parse_allowed  # lazily: for those who open something inside

    parse_allowed(value)
    return value


class SearchSettings(BaseModel):
    """Who is asked when the agent searches; nobody unless it is chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["ddgs", "brave", "tavily", "searxng", "exa"] | None = Field(
        default=None, description="Offer web_search through it; ddgs needs no key and pip install nanobot[web]"
    )
    api_key: Key | None = Field(default=None, description="For brave, tavily and exa")
    base_url: Url | None = Field(default=None, description="Another address than the vendor's; searxng needs one")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.provider in ("brave", "tavily", "exa") and not self.key:
            raise ValueError(f"api_key is missing: {self.provider} answers nobody without one")
        if self.provider == "searxng" and self.base_url is None:
            raise ValueError("base_url is missing: where your SearXNG is, such as http://127.0.0.1:8888")
        return self

    @property
    def key(self) -> str:
        """The key, or an empty string."""
        return self.api_key.get_secret_value().strip() if self.api_key else ""


class WebSettings(BaseModel):
    """What the web tools may reach, and how much of it they take in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="Offer web_fetch")
    allow_hosts: tuple[Annotated[str, AfterValidator(_entry)], ...] = Field(
        default=(), description="Hosts (host, host:port) and networks inside that may be fetched"
    )
    max_bytes: int = Field(
        default=10_000_000, ge=1_000, le=100_000_000, description="Most bytes of a page, unpacked too"
    )
    timeout_s: Seconds = Field(default=30.0, le=300, description="For a whole fetch, redirects included")
    proxy: SecretStr | None = Field(
        default=None, description="http://user:password@host:port; it resolves names itself"
    )
    search: SearchSettings = SearchSettings()

    @property
    def allow(self) -> "AllowList":
        """The entries of ``allow_hosts``, read."""
        from nanobot.agent.tools.web.targets import AllowList, parse_allowed  # lazily: for calls

        return AllowList(tuple(map(parse_allowed, self.allow_hosts)))
