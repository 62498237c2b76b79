"""Nothing inside is reached: by address, by name, by redirect, however it is written."""

import ipaddress
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanobot.agent.tools.web.addresses import inside, is_metadata
from nanobot.agent.tools.web.build import web_tools
from nanobot.agent.tools.web.settings import WebSettings
from nanobot.agent.tools.web.targets import AllowList, Target, parse_allowed, parse_url, resolve_reference
from nanobot.errors import ToolError
from tests.fakes.web import Names, WebServer, redirect, reply
from tests.unit.agent.tools.conftest import Bench
from tests.unit.agent.tools.web.conftest import Connections, make_fetch

LOOPBACK = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0177.0.0.1/",
    "http://0x7f.0.0.1/",
    "http://0x7f000001/",
    "http://0X7F.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://127.0.0.1./",
    "http://127.000.000.001/",
    "http://１２７.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://127。0。0。1/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.example.org/",
    "http://127.0.0.1%2f@example.org/",
    "http://example.org@127.0.0.1/",
    "http://example.org:80@127.0.0.1/",
    "http://127.0.0.1\\@example.org/",
    "http:\\\\127.0.0.1\\",
    "http:/127.0.0.1/",
    "http:127.0.0.1/",
    "//127.0.0.1/",
    "http://127.0.0.1:80:80/",
    "http://127.8.8.8/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://foo.localhost/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::80ff:fffe]/",
    "http://[2001:db8::1]/",
    "http://[fe80::5efe:7f00:1]/",
    "http://[2a00::5efe:7f00:1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1/",
    "http://::1/",
]
OTHERS = [
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://100.127.255.255/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.1.1/",
    "http://192.0.0.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://240.0.0.1/",
    "http://[fd00:ec2::254]/",
    "http://[fc00::1]/",
    "http://[fe80::1]/",
    "http://[ff02::1]/",
    "http://[fec0::1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[100::1]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://METADATA.google.internal./",
    "http://metadata/",
    "http://168.63.129.16/",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "gopher://127.0.0.1:70/_x",
    "ftp://example.org/x",
    "data:text/html,hello",
    "javascript:alert(1)",
    "unix:///run/docker.sock",
    "http://user:secret@example.org/",
    "http://example.org:25/",
    "http://example.org:6379/",
    "http://example.org:0/",
    "http://example.org:99999/",
    "http://exa mple.org/",
    "http://example.org\r\nX: y/",
    "http:///x",
    "http://",
    "",
    "http://a..b/",
]


@pytest.mark.parametrize("url", [*LOOPBACK, *OTHERS])
async def test_g08_whatever_way_it_is_written_nothing_inside_is_asked(bench: Bench, url: str) -> None:
    """Each is a tool error, and no connection is begun."""
    names = Names({"example.org": [["93.184.216.34"]], "localhost": [["127.0.0.1"]], "foo.localhost": [["::1"]]})
    watch = Connections([])

    error = await bench.error(make_fetch(resolve=names, watch=watch), url=url)

    assert "fault of the tool" not in error
    assert watch.made == []


@pytest.mark.parametrize("inside", ["127.0.0.1", "10.1.2.3", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1"])
async def test_g08_a_name_that_leads_inside_is_refused(bench: Bench, inside: str) -> None:
    """Even when another of its addresses is public, and the error says how an owner allows it."""
    watch = Connections([])
    tool = make_fetch(resolve=Names(rebind_test=[["93.184.216.34", inside]]), watch=watch)

    error = await bench.error(tool, url="http://rebind.test:8000/")

    assert "rebind.test leads to" in error
    assert ("tools.web.allow_hosts: ['rebind.test:8000']" in error) != ("metadata" in error)
    assert watch.made == []


async def test_g08_a_name_that_changes_between_check_and_connect_reaches_what_was_checked(bench: Bench) -> None:
    """It is resolved once; that address is connected to, with the name as Host and for the certificate."""
    names = Names(rebind_test=[["93.184.216.34"], ["127.0.0.1"]])
    watch = Connections([], requests=[])

    text = await bench.text(make_fetch(resolve=names, watch=watch), url="https://rebind.test/x?y=1#z")

    assert "reached" in text
    assert names.asked == ["rebind.test"]
    assert watch.made == [("93.184.216.34", 443)]
    assert watch.requests is not None
    (request,) = watch.requests
    assert request.headers["host"] == "rebind.test"
    assert request.extensions["sni_hostname"] == "rebind.test"
    assert request.url.raw_path == b"/x?y=1"


async def test_g08_each_redirect_is_checked_again(bench: Bench, web: WebServer) -> None:
    """A chain from an allowed host to the inside ends before the inside is asked."""
    web.pages["/a"] = redirect("/b")
    web.pages["/b"] = redirect(f"http://127.0.0.2:{web.port}/secret")
    web.pages["/secret"] = reply("the secret")

    error = await bench.error(make_fetch(f"127.0.0.1:{web.port}"), url=web.url("/a"))

    assert "after 2 redirects: refused: 127.0.0.2 is not on the public internet" in error
    assert "allow_hosts" in error
    assert [head.split()[1] for head in web.requests] == ["/a", "/b"]


@pytest.mark.parametrize(
    "to",
    [
        "file:///etc/passwd", "gopher://127.0.0.1/", "ftp://127.0.0.1/", "data:text/plain,x", "//169.254.169.254/",
        "http://0x7f.1/", "http://user@127.0.0.1/", "http://[::1]/", "\\\\127.0.0.1\\x", "http://[", "https:",
        "http://metadata.google.internal/", "http://127.0.0.1\t:1/", "http://127.0.0.1:22/",
    ],
)  # fmt: skip
async def test_g08_no_redirect_leads_to_what_may_not_be_asked(bench: Bench, web: WebServer, to: str) -> None:
    """Whatever scheme or spelling the Location header has."""
    web.pages["/a"] = redirect(to)
    watch = Connections([], really=True)

    error = await bench.error(make_fetch(f"127.0.0.1:{web.port}", watch=watch), url=web.url("/a"))

    assert "fault of the tool" not in error
    assert watch.made == [("127.0.0.1", web.port)]


async def test_redirects_end(bench: Bench, web: WebServer) -> None:
    """A circle and an endless chain are noticed."""
    web.pages["/a"] = redirect("/b")
    web.pages["/b"] = redirect("/a")
    for n in range(20):
        web.pages[f"/{n}"] = redirect(f"/{n + 1}")
    tool = make_fetch(f"127.0.0.1:{web.port}")

    assert "in a circle" in await bench.error(tool, url=web.url("/a"))
    assert "more than 10 redirects" in await bench.error(tool, url=web.url("/0"))


@pytest.mark.parametrize(
    ("allow", "url", "address"),
    [
        ("localhost:8080", "http://localhost:8080/", "127.0.0.1"),
        ("localhost", "http://LocalHost:9867/health", "127.0.0.1"),
        ("127.0.0.1:9867", "http://127.0.0.1:9867/", "127.0.0.1"),
        ("127.0.0.0/8", "http://box.test/", "127.0.0.1"),
        ("100.64.0.0/10", "http://100.100.1.1/", "100.100.1.1"),
        ("fd7a:115c:a1e0::/48", "http://[fd7a:115c:a1e0::1]/", "fd7a:115c:a1e0::1"),
        ("[::1]:8080", "http://[::1]:8080/", "::1"),
        ("nas.test", "http://nas.test/", "192.168.1.5"),
        ("example.test:6379", "http://example.test:6379/", "93.184.216.34"),
    ],
)
async def test_g16_the_owner_opens_hosts_ports_and_networks(bench: Bench, allow: str, url: str, address: str) -> None:
    """What is on the list is reached."""
    watch = Connections([])
    names = Names(
        localhost=[["127.0.0.1"]],
        box_test=[["127.0.0.1"]],
        nas_test=[["192.168.1.5"]],
        example_test=[["93.184.216.34"]],
    )

    assert "reached" in await bench.text(make_fetch(allow, resolve=names, watch=watch), url=url)
    assert [host for host, _ in watch.made] == [address]


@pytest.mark.parametrize(
    ("allow", "url"),
    [
        ("localhost:8080", "http://localhost:8081/"),
        ("127.0.0.1:8080", "http://127.0.0.1:8081/"),
        ("100.64.0.0/10", "http://100.100.100.200/latest/meta-data"),
        ("169.254.0.0/16", "http://169.254.169.254/"),
        ("0.0.0.0/0", "http://169.254.169.254/"),
        ("metadata.google.internal", "http://metadata.google.internal/"),
        ("fd00::/8", "http://[fd00:ec2::254]/"),
        ("0.0.0.0/0", "http://[::ffff:169.254.169.254]/"),
        ("::/0", "http://[::ffff:169.254.169.254]/"),
        ("box.test", "http://box.test/"),
    ],
)
async def test_g16_and_nothing_beside_them_nor_ever_a_metadata_service(bench: Bench, allow: str, url: str) -> None:
    """A port opens that port; keys of the cloud stay closed under any entry."""
    watch = Connections([])
    names = Names(localhost=[["127.0.0.1"]], box_test=[["169.254.169.254"]])

    assert "refused" in await bench.error(make_fetch(allow, resolve=names, watch=watch), url=url)
    assert watch.made == []


@pytest.mark.parametrize(
    "entry", ["", "http://localhost", "a b", "10.0.0.0/99", "host:0", "host:x", "0x7f.1", "*.lan", "user@h"]
)
def test_an_entry_that_is_none_is_refused(entry: str) -> None:
    """A slip in the list stops the start."""
    with pytest.raises(ValueError, match="is no host, host:port or network"):
        parse_allowed(entry)


async def test_e20_a_proxy_of_the_environment_is_not_used(
    bench: Bench, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither it nor its passwords: what is connected to would be its choice."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "socks://user:secret@127.0.0.1:9")
    web.pages["/"] = reply("direct", kind="text/plain")

    assert "direct" in await bench.text(make_fetch(f"127.0.0.1:{web.port}"), url=web.url())
    assert "secret" not in web.requests[0]


async def test_a_proxy_of_the_settings_resolves_names_itself(bench: Bench, web: WebServer) -> None:
    """The name goes to it unresolved; addresses inside are refused as ever, and what the owner opened is asked directly."""
    web.pages["http://site.test/x"] = reply("by proxy", kind="text/plain")
    web.pages["/"] = reply("direct", kind="text/plain")
    names = Names()
    tool = make_fetch(f"127.0.0.1:{web.port}", resolve=names, more={"proxy": f"http://127.0.0.1:{web.port}"})

    assert "by proxy" in await bench.text(tool, url="http://site.test/x")
    assert "refused" in await bench.error(tool, url="http://10.0.0.1/")
    assert "refused" in await bench.error(tool, url="http://metadata.google.internal/")
    assert "direct" in await bench.text(tool, url=web.url())
    assert names.asked == []


# -- properties ----------------------------------------------------------------------------------------------------------------

addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


@given(addresses)
def test_python_knows_no_private_address_that_we_let_through(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """Our tables are not laxer than the standard library's, NAT64's carried addresses apart."""
    private = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
    )
    nat64 = address in ipaddress.ip_network("64:ff9b::/96")

    assert not private or nat64 or inside(address) is not None


def test_what_nat64_carries_decides() -> None:
    """A network without IPv4 reaches the public internet through it, and nothing else."""
    assert inside(ipaddress.ip_address("64:ff9b::93.184.216.34")) is None
    assert is_metadata(ipaddress.ip_address("64:ff9b::169.254.169.254"))


pieces = st.sampled_from(
    ["http://", "https:", "//", "/", "\\", "@", ":", "?", "#", "[", "]", "%", "%00", "%2f", ".", "..", "127", "0x7f", "1", "0177",
     "localhost", "example.org", "::1", "ffff", "２", "。", "é", "\t", " ", "\n", "80", "99999", "user", "\x00", "\ud800"]
)  # fmt: skip
urls = st.one_of(st.text(max_size=80), st.lists(pieces, max_size=12).map("".join), pieces.map(lambda p: f"http://{p}"))


@given(urls, urls)
@settings(max_examples=300)
def test_any_url_is_read_or_is_a_tool_error(text: str, reference: str) -> None:
    """Never another exception; and what is read survives being written and read again."""
    base = Target("http", "example.org", 80, "/a/b?c")
    for read in (lambda: parse_url(text), lambda: resolve_reference(base, reference)):
        try:
            target = read()
        except ToolError:
            continue

        assert parse_url(str(target)) == target
        assert target.path.isascii()
        assert not set(target.path) & set(" \r\n\t")


@given(text=urls)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_no_url_connects_to_what_is_inside(bench: Bench, text: str) -> None:
    """With every name leading to this machine, nothing is ever connected to."""
    watch = Connections([])

    async def here(host: str, port: int) -> list[Any]:
        return [ipaddress.ip_address("127.0.0.1")]

    observation = await bench.call(make_fetch(resolve=here, watch=watch), url=text)

    assert "fault of the tool" not in observation.text
    assert all(inside(ipaddress.ip_address(host)) is None for host, _ in watch.made)


@given(st.lists(urls, min_size=1, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_no_redirect_connects_to_what_is_inside(bench: Bench, places: list[str]) -> None:
    """Whatever a public server says in its Location headers."""
    made: list[str] = []
    said = iter(places)

    def transport(proxy: str | None) -> httpx2.AsyncBaseTransport:
        return httpx2.MockTransport(answer)

    def answer(request: httpx2.Request) -> httpx2.Response:
        made.append(request.url.host)
        place = next(said, None)
        headers = [] if place is None else [(b"location", place.encode("utf-8", "replace"))]
        return httpx2.Response(200 if place is None else 302, headers=headers)

    names = Names({"example.org": [["93.184.216.34"]], "localhost": [["127.0.0.1"]]})
    (tool,) = web_tools(WebSettings(), environ={}, resolve=names, make_transport=transport)

    observation = await bench.call(tool, url="http://example.org/")

    assert "fault of the tool" not in observation.text
    assert set(made) <= {"93.184.216.34"}


def test_the_allow_list_is_empty_by_default() -> None:
    """Nobody opened anything."""
    assert not AllowList().has_address(ipaddress.ip_address("127.0.0.1"), 80)
