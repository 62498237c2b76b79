"""The proxy of commands: where a request wants to go, and whether it may."""

import pytest

from nanobot.agent.tools.sandbox.proxy import Refused, Target, allowed, target_of


@pytest.mark.parametrize(
    ("head", "target"),
    [
        (b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443", Target("example.org", 443, b"")),
        (b"CONNECT [2001:db8::1]:443 HTTP/1.1", Target("2001:db8::1", 443, b"")),
        (b"CONNECT EXAMPLE.org.:443 HTTP/1.1", Target("example.org", 443, b"")),
        (
            b"GET http://example.org/a?b HTTP/1.1\r\nHost: inner.example\r\nAccept: */*\r\nProxy-Connection: keep-alive",
            Target(
                "example.org",
                80,
                b"GET /a?b HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            ),
        ),
        (
            b"GET http://me:word@example.org:81 HTTP/1.0",
            Target("example.org", 81, b"GET / HTTP/1.0\r\nHost: example.org:81\r\nConnection: close\r\n\r\n"),
        ),
    ],
)
def test_a_request_is_read_as_it_will_be_sent(head: bytes, target: Target) -> None:
    """The host that is checked is the host that is connected to and named there, whatever other headers say."""
    assert target_of(head) == target


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET / HTTP/1.1",
        b"GET ftp://example.org/ HTTP/1.1",
        b"CONNECT example.org HTTP/1.1",
        b"CONNECT example.org:http HTTP/1.1",
        b"CONNECT :443 HTTP/1.1",
        b"CONNECT example.org:0 HTTP/1.1",
        b"CONNECT example.org:99999 HTTP/1.1",
        b"CONNECT example.org:\xb2 HTTP/1.1",
    ],
)
def test_what_is_no_request_is_refused(head: bytes) -> None:
    """What cannot be read is not guessed at."""
    with pytest.raises(Refused) as refusal:
        target_of(head)

    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("host", "port", "rules", "may"),
    [
        ("example.org", 443, ["example.org"], True),
        ("example.org", 8080, ["example.org:8080"], True),
        ("example.org", 443, ["example.org:8080"], False),
        ("a.example.org", 443, ["example.org"], False),
        ("a.b.example.org", 443, ["*.example.org"], True),
        ("example.org", 443, ["*.example.org"], False),
        ("badexample.org", 443, ["*.example.org", "example.org"], False),
        ("example.org.evil.net", 443, ["example.org"], False),
        ("example.org", 443, ["EXAMPLE.org"], True),
        ("::1", 80, ["[::1]"], True),
        ("::1", 81, ["[::1]:80"], False),
        ("example.org", 443, [], False),
    ],
)
def test_rules_let_through_what_they_name(host: str, port: int, rules: list[str], may: bool) -> None:
    """A host is itself, a star is what lies below it, a port is that port."""
    assert allowed(Target(host, port, b""), rules) is may
