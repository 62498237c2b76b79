"""Addresses and proxies."""

import pytest

from nanobot.errors import ConfigError
from nanobot.providers.endpoint import first_token_s, is_private, proxy_for
from nanobot.providers.settings import TimeoutSettings

OPENAI = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.7", True),
        ("http://localhost:1234", True),
        ("http://ollama:11434", True),
        ("http://gpu.local", True),
        (OPENAI, False),
        ("https://8.8.8.8/", False),
    ],
)
def test_private_addresses(url: str, expected: bool) -> None:
    """This machine and private networks are told from the rest of the world."""
    assert is_private(url) is expected


def test_e17_a_local_server_may_take_long_to_begin() -> None:
    """Loading a model takes minutes; a cloud takes seconds; the settings win."""
    assert first_token_s(TimeoutSettings(), "http://localhost:11434") == 600
    assert first_token_s(TimeoutSettings(), OPENAI) == 120
    assert first_token_s(TimeoutSettings(first_token_s=5), "http://localhost:11434") == 5


@pytest.mark.parametrize(
    ("url", "configured", "environ", "expected"),
    [
        (OPENAI, None, {}, None),
        (OPENAI, None, {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        (OPENAI, None, {"https_proxy": "p:1"}, "http://p:1"),
        (OPENAI, None, {"http_proxy": "http://p:1"}, None),
        (OPENAI, None, {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        (OPENAI, None, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com, .openai.com"}, None),
        (OPENAI, None, {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, None),
        (OPENAI, None, {"HTTPS_PROXY": "http://p:1", "no_proxy": "enai.com"}, "http://p:1"),
        ("http://127.0.0.1:11434/v1", None, {"HTTP_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "socks://x:1"}, None),
        ("http://127.0.0.1:11434/v1", "http://mine:1", {}, "http://mine:1"),
        (OPENAI, "http://mine:1", {"HTTPS_PROXY": "http://p:1"}, "http://mine:1"),
    ],
)
def test_e20_proxies(url: str, configured: str | None, environ: dict[str, str], expected: str | None) -> None:
    """Private servers bypass the environment's proxies, a configured proxy always counts."""
    assert proxy_for(url, provider="o", configured=configured, environ=environ) == expected


@pytest.mark.parametrize(
    ("configured", "environ", "named"),
    [
        (None, {"ALL_PROXY": "socks://user:pass@127.0.0.1:7892"}, "ALL_PROXY"),
        (None, {"https_proxy": "ftp://user:pass@h:1"}, "https_proxy"),
        ("gopher://user:pass@h", {}, r"providers\.o\.proxy"),
        ("http://user:pass@h:99999", {}, r"providers\.o\.proxy"),
    ],
)
def test_e20_a_proxy_that_cannot_work_is_named(configured: str | None, environ: dict[str, str], named: str) -> None:
    """The error names the variable or the key, never the address with its password."""
    with pytest.raises(ConfigError, match=named) as caught:
        proxy_for(OPENAI, provider="o", configured=configured, environ=environ)
    assert "pass" not in str(caught.value)
