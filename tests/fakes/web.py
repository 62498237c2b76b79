"""A web for tests: a server on this machine that answers with bytes as given, and a resolver by table."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

from nanobot.agent.tools.web.addresses import Address

Reply = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def reply(
    body: bytes | str = b"", *, status: str = "200 OK", kind: str = "text/html; charset=utf-8", **headers: str
) -> bytes:
    """Return a whole response.  ``headers`` are named with underscores."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"] if kind else [f"HTTP/1.1 {status}"]
    given = {name.replace("_", "-").title(): value for name, value in headers.items()}
    given.setdefault("Content-Length", str(len(data)))
    lines += [f"{name}: {value}" for name, value in given.items() if value]
    return "\r\n".join((*lines, "", "")).encode("utf-8", "surrogateescape") + data


def redirect(to: str, status: str = "302 Found") -> bytes:
    """Return a redirection."""
    return reply(status=status, kind="", location=to)


@dataclass
class WebServer:
    """What it answers by path, and the heads of the requests that came."""

    pages: dict[str, Reply] = field(default_factory=dict[str, Reply])
    requests: list[str] = field(default_factory=list[str])
    port: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Return a URL of this server."""
        return f"http://{host}:{self.port}{path}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next((int(x[15:]) for x in head.split("\r\n") if x.lower().startswith("content-length:")), 0)
            body = (await reader.readexactly(length)).decode() if length else ""
            self.requests.append(head + body)
            page = self.pages.get(head.split(" ")[1], reply("not here", status="404 Not Found", kind="text/plain"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    pages: Mapping[str, Reply] | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[WebServer]:
    """Serve on 127.0.0.1; whatever is open at the end is broken off."""
    web = WebServer(dict(pages or {}))
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(web.answer(reader, writer), name="web answer")
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    try:
        async with server:
            yield web
    finally:
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Names:
    """A resolver: each name's answers, one after the other, the last one for good; and who was asked for."""

    def __init__(
        self, table: Mapping[str, Sequence[Sequence[str]]] | None = None, **answers: Sequence[Sequence[str]]
    ) -> None:
        """Take the table, or names as keywords with underscores for dots."""
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self._answers |= {name: list(given) for name, given in (table or {}).items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        answers = self._answers.get(host)
        if not answers:
            raise OSError("no such host")
        return [ip_address(text) for text in (answers.pop(0) if len(answers) > 1 else answers[0])]
