"""What a URL names, read strictly, and what the owner lets in.

Pure.  Browsers read many strings as addresses (``0x7f.1``, ``①②⑦.0.0.1``, ``http:\\\\host``) and libraries disagree about the
rest; a URL that could be read in two ways is refused instead, with the plain way to write it.  The connection is made from what is
parsed here, so no other parser's opinion counts.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import quote, urljoin

from nanobot.agent.tools.web.addresses import Address, Network
from nanobot.errors import ToolError
from nanobot.values import frozen

MAX_URL_CHARS = 4_096
DEFAULT_PORTS = {"http": 80, "https": 443}

_OTHER_SCHEME = re.compile(r"(?!https?:)([A-Za-z][A-Za-z0-9+.-]*):(?![0-9])", re.IGNORECASE)
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL | re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@%]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")

# Names under which clouds hand out their machines' keys.
_METADATA_NAMES = frozenset(
    ("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal")
)
# Ports of protocols that take commands from whatever is sent to them, as the Fetch standard lists them, with Redis and memcached.
_NO_WEB_PORTS = frozenset(
    map(
        int,
        re.findall(
            r"\d+",
            """1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135
            137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719
            1720 1723 2049 3659 4045 4190 5060 5061 6000 6379 6566 6665 6666 6667 6668 6669 6679 6697 10080 11211""",
        ),
    )
)


@frozen
class Target:
    """Where a request goes.

    ``host`` is a name in its ASCII form, lower case, or an address; ``path`` begins with a slash and holds the query.
    ``literal`` is the address when the URL names one.
    """

    scheme: str
    host: str
    port: int
    path: str
    literal: Address | None = None

    @property
    def authority(self) -> str:
        """The host and, where it is not the scheme's own, the port: the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


@frozen
class Allowed:
    """One entry of ``tools.web.allow_hosts``: a name or a network, on one port or (None) any."""

    name: str | None
    network: Network | None
    port: int | None


@frozen
class AllowList:
    """The inside that the owner opens.  A name is trusted wherever it resolves to."""

    entries: tuple[Allowed, ...] = ()

    def has_name(self, target: Target) -> bool:
        """Say whether the URL's own host and port are named."""
        return any(e.name == target.host and e.port in (None, target.port) for e in self.entries)

    def has_address(self, address: Address, port: int) -> bool:
        """Say whether the address lies in a network that is open on this port."""
        return any(e.network is not None and address in e.network and e.port in (None, port) for e in self.entries)

    def has_port(self, target: Target) -> bool:
        """Say whether an entry names this very port of this host."""
        return any(
            e.port == target.port
            and (e.name == target.host or (target.literal is not None and self.has_address(target.literal, e.port)))
            for e in self.entries
            if e.port is not None
        )


def parse_allowed(entry: str) -> Allowed:
    """Read an entry: ``host``, ``host:port``, ``127.0.0.1:8080``, ``[::1]:8080``, ``100.64.0.0/10``, ``fd7a:115c:a1e0::/48``.

    Raises:
        ValueError: it is none of these.
    """
    text = entry.strip().lower()
    if "/" in text or (text.count(":") > 1 and not text.startswith("[")):
        return Allowed(None, _network(text), None)
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise ValueError(_entry_fault(entry))
    host, port = match.group(1), int(match.group(2)) if match.group(2) else None
    if port is not None and not 0 < port < 65_536:
        raise ValueError(_entry_fault(entry))
    try:
        name, literal = _host(host)
    except ToolError as error:
        raise ValueError(f"{_entry_fault(entry)}: {error}") from None
    return Allowed(None, ip_network(literal), port) if literal else Allowed(name, None, port)


def _network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise ValueError(_entry_fault(text)) from None


def _entry_fault(entry: str) -> str:
    return f"{entry!r:.100} is no host, host:port or network such as 100.64.0.0/10"


def parse_url(text: str) -> Target:
    """Return what the URL names.

    Raises:
        ToolError: it names nothing that may be fetched, or could be read in two ways; says which rule and how to write it.
    """
    text = text.strip()
    if len(text) > MAX_URL_CHARS:
        raise ToolError(f"the URL is longer than {MAX_URL_CHARS:,} characters.")
    if _UNSAFE.search(text):
        raise ToolError("the URL holds a blank, a backslash or a control character; write them percent-encoded (%20).")
    if other := _OTHER_SCHEME.match(text):
        raise ToolError(f"only http and https are fetched, not {other.group(1)[:20]!r}.")
    match = _URL.fullmatch(text)
    if match is None:
        raise ToolError("this is no whole URL; write https://host/path.")
    scheme = match.group(1).lower()
    if "@" in match.group(2):
        raise ToolError("the URL holds a user name or password before an @; leave that out, nothing of it is sent.")
    authority = _AUTHORITY.fullmatch(match.group(2))
    if authority is None:
        raise ToolError(f"{match.group(2)!r:.100} is no host; write a name or an address, without percent-encoding.")
    host, literal = _host(authority.group(1))
    port = int(authority.group(2) or DEFAULT_PORTS[scheme])
    if not 0 < port < 65_536:
        raise ToolError(f"there is no port {port}.")
    return Target(scheme, host, port, _path(match.group(3), match.group(4) or ""), literal)


def resolve_reference(base: Target, reference: str) -> Target:
    """Return where a Location header leads.  Raises as ``parse_url``."""
    # Servers write blanks and raw UTF-8 there: these have one reading
    plain = quote(reference.strip(), safe="!#$%&'()*+,/:;=?@[]~\\", encoding="utf-8", errors="replace")
    try:
        return parse_url(urljoin(str(base), plain))
    except ValueError:  # urljoin's, of brackets that do not close
        raise ToolError("the redirect leads to no URL.") from None


def refused_by_name(target: Target, allow: AllowList) -> str | None:
    """Return why this host or port is never asked, or None.  Addresses are judged once they are known."""
    if target.host in _METADATA_NAMES:
        return f"{target.host} is a cloud's metadata service, which hands out keys; nothing allows it"
    if target.port in _NO_WEB_PORTS and not allow.has_port(target):
        return f"port {target.port} belongs to another protocol than the web's; {how_to_allow(target)}"
    return None


def how_to_allow(target: Target) -> str:
    """Say what an owner would write to let this target in."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"an owner can allow it with tools.web.allow_hosts: ['{host}:{target.port}']"


def _path(path: str, query: str) -> str:
    # What is there already percent-encoded stays; the rest becomes what may stand in a request line
    return quote((path or "/") + query, safe="/%:@!$&'()*+,;=~?-._[]|^", errors="replace")


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        try:
            address = IPv6Address(text[1:-1])
        except ValueError:
            raise ToolError(f"{text!r:.100} is no IPv6 address.") from None
        return str(address), address
    name = _ascii(text).removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # the URL standard: a last label that is a number makes the whole an IPv4 address
        try:
            return name, IPv4Address(name)
        except ValueError:
            raise ToolError(f"{text!r:.100} is an odd way to write an IPv4 address; write four decimals.") from None
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ToolError(f"{text!r:.100} is no host name.")
    return name, None


def _ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    import idna  # lazily: its tables take 0.6 MB, and few names need them

    try:
        return idna.encode(text, uts46=True).decode().lower()
    except (idna.IDNAError, UnicodeError):
        raise ToolError(f"{text!r:.100} is no host name.") from None
