"""Addresses in a configuration: checked when it is read, in one place for everybody who has a ``base_url``.  Pure."""

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit


def checked_url(value: str) -> str:
    """Return an http(s) address as it is.

    Raises:
        ValueError: a client would stumble over it at its first call; says what is wrong, never the value.
    """
    if not re.match(r"https?://[^/?#]", value):
        raise ValueError("expected an address that begins with http:// or https:// and a host")
    if re.search(r"[\s\x00-\x1f\x7f]", value):
        raise ValueError("an address holds no blanks and no control characters")
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
        if "[" in parts.netloc:
            IPv6Address(host)
        host.encode("idna" if not host.isascii() else "ascii")
    except ValueError:
        host = ""
    if not host:
        raise ValueError("this address names no host that can be read; an IPv6 one is written http://[::1]:8080/v1")
    try:
        _ = urlsplit(value).port
    except ValueError:
        raise ValueError("the port of this address is no number between 0 and 65535") from None
    return value
