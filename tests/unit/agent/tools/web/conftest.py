"""A web with a server of its own, and the tool as an owner would have set it up."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.web.build import web_tools
from nanobot.agent.tools.web.guard import Resolve, system_resolve
from nanobot.agent.tools.web.settings import WebSettings
from tests.fakes.web import WebServer, serving


@dataclass
class Connections:
    """What was connected to: host and port of each request, and then the request really goes out, or is answered 200."""

    made: list[tuple[str, int]]
    really: bool = False
    requests: list[httpx2.Request] | None = None

    def __call__(self, proxy: str | None) -> httpx2.AsyncBaseTransport:
        inner = httpx2.AsyncHTTPTransport(verify=False, trust_env=False, proxy=proxy)

        async def handle(request: httpx2.Request) -> httpx2.Response:
            self.made.append((request.url.host, request.url.port or {"http": 80, "https": 443}[request.url.scheme]))
            if self.requests is not None:
                self.requests.append(request)
            if self.really:
                return await inner.handle_async_request(request)
            return httpx2.Response(200, headers={"content-type": "text/plain"}, content=b"reached")

        return httpx2.MockTransport(handle)


def make_fetch(
    *allow: str,
    resolve: Resolve = system_resolve,
    watch: Connections | None = None,
    more: Mapping[str, object] | None = None,
) -> Tool[Any]:
    """Return web_fetch with these entries of ``allow_hosts``, and ``more`` settings."""
    settings = WebSettings.model_validate({"allow_hosts": allow, **(more or {})})
    (tool,) = web_tools(settings, environ={}, resolve=resolve, make_transport=watch)
    return tool


@pytest.fixture
async def web() -> AsyncGenerator[WebServer]:
    """A server on 127.0.0.1."""
    async with serving() as server:
        yield server
