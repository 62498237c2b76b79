"""The scripted server behind an address (streamable HTTP, JSON answers).  It can be restarted on its port, and forget everybody."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.fakes.mcp.protocol import Script


class HttpServer:
    """One server.  ``token`` is the bearer token that it wants, if any; ``headers`` are those of the last request."""

    def __init__(self, script: Script, *, token: str = "") -> None:
        self.script = script
        self.token = token
        self.headers: dict[str, str] = {}
        self.sessions: set[str] = set()
        self.unknown_session: tuple[int, bytes] = (404, b"")  # what is said to whom it does not know
        self.port = 0
        self._count = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def handler(self) -> "type[Handler]":
        """What answers."""
        return Handler

    @contextmanager
    def running(self) -> Generator[Self]:
        """Listen for the block."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        """Listen, on the port it had before."""
        handler = type("Bound", (self.handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening, and forget every session."""
        self.sessions.clear()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def new_session(self) -> str:
        """Begin a session."""
        self._count += 1
        name = f"session-{self._count}"
        self.sessions.add(name)
        return name


class Handler(BaseHTTPRequestHandler):
    """One connection to a server."""

    owner: HttpServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        owner = self.owner
        message: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        owner.headers = {name.lower(): value for name, value in self.headers.items()}
        if owner.token and self.headers.get("authorization") != f"Bearer {owner.token}":
            resource = f'Bearer resource_metadata="http://127.0.0.1:{owner.port}/.well-known/oauth-protected-resource"'
            return self.say(401, b"", {"www-authenticate": resource})
        extra: dict[str, str] = {}
        if message.get("method") == "initialize":
            extra["mcp-session-id"] = owner.new_session()
        elif self.headers.get("mcp-session-id") not in owner.sessions:
            return self.say(*owner.unknown_session)
        answers = owner.script.answer(message)
        if not answers:
            return self.say(202, b"")
        return self.say(200, json.dumps(answers[-1]).encode(), extra)

    def do_GET(self) -> None:
        self.say(405, b"")

    def do_DELETE(self) -> None:
        self.owner.sessions.discard(self.headers.get("mcp-session-id", ""))
        self.say(200, b"")

    def say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
