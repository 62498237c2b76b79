"""A server behind an address: our HTTP client for the SDK, which takes no more than it should.

An answer that is no event stream is bounded in bytes, and none is sent compressed: a small one could grow without end.
"""

from collections.abc import AsyncIterator, Mapping
from typing import cast

import httpx2

MAX_BODY_BYTES = 8 << 20
MAX_EVENT_BYTES = 8 << 20
_CONNECT_S = 15.0
_SILENT_S = 600.0  # an event stream may be silent for long; calls have their own timeouts


class TooLarge(httpx2.StreamError):
    """The server sent more than we take."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for data in self._stream:
            total += len(data)
            if total > MAX_BODY_BYTES:
                raise TooLarge(f"the server sent more than {MAX_BODY_BYTES:,} bytes at once")
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, *, can_log_in: bool) -> None:
        super().__init__()
        self._can_log_in = can_log_in

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.status_code in (401, 403) and not self._can_log_in:  # the SDK would keep the status to itself
            await response.aclose()
            response.request = request
            response.raise_for_status()
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise TooLarge("the server compressed an answer although it was asked not to")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream))
        if response.status_code in (400, 404) and "mcp-session-id" in request.headers:
            return await _plain(response)
        return response


async def _plain(response: httpx2.Response) -> httpx2.Response:
    """Return what servers say in many ways of a session that they do not know as the SDK understands it: a 404 and no more."""
    body = await response.aread()
    await response.aclose()
    if b"session" in body.lower():
        return httpx2.Response(404)
    return httpx2.Response(response.status_code, headers=response.headers, content=body)


def http_client(
    headers: Mapping[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
) -> httpx2.AsyncClient:
    """Return the client for one server.  Slow (it reads certificates): call it in a thread."""
    return httpx2.AsyncClient(
        transport=_BoundedTransport(can_log_in=auth is not None),
        headers={**(headers or {}), "accept-encoding": "identity"},
        timeout=timeout or httpx2.Timeout(_CONNECT_S, read=_SILENT_S),
        auth=auth,
    )
