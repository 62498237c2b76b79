"""Resolve a host once and check what came; who connects, connects to exactly these addresses."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import TypeAlias

from nanobot.agent.tools.web.addresses import Address, inside, is_metadata
from nanobot.agent.tools.web.targets import AllowList, Target, how_to_allow, refused_by_name
from nanobot.errors import ToolError

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""A host's addresses, best first; ``OSError`` when there are none."""


async def system_resolve(host: str, port: int) -> list[Address]:
    """Ask the system, in a thread."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(sockaddr[0])) for *_, sockaddr in found))


class Guard:
    """Lets a target's addresses through, or says why not.

    Args:
        allow: the inside that the owner opens.
        resolve: asked once for each target that is no address itself.
    """

    def __init__(self, allow: AllowList, *, resolve: Resolve = system_resolve) -> None:
        self.allow = allow
        self._resolve = resolve

    def check_name(self, target: Target) -> None:
        """Refuse what is known without asking anybody: hosts, ports, addresses that the URL names itself.

        Raises:
            ToolError: names the rule and how to allow it.
        """
        if fault := refused_by_name(target, self.allow):
            raise ToolError(f"refused: {fault}.")
        if target.literal is not None:
            self._check(target, target.literal)

    async def addresses(self, target: Target) -> list[Address]:
        """Return the addresses that may be connected to, best first.

        One that is inside refuses the whole host: a name that leads here and there is no honest one.

        Raises:
            ToolError: as ``check_name``; or the host cannot be found.
        """
        self.check_name(target)
        if target.literal is not None:
            return [target.literal]
        try:
            found = list(await self._resolve(target.host, target.port))
        except (OSError, UnicodeError):
            found = list[Address]()
        if not found:
            raise ToolError(f"the host {target.host!r:.100} cannot be found; look at its spelling.")
        for address in found:
            self._check(target, address)
        return found

    def _check(self, target: Target, address: Address) -> None:
        leads = f"{target.host} is" if target.literal is not None else f"{target.host} leads to {address}, which is"
        if is_metadata(address):
            raise ToolError(f"refused: {leads} a cloud's metadata service, which hands out keys; nothing allows it.")
        kind = inside(address)
        if kind is None or self.allow.has_name(target) or self.allow.has_address(address, target.port):
            return
        raise ToolError(f"refused: {leads} not on the public internet ({kind}); {how_to_allow(target)}.")
