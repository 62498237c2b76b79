"""One HTTP request to an address that was checked: no environment, no cookies, no passwords, no connection kept."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from nanobot.agent.tools.web.addresses import Address
from nanobot.agent.tools.web.body import ASK_FOR, Body
from nanobot.agent.tools.web.targets import Target
from nanobot.errors import ToolError

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 6.0
MAX_TRIED = 4  # addresses of one host
USER_AGENT = "Mozilla/5.0 (compatible; nanobot)"

MakeTransport = Callable[["str | None"], "httpx2.AsyncBaseTransport"]
"""A fresh transport, through the proxy if one is given."""


class Wire:
    """Sends requests.

    Args:
        environ: for ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, and nothing else.
        make_transport: what carries a request; tests watch here what is connected to.
    """

    def __init__(self, environ: Mapping[str, str], *, make_transport: MakeTransport | None = None) -> None:
        self._environ = environ
        self._make_transport = make_transport
        self._certificates: ssl.SSLContext | None = None

    @asynccontextmanager
    async def send(
        self,
        target: Target,
        addresses: Sequence[Address] | None,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        proxy: str | None = None,
    ) -> AsyncGenerator["httpx2.Response"]:
        """Yield the response, its body unread.

        Args:
            target: what is asked for; the Host header and the certificate's name come from it.
            addresses: what is connected to, in order, until one answers; None leaves that to the proxy, or to the system.
            method: the method.
            headers: added to ours.
            content: the body.
            proxy: connect through it.

        Raises:
            ToolError: nobody answered, or not in HTTP.
        """
        make = self._make_transport or await self._ready()
        transport = make(proxy)
        try:
            response = await self._first(transport, target, addresses, method, headers, content)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            await transport.aclose()

    async def _first(
        self,
        transport: "httpx2.AsyncBaseTransport",
        target: Target,
        addresses: Sequence[Address] | None,
        method: str,
        headers: Mapping[str, str] | None,
        content: bytes | None,
    ) -> "httpx2.Response":
        import httpx2  # lazily: 140 ms

        hosts = [target.host] if addresses is None else [str(address) for address in addresses[:MAX_TRIED]]
        fault: Exception | None = None
        for host in hosts:
            try:
                request = _request(target, host, method, headers, content)
                return await transport.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                fault = error
            except (httpx2.TransportError, httpx2.InvalidURL) as error:
                raise ToolError(_said(target, error)) from None
        raise ToolError(_said(target, fault)) from None

    async def _ready(self) -> MakeTransport:
        if self._certificates is None:
            self._certificates = await asyncio.to_thread(_certificates, self._environ)
        return self._transport

    def _transport(self, proxy: str | None) -> "httpx2.AsyncBaseTransport":
        import httpx2  # lazily, as above

        return httpx2.AsyncHTTPTransport(
            verify=self._certificates or True,
            trust_env=False,
            proxy=proxy,
            limits=httpx2.Limits(max_keepalive_connections=0),
        )


async def take(response: "httpx2.Response", *, max_bytes: int) -> tuple[Body, bool]:
    """Read the body, as far as the limit goes; the second value says that the connection broke before its end.

    Raises:
        ToolError: the body is packed in a way that was not asked for, or damaged.
    """
    import httpx2  # lazily, as above

    body = Body(response.headers.get("content-encoding", ""), max_bytes=max_bytes)
    stream = cast("httpx2.AsyncByteStream", response.stream)
    try:
        async for piece in stream:
            if not body.add(piece):
                break
    except httpx2.TransportError:
        return body, True
    return body, False


def _request(
    target: Target, host: str, method: str, headers: Mapping[str, str] | None, content: bytes | None
) -> "httpx2.Request":
    import httpx2  # lazily, as above

    shown = f"[{host}]" if ":" in host else host
    url = httpx2.URL(scheme=target.scheme, host=shown, port=target.port, raw_path=target.path.encode("ascii"))
    ours = {"Host": target.authority, "User-Agent": USER_AGENT, "Accept-Encoding": ASK_FOR, "Connection": "close"}
    return httpx2.Request(
        method,
        url,
        headers=ours | dict(headers or {}),
        content=content,
        extensions={
            "sni_hostname": target.host,
            "timeout": {"connect": CONNECT_S, "read": None, "write": None, "pool": CONNECT_S},
        },
    )


def _said(target: Target, error: Exception | None) -> str:
    """Say what went wrong.  Of the exception's text only what our side wrote: a server's words are no error of ours."""
    reason = error
    while reason is not None and not isinstance(reason, ssl.SSLCertVerificationError):
        reason = reason.__cause__ or reason.__context__
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"the certificate of {target.host} is not valid ({reason.verify_message}); nothing was fetched."
    kind = type(error).__name__
    if kind == "ConnectTimeout":
        return f"{target.authority} did not answer the connection within {CONNECT_S:g} s."
    if kind in ("ConnectError", "ProxyError"):
        return f"{target.authority} cannot be connected to."
    return f"{target.authority} answered with something that is not HTTP, or broke off ({kind})."


def _certificates(environ: Mapping[str, str]) -> ssl.SSLContext:
    import httpx2  # lazily, as above; in a thread: reading certificates is slow

    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not (file or folder):
        return httpx2.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        raise ToolError(f"SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({error.strerror}).") from error
