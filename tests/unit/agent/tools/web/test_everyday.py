"""Fetches of every day: none is refused, over the whole way from the URL to the text."""

import gzip
import json
import ssl
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from nanobot.agent.tools.web.build import web_tools
from nanobot.agent.tools.web.settings import WebSettings
from tests.fakes.web import Names, Reply, WebServer, redirect, reply, serving
from tests.unit.agent.tools.conftest import Bench
from tests.unit.agent.tools.web.conftest import make_fetch

HTML = (
    "<html><head><title>T</title></head><body><article><p>" + "All is well here. " * 20 + "</p></article></body></html>"
)
FEED = "<?xml version='1.0'?><rss><channel><item><title>All is well</title></item></channel></rss>"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nAll \r\n7\r\nis well\r\n0\r\n\r\n"
PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1:248:1893:25c8:1946"

EVERYDAY: list[tuple[str, str, dict[str, Reply]]] = [
    ("a page", "https://example.org/", {"/": reply(HTML)}),
    ("no path", "http://example.org", {"/": reply(HTML)}),
    ("upper case", "HTTP://EXAMPLE.org/Path", {"/Path": reply(HTML)}),
    ("a port", "http://example.org:8443/x", {"/x": reply(HTML)}),
    ("a query", "https://example.org/s?q=a+b&x=[1]#top", {"/s?q=a+b&x=[1]": reply(HTML)}),
    ("letters that are not ASCII", "https://example.org/größe?q=ü", {"/gr%C3%B6%C3%9Fe?q=%C3%BC": reply(HTML)}),
    ("an encoded path", "https://example.org/a%20b%2Fc", {"/a%20b%2Fc": reply(HTML)}),
    ("a name that is not ASCII", "https://bücher.example/", {"/": reply(HTML)}),
    ("a dot at the end", "https://example.org./", {"/": reply(HTML)}),
    ("an underscore", "https://my_site.example.org/", {"/": reply(HTML)}),
    ("an address", f"http://{PUBLIC}/", {"/": reply(HTML)}),
    ("an IPv6 address", f"http://[{PUBLIC_6}]/", {"/": reply(HTML)}),
    ("blanks around it", "  https://example.org/  ", {"/": reply(HTML)}),
    ("JSON", "https://api.example.org/v1", {"/v1": reply(json.dumps({"m": "All is well"}), kind="application/json")}),
    ("a README", "https://example.org/README.md", {"/README.md": reply("# All is well", kind="text/plain")}),
    ("a table", "https://example.org/a.csv", {"/a.csv": reply("a,All is well", kind="text/csv")}),
    ("a feed", "https://example.org/feed", {"/feed": reply(FEED, kind="application/rss+xml")}),
    ("packed", "https://example.org/z", {"/z": reply(gzip.compress(HTML.encode()), content_encoding="gzip")}),
    ("in pieces", "https://example.org/c", {"/c": CHUNKED}),
    ("moved", "http://example.org/old", {"/old": redirect("https://www.example.org/new"), "/new": reply(HTML)}),
    ("moved nearby", "http://example.org/a/b?x", {"/a/b?x": redirect("../c?y=1"), "/c?y=1": reply(HTML)}),
    ("moved to a new query", "http://example.org/a", {"/a": redirect("?page=2"), "/a?page=2": reply(HTML)}),
    ("moved with blanks", "http://example.org/a", {"/a": redirect("/b c"), "/b%20c": reply(HTML)}),
    ("a missing page", "https://example.org/no", {"/no": reply("All is well", status="404 Not Found")}),
]


class Rerouted:
    """Sends every request to one server, wherever it was going."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, proxy: str | None) -> httpx2.AsyncBaseTransport:
        inner = httpx2.AsyncHTTPTransport(trust_env=False)

        async def handle(request: httpx2.Request) -> httpx2.Response:
            url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
            return await inner.handle_async_request(httpx2.Request(request.method, url, headers=request.headers))

        return httpx2.MockTransport(handle)


@pytest.mark.parametrize(("what", "url", "pages"), EVERYDAY, ids=[what for what, *_ in EVERYDAY])
async def test_an_everyday_fetch_is_not_refused(
    bench: Bench, web: WebServer, what: str, url: str, pages: dict[str, Reply]
) -> None:
    """It gives the text, from the default settings."""
    web.pages |= pages
    names = ("example.org", "www.example.org", "api.example.org", "xn--bcher-kva.example", "my_site.example.org")
    resolve = Names({name: [[PUBLIC, PUBLIC_6]] for name in names})
    (tool,) = web_tools(WebSettings(), environ={}, resolve=resolve, make_transport=Rerouted(web.port))

    assert "All is well" in await bench.text(tool, url=url)


async def test_the_second_address_is_tried_when_the_first_is_closed(bench: Bench, web: WebServer) -> None:
    """As browsers do; both were checked."""
    web.pages["/"] = reply("reached", kind="text/plain")
    names = Names(two_test=[["127.0.0.3", "127.0.0.1"]])

    assert "reached" in await bench.text(make_fetch("127.0.0.0/8", resolve=names), url=web.url(host="two.test"))


# -- certificates --------------------------------------------------------------------------------------------------------------


def certificate(name: str, place: Path) -> tuple[Path, Path]:
    """Write a certificate for a name, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = place / "cert.pem", place / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return file, secret


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncGenerator[tuple[WebServer, Path]]:
    """A server on 127.0.0.1 that can prove to be site.test."""
    file, secret = certificate("site.test", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    async with serving({"/": reply("secure", kind="text/plain")}, tls=context) as web:
        yield web, file


async def test_g08_the_certificate_is_checked_for_the_name_though_the_address_is_connected_to(
    bench: Bench, secure: tuple[WebServer, Path]
) -> None:
    """The right name is served, another is refused, and so is a certificate that nobody vouches for."""
    web, file = secure
    names = Names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])
    settings = WebSettings(allow_hosts=("127.0.0.1",))
    (trusting,) = web_tools(settings, environ={"SSL_CERT_FILE": str(file)}, resolve=names)
    (wary,) = web_tools(settings, environ={}, resolve=names)

    assert "secure" in await bench.text(trusting, url=f"https://site.test:{web.port}/")
    assert "certificate of other.test is not valid" in await bench.error(
        trusting, url=f"https://other.test:{web.port}/"
    )
    assert "certificate of site.test is not valid" in await bench.error(wary, url=f"https://site.test:{web.port}/")
    assert len(web.requests) == 1
