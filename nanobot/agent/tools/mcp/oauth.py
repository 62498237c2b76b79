"""OAuth logins: kept in the data directory for this user alone, made once by ``nanobot mcp login``, refreshed by themselves.

A daemon cannot ask anybody to open a browser: a server that wants a login it does not have says so in its status.
"""

import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, BaseModel, ConfigDict, ValidationError

from nanobot.agent.tools.mcp.settings import McpServerSettings, OAuthSettings

Show = Callable[[str], Awaitable[None]]
Await = Callable[[], Awaitable[tuple[str, str | None, str | None]]]
"""Waits for the browser to come back: code, state and issuer."""


class _Kept(BaseModel):
    """What one file holds."""

    model_config = ConfigDict(extra="ignore")

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None


class Logins:
    """All logins of one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def auth(
        self, name: str, settings: McpServerSettings, show: Show | None = None, wait: Await | None = None
    ) -> OAuthClientProvider:
        """Return what authorizes requests to a server; without ``show`` and ``wait`` it can only use a login that is there."""
        oauth = settings.oauth or OAuthSettings()
        callback = redirect_url(oauth)

        async def returned() -> AuthorizationCodeResult:
            if wait is None:
                raise OAuthFlowError("nobody is logged in")
            code, state, issuer = await wait()
            return AuthorizationCodeResult(code=code, state=state, iss=issuer)

        async def nobody(_url: str) -> None:
            raise OAuthFlowError("nobody is logged in")

        return OAuthClientProvider(
            server_url=settings.url or "",
            client_metadata=OAuthClientMetadata(
                client_name="nanobot", redirect_uris=[AnyUrl(callback)], scope=oauth.scope
            ),
            storage=_File(self._directory / f"{name}.json", oauth, callback),
            redirect_handler=show or nobody,
            callback_handler=returned,
        )


def redirect_url(oauth: OAuthSettings) -> str:
    """Return where the browser is sent after the login."""
    return f"http://127.0.0.1:{oauth.callback_port}/callback"


class _File:
    """One server's login: the SDK's storage, in a file that nobody else can read."""

    def __init__(self, path: Path, oauth: OAuthSettings, callback: str) -> None:
        self._path = path
        self._oauth = oauth
        self._callback = callback

    async def get_tokens(self) -> OAuthToken | None:
        return self._read().tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write(self._read().model_copy(update={"tokens": tokens}))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        oauth = self._oauth
        if oauth.client_id is None:
            return self._read().client
        secret = oauth.client_secret.get_secret_value() if oauth.client_secret else None
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=secret,
            redirect_uris=[AnyUrl(self._callback)],
            token_endpoint_auth_method="client_secret_post" if secret else "none",
            scope=oauth.scope,
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(self._read().model_copy(update={"client": client_info}))

    def _read(self) -> _Kept:
        try:
            return _Kept.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return _Kept()

    def _write(self, kept: _Kept) -> None:
        """Replace the file.  Small and rare, so not worth a thread."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:  # made with mode 0600
            file.write(kept.model_dump_json().encode())
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self._path)
