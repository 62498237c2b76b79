"""Which addresses are inside: not the public internet, but this machine, its networks, and what leads back to them.

Pure, and by tables of our own: what Python calls global differs between its patch releases.  Of IPv6 only 2000::/3 is public at
all; addresses that carry an IPv4 one in them are refused, except NAT64's, which a network without IPv4 gives for every site: there
the carried address decides.  Tables after the IANA special-purpose registries.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_INSIDE_4 = (
    (IPv4Network("127.0.0.0/8"), "this machine"),
    (IPv4Network("0.0.0.0/8"), "this machine"),
    (IPv4Network("10.0.0.0/8"), "a private network"),
    (IPv4Network("172.16.0.0/12"), "a private network"),
    (IPv4Network("192.168.0.0/16"), "a private network"),
    (IPv4Network("100.64.0.0/10"), "a shared network (carriers, Tailscale)"),
    (IPv4Network("169.254.0.0/16"), "link-local"),
    (IPv4Network("192.0.0.0/24"), "reserved"),
    (IPv4Network("192.0.2.0/24"), "reserved for documentation"),
    (IPv4Network("198.51.100.0/24"), "reserved for documentation"),
    (IPv4Network("203.0.113.0/24"), "reserved for documentation"),
    (IPv4Network("192.88.99.0/24"), "a 6to4 relay"),
    (IPv4Network("198.18.0.0/15"), "reserved for benchmarks (and used by some proxies)"),
    (IPv4Network("224.0.0.0/4"), "multicast"),
    (IPv4Network("240.0.0.0/4"), "reserved"),
)
_INSIDE_6 = (
    (IPv6Network("::1/128"), "this machine"),
    (IPv6Network("::/128"), "this machine"),
    (IPv6Network("::ffff:0:0/96"), "an IPv4 address inside an IPv6 one"),
    (IPv6Network("::/96"), "an IPv4 address inside an IPv6 one"),
    (IPv6Network("2002::/16"), "6to4, an IPv4 address inside an IPv6 one"),
    (IPv6Network("2001::/32"), "Teredo, an IPv4 address inside an IPv6 one"),
    (IPv6Network("64:ff9b:1::/48"), "a network's own NAT64"),
    (IPv6Network("2001::/23"), "reserved"),
    (IPv6Network("2001:db8::/32"), "reserved for documentation"),
    (IPv6Network("3fff::/20"), "reserved for documentation"),
    (IPv6Network("fc00::/7"), "a private network"),
    (IPv6Network("fe80::/10"), "link-local"),
    (IPv6Network("fec0::/10"), "a private network"),
    (IPv6Network("ff00::/8"), "multicast"),
)
_NAT64 = IPv6Network("64:ff9b::/96")
_PUBLIC_6 = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)

# Where clouds hand out their machines' keys.  Nothing may be asked there, whatever the owner allows.
_METADATA: frozenset[Address] = frozenset(
    (
        IPv4Address("169.254.169.254"),  # AWS, Google, Azure, Oracle, DigitalOcean, Hetzner and others
        IPv4Address("169.254.169.253"),
        IPv4Address("169.254.170.2"),  # AWS containers
        IPv4Address("169.254.170.23"),
        IPv4Address("169.254.0.23"),  # Tencent
        IPv4Address("100.100.100.200"),  # Alibaba
        IPv4Address("168.63.129.16"),  # Azure's host, on a public address
        IPv4Address("192.0.0.192"),  # Oracle, older
        IPv6Address("fd00:ec2::254"),
        IPv6Address("fd00:ec2::23"),
        IPv6Address("fd20:ce::254"),  # Google
    )
)


def is_metadata(address: Address) -> bool:
    """Say whether a cloud's metadata service answers there, also by way of an IPv6 address that carries its IPv4 one."""
    return address in _METADATA or any(inner in _METADATA for inner in carried(address))


def inside(address: Address) -> str | None:
    """Return what makes the address no public one, or None."""
    if isinstance(address, IPv4Address):
        return _first(_INSIDE_4, address)
    if address.scope_id is not None:
        return "bound to one interface"
    if address in _NAT64:
        kind = inside(_low(address))
        return kind and f"{kind}, through NAT64"
    if (kind := _first(_INSIDE_6, address)) is not None:
        return kind
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        return "ISATAP, an IPv4 address inside an IPv6 one"
    return None if address in _PUBLIC_6 else "reserved"


def carried(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 one may lead to."""
    if isinstance(address, IPv4Address):
        return ()
    found = [_low(address)]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    return tuple(found)


def _low(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFFFFFF)


def _first(table: Iterable[tuple[Network, str]], address: Address) -> str | None:
    return next((kind for network, kind in table if address in network), None)
