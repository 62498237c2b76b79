"""Where a provider is, and by which way it is reached: addresses, proxies, the HTTP client under the SDKs.

We decide what the SDKs would otherwise guess from the environment.  A server on this machine or a private network is never asked
through a proxy of the environment; a proxy in the settings always counts.
"""

import importlib.util
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from nanobot.errors import ConfigError, ProviderError
from nanobot.providers.settings import TimeoutSettings

if TYPE_CHECKING:
    import httpx2

MAX_BODY_BYTES = 32 << 20
MAX_CONNECTIONS = 512  # a stream holds its connection for minutes: a smaller pool would make Turns wait for each other
KEEPALIVE_EXPIRY_S = 30.0
_PRIVATE_SUFFIXES = (".local", ".lan", ".internal", ".localhost", ".home.arpa")


def host_of(base_url: str) -> str:
    """Return the host of an address, in lower case."""
    return (urlsplit(base_url).hostname or "").lower()


def is_private(base_url: str) -> bool:
    """Say whether the address is on this machine or a private network.  Names without a dot count as private."""
    host = host_of(base_url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_SUFFIXES)
    return address.is_private or address.is_loopback or address.is_link_local


def first_token_s(timeouts: TimeoutSettings, base_url: str) -> float:
    """Return how long to wait for the first piece of an answer."""
    return timeouts.first_token_s or (600.0 if is_private(base_url) else 120.0)


def proxy_for(base_url: str, *, provider: str, configured: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the proxy's address, or None to connect directly.

    Raises:
        ConfigError: the proxy cannot be used; names the setting or the variable, never its value.
    """
    if configured:
        return usable_proxy(configured, f"providers.{provider}.proxy")
    if is_private(base_url):
        return None
    found = _from_environment(urlsplit(base_url).scheme, environ)
    if not found or _bypassed(base_url, environ):
        return None
    name, value = found
    return usable_proxy(value if "://" in value else f"http://{value}", f"the environment variable {name}")


def _from_environment(scheme: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    for kind in (scheme, "all"):
        for name in (f"{kind}_proxy", f"{kind}_proxy".upper()):
            value = environ.get(name, "").strip()
            if value:
                return name, value
    return None


def _bypassed(base_url: str, environ: Mapping[str, str]) -> bool:
    names = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    host, port = host_of(base_url), urlsplit(base_url).port
    for name in names.lower().split(","):
        wanted, _, wanted_port = name.strip().partition(":")
        wanted = wanted.removeprefix("*").removeprefix(".")
        if name.strip() == "*" or (
            wanted and (host == wanted or host.endswith(f".{wanted}")) and wanted_port in ("", str(port))
        ):
            return True
    return False


def usable_proxy(address: str, source: str) -> str:
    """Return a proxy's address as the HTTP client takes it.

    Raises:
        ConfigError: it is none; names ``source``, never the address.
    """
    scheme, _, rest = address.partition("://")
    scheme = {"socks": "socks5"}.get(scheme.lower(), scheme.lower())  # "socks://" is what desktop settings export
    try:
        port_is_fine = urlsplit(f"{scheme}://{rest}").port != 0
    except ValueError:
        port_is_fine = False
    if scheme not in ("http", "https", "socks5", "socks5h") or not rest or not port_is_fine:
        raise ConfigError(f"{source} is no proxy address: it must look like http://host:port or socks5://host:port.")
    if scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise ConfigError(
            f"{source} asks for a SOCKS proxy, which needs one more package: pip install socksio. "
            "Or unset it, or name an http:// proxy there."
        )
    return f"{scheme}://{rest}"


def build_http_client(
    *, proxy: str | None, timeouts: TimeoutSettings, environ: Mapping[str, str]
) -> "httpx2.AsyncClient":
    """Return the HTTP client for an SDK.  Slow (it reads certificates): call it in a thread.

    It follows no redirect: what goes with a request, keys and conversation, is for the configured server alone.  An answer that
    is no event stream may have so many bytes and no more.

    It has no read timeout: keep-alives defeat that one, so waiting is limited where events are read
    (``nanobot.providers.reading``). TCP keep-alive is on, so a path that a router forgot is noticed.
    """
    import httpx2  # lazily: 140 ms, and only remote providers need it

    keepalive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # not on every system
            keepalive.append((socket.IPPROTO_TCP, int(getattr(socket, option)), value))
    transport = httpx2.AsyncHTTPTransport(
        verify=_certificates(environ),
        trust_env=False,
        proxy=proxy,
        socket_options=keepalive,
        limits=httpx2.Limits(
            max_connections=MAX_CONNECTIONS, max_keepalive_connections=32, keepalive_expiry=KEEPALIVE_EXPIRY_S
        ),
    )
    return httpx2.AsyncClient(
        transport=transport,
        trust_env=False,
        follow_redirects=False,
        timeout=http_timeout(timeouts.connect_s),
        event_hooks={"response": [_bound]},
    )


async def _bound(response: "httpx2.Response") -> None:
    """Have an answer that comes in one piece end with an error when it has too many bytes."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return  # those are counted as they are read
    import httpx2  # lazily, as above

    stream = cast("httpx2.AsyncByteStream", response.stream)

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            total = 0
            async for data in stream:
                total += len(data)
                if total > MAX_BODY_BYTES:
                    raise ProviderError(f"The server's answer did not end: more than {MAX_BODY_BYTES:,} bytes came.")
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


def http_timeout(connect_s: float) -> "httpx2.Timeout":
    """Return the HTTP client's own limits."""
    import httpx2  # lazily, as above

    return httpx2.Timeout(connect=connect_s, read=None, write=60.0, pool=30.0)


def _certificates(environ: Mapping[str, str]) -> ssl.SSLContext | bool:
    file, folder = environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR")
    if not (file or folder):
        return True
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        raise ConfigError(f"SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({error.strerror}).") from error
