"""As much HTTP/1.1 as a model client speaks: keep-alive, bodies by length or in chunks, answers written in pieces.

One request at a time on a connection; the next one waits in the buffer.  When the client goes away its answer is cancelled.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

MAX_HEAD_BYTES = 65_536
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class BadHttp(Exception):
    """The bytes on the connection are no request that this server reads."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whole.  Header names are in lower case; ``path`` has no query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to use the connection again."""
        return self.headers.get("connection", "").lower() != "close"


Handler: TypeAlias = "Callable[[Connection, Request], Awaitable[None]]"


def read_request(buffer: bytearray, max_body_bytes: int) -> tuple[Request, int] | None:
    """Return the first whole request in ``buffer`` and its length in bytes, or None while more must come.

    Raises:
        BadHttp: it never will be one; status 413 when the body is over ``max_body_bytes``.
    """
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > MAX_HEAD_BYTES:
            raise BadHttp("request head too long", 431)
        return None
    line, *rows = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3:
        raise BadHttp(f"bad request line {line!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
    body = _read_body(buffer, end + 4, headers, max_body_bytes)
    if body is None:
        return None
    raw, at = body
    return Request(words[0], words[1].partition("?")[0], headers, raw), at


def _read_body(buffer: bytearray, at: int, headers: Mapping[str, str], limit: int) -> tuple[bytes, int] | None:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _read_chunks(buffer, at, limit)
    length = headers.get("content-length", "0")
    if not length.isdigit():
        raise BadHttp(f"bad content-length {length!r}")
    if int(length) > limit:
        raise BadHttp("request body too large", 413)
    end = at + int(length)
    return (bytes(buffer[at:end]), end) if len(buffer) >= end else None


def _read_chunks(buffer: bytearray, at: int, limit: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while (line := buffer.find(b"\r\n", at)) >= 0:
        try:
            size = int(bytes(buffer[at:line]).partition(b";")[0], 16)
        except ValueError as error:
            raise BadHttp("bad chunk size") from error
        start, end = line + 2, line + 2 + size
        if len(body) + size > limit:
            raise BadHttp("request body too large", 413)
        if len(buffer) < end + 2:
            return None
        body += buffer[start:end]
        at = end + 2
        if size == 0:
            return bytes(body), at
    return None


class Connection(asyncio.Protocol):
    """One client connection: reads requests, hands each to ``handler``, writes what that sends."""

    def __init__(self, handler: Handler, max_body_bytes: int, live: set["Connection"]):
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._live = live
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._keep = True
        self._chunked = False
        self.task: asyncio.Task[None] | None = None
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._live.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self._live.discard(self)
        if self.task:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def send_head(self, status: int, headers: Mapping[str, str], *, length: int | None) -> None:
        """Write status and headers; without a ``length`` the body follows in chunks, up to ``end``."""
        self._write(self._head(status, headers, length))

    def send(self, data: bytes) -> None:
        """Write a piece of the body."""
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """Finish the body."""
        if self._chunked:
            self._write(b"0\r\n\r\n")

    def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Write an answer in one go."""
        self._write(self._head(status, headers, len(body)) + body)

    def cut(self) -> None:
        """Close the connection wherever the answer is."""
        if self._transport:
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection and forget what was not written."""
        if self._transport:
            self._transport.abort()

    def _head(self, status: int, headers: Mapping[str, str], length: int | None) -> bytes:
        self._chunked = length is None
        rows = [
            f"HTTP/1.1 {status} {_PHRASES.get(status, 'Overloaded')}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        rows.append("transfer-encoding: chunked" if length is None else f"content-length: {length}")
        if not self._keep:
            rows.append("connection: close")
        return "\r\n".join([*rows, "", ""]).encode("latin-1")

    def _write(self, data: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(data)

    def _advance(self) -> None:
        if self.task or not self._buffer:
            return
        try:
            found = read_request(self._buffer, self._max_body_bytes)
        except BadHttp as error:
            self._keep = False
            self.send_whole(error.status, {"content-type": "text/plain"}, str(error).encode())
            self.cut()
            return
        if found:
            request, end = found
            del self._buffer[:end]
            self._keep = request.keeps_alive
            self.task = asyncio.get_running_loop().create_task(self._answer(request), name="llm-server-answer")

    async def _answer(self, request: Request) -> None:
        try:
            await self._handler(self, request)
        finally:
            self.task = None
            if not self._keep:
                self.cut()
            elif not self.is_gone:
                self._advance()
