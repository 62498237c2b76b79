"""The scripted server behind an address that wants a login, with the authority that gives one."""

import json
import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.fakes.mcp.http import Handler, HttpServer
from tests.fakes.mcp.protocol import Script


class OAuthServer(HttpServer):
    """One of them.  ``grants`` lists what tokens were asked for; ``expires_in_s`` is how long the next one is good."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.grants: list[str] = []
        self.expires_in_s = 3_600
        self.token = secrets.token_hex(8)  # nobody has it yet

    @property
    def base(self) -> str:
        """The authority's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def handler(self) -> type[Handler]:
        """What answers."""
        return _OAuthHandler

    def new_token(self, grant: str) -> dict[str, Any]:
        """Give a new token; the one before is good no more."""
        self.grants.append(grant)
        self.token = f"token-{len(self.grants)}-{secrets.token_hex(8)}"
        return {
            "access_token": self.token,
            "token_type": "Bearer",
            "expires_in": self.expires_in_s,
            "refresh_token": "refresh-1",
        }


class _OAuthHandler(Handler):
    owner: OAuthServer  # pyright: ignore[reportIncompatibleVariableOverride]  # it is given with the class

    def do_GET(self) -> None:
        base = self.owner.base
        if "oauth-protected-resource" in self.path:
            return self.say(200, _json({"resource": self.owner.url, "authorization_servers": [base]}))
        if "oauth-authorization-server" in self.path:
            found = {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/oauth/token",
                "registration_endpoint": f"{base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
            return self.say(200, _json(found))
        return self.say(405 if self.path == "/mcp" else 404, b"")

    def do_POST(self) -> None:
        if self.path == "/mcp":
            return super().do_POST()
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/register":
            return self.say(
                201, _json({**json.loads(body), "client_id": "client-1", "token_endpoint_auth_method": "none"})
            )
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if self.path != "/oauth/token" or form.get("code", "code-1") != "code-1":
            return self.say(400, _json({"error": "invalid_grant"}))
        return self.say(200, _json(self.owner.new_token(form["grant_type"])))


def returned_to(address: str, code: str = "code-1") -> str:
    """Return where a browser would be sent after a login at this address."""
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    return f"{asked['redirect_uri']}?code={code}&state={asked['state']}"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
