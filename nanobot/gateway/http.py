"""``/healthz`` and ``/metrics`` on this machine's own address: a few lines of HTTP, so that nothing has to be installed for it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from nanobot.errors import ConfigError

HOST = "127.0.0.1"
REQUEST_S = 5.0
_HEAD_BYTES = 16_384
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Page: TypeAlias = Callable[[], tuple[int, str]]
"""Returns a status and a plain text."""


class PageServer:
    """Serves a few pages by GET.  Bound as soon as ``start`` returns; ``port`` is then the real one."""

    def __init__(self, pages: Mapping[str, Page], *, port: int) -> None:
        self._pages = pages
        self._wanted = port
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            ConfigError: the port is taken or not ours.
        """
        try:
            self._server = await asyncio.start_server(self._serve, HOST, self._wanted, limit=_HEAD_BYTES)
        except OSError as error:
            raise ConfigError(
                f"gateway.health_port: port {self._wanted} cannot be used ({error.strerror}); choose another"
            ) from None
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, slow, or speaks something else
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        page = self._pages.get(path)
        if method not in ("GET", "HEAD"):
            status, text = 405, "only GET\n"
        elif page is None:
            status, text = 404, f"there is: {' '.join(self._pages)}\n"
        else:
            status, text = page()
        body = text.encode()
        lines = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            "Content-Type: text/plain; version=0.0.4; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else body)
