"""OAuth logins: kept in the data directory for this user alone, made once by ``nanobot mcp login``, renewed by themselves.

A daemon cannot ask anybody to open a browser: without a login that can be used it says that one is needed, and tries nothing.

The SDK keeps in memory when a token runs out and where it is renewed, and so forgets both with each process; it would then ask for
a whole login.  So the file holds them, too, and a token that has run out is handed to the SDK as none, with the one that renews it.
"""

import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ConfigDict, ValidationError

from nanobot.agent.tools.mcp.settings import McpServerSettings, OAuthSettings

Show = Callable[[str], Awaitable[None]]
Returned = Callable[[], Awaitable[AuthorizationCodeResult]]
"""Waits for the browser to come back."""

_EARLY_S = 60.0  # a token that is about to run out counts as run out


class _Kept(BaseModel):
    """What one file holds."""

    model_config = ConfigDict(extra="ignore")

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = None
    authority: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None
    authority_url: str | None = None


class Logins:
    """All logins of one data directory.

    ``show`` shows a person the address to log in at, and ``returned`` waits for the browser; without them nobody is asked.
    """

    def __init__(self, directory: Path, *, show: Show | None = None, returned: Returned | None = None) -> None:
        self._directory = directory
        self._show = show
        self._returned = returned

    def usable(self, name: str) -> bool:
        """Whether there is a login, or somebody who can be asked for one.  Reads a small file."""
        return self._show is not None or _File(self._path(name)).read().tokens is not None

    def auth(self, name: str, settings: McpServerSettings) -> OAuthClientProvider:
        """Return what authorizes requests to a server."""
        oauth = settings.oauth or OAuthSettings()
        storage = _Storage(_File(self._path(name)), oauth)
        provider = OAuthClientProvider(
            server_url=settings.url or "",
            client_metadata=OAuthClientMetadata(
                client_name="nanobot", redirect_uris=[AnyUrl(redirect_url(oauth))], scope=oauth.scope
            ),
            storage=storage,
            redirect_handler=self._show or _nobody,
            callback_handler=self._returned or _never,
        )
        storage.attach(provider)
        return provider

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"


async def _nobody(_url: str) -> None:
    raise OAuthFlowError("the login has run out")


async def _never() -> AuthorizationCodeResult:
    raise OAuthFlowError("the login has run out")


def redirect_url(oauth: OAuthSettings) -> str:
    """Return where the browser is sent after the login."""
    return f"http://127.0.0.1:{oauth.callback_port}/callback"


class _Storage:
    """One server's login, as the SDK wants to keep it."""

    def __init__(self, file: "_File", oauth: OAuthSettings) -> None:
        self._file = file
        self._oauth = oauth
        self._provider: OAuthClientProvider | None = None

    def attach(self, provider: OAuthClientProvider) -> None:
        """Give the SDK back what it had found out, and remember whom to ask for it."""
        kept, context = self._file.read(), provider.context
        context.oauth_metadata, context.protected_resource_metadata = kept.authority, kept.resource
        context.auth_server_url = kept.authority_url
        self._provider = provider

    async def get_tokens(self) -> OAuthToken | None:
        kept = self._file.read()
        if kept.tokens is None or kept.expires_at is None or time.time() < kept.expires_at - _EARLY_S:
            return kept.tokens
        return kept.tokens.model_copy(update={"access_token": ""})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert self._provider is not None
        context = self._provider.context
        self._file.change(
            tokens=tokens,
            expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
            authority=context.oauth_metadata,
            resource=context.protected_resource_metadata,
            authority_url=context.auth_server_url,
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        oauth = self._oauth
        if oauth.client_id is None:
            return self._file.read().client
        secret = oauth.client_secret.get_secret_value() if oauth.client_secret else None
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=secret,
            redirect_uris=[AnyUrl(redirect_url(oauth))],
            token_endpoint_auth_method="client_secret_post" if secret else "none",
            scope=oauth.scope,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._file.change(client=client_info)


class _File:
    """The file.  It is small and seldom touched, so not worth a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> _Kept:
        """Return what it holds; nothing if it is missing or damaged."""
        try:
            return _Kept.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return _Kept()

    def change(self, **values: object) -> None:
        """Replace the file by one with other values, which nobody else can read."""
        kept = self.read().model_copy(update=values)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:  # made with mode 0600
            file.write(kept.model_dump_json().encode())
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self._path)
