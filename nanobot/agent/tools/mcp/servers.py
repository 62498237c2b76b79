"""All MCP servers of one agent: started together, waited for a moment by new conversations, closed together.

Nothing here waits for a server unless somebody asks for it: the daemon starts, answers and ends as if there were none.
"""

import asyncio
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.mcp.names import label_of, server_label
from nanobot.agent.tools.mcp.settings import McpServerSettings, McpSettings
from nanobot.errors import ConfigError

if TYPE_CHECKING:
    from nanobot.agent.tools.mcp.remote import Body, Listing, Serve
    from nanobot.agent.tools.mcp.server import Backoff, Server

LOGINS = "mcp"
"""The directory of OAuth logins, below the data directory."""
PLACES = "servers"
"""The directory of the places where commands run, below the data directory."""

Replace = Callable[[str, Sequence[Tool[Any]]], None]
Connect = Callable[[str, McpServerSettings], "Serve"]


class McpServers:
    """The servers that the settings enable.

    Args:
        settings: the ``tools.mcp`` part of the configuration.
        connect: makes a way to connect to one; the real one when None.
        data_dir: where logins and files are kept, and where commands run.
        redact: takes secrets out of what servers say of themselves.
        backoff: how patiently servers are started again.

    Raises:
        ConfigError: servers are configured, and the SDK is not installed.
    """

    def __init__(
        self,
        settings: McpSettings,
        *,
        data_dir: Path,
        redact: Callable[[str], str],
        connect: Connect | None = None,
        backoff: "Backoff | None" = None,
    ) -> None:
        enabled = {name: one for name, one in settings.servers.items() if one.enabled}
        if enabled and connect is None and importlib.util.find_spec("mcp") is None:
            raise ConfigError("tools.mcp.servers: this needs one more package: pip install 'nanobot[mcp]'")
        self._wait_s = settings.wait_s
        self._began = time.monotonic()
        self._replace: Replace | None = None
        self._servers: dict[str, Server] = {}
        if enabled:
            connect = connect or sdk_connect(data_dir=data_dir)
            self._servers = self._made(enabled, connect, redact, backoff)

    def _made(
        self,
        enabled: Mapping[str, McpServerSettings],
        connect: Connect,
        redact: Callable[[str], str],
        backoff: "Backoff | None",
    ) -> "dict[str, Server]":
        from nanobot.agent.tools.mcp.server import Backoff, Server  # lazily: only where there are servers

        return {
            name: Server(
                name,
                one,
                connect(name, one),
                listed=lambda listing, name=name: self._listed(name, listing),
                redact=redact,
                backoff=backoff or Backoff(),
            )
            for name, one in enabled.items()
        }

    @property
    def sources(self) -> frozenset[str]:
        """The sources of tools that there are, whether they are up or not."""
        return frozenset(map(source_of, self._servers))

    def tools(self) -> list[Tool[Any]]:
        """Return the tools that are there however the servers are."""
        servers = self._servers
        if not servers:
            return []
        from nanobot.agent.tools.mcp.tools import GetPrompt, ListResources, ReadResource  # lazily, as above

        return [ListResources(servers), ReadResource(servers), GetPrompt(servers)]

    def start(self, replace_tools: Replace) -> None:
        """Begin to start them; ``replace_tools`` is told each server's tools whenever they change."""
        self._replace = replace_tools
        self._began = time.monotonic()
        for server in self._servers.values():
            server.start()

    async def settled(self) -> None:
        """Wait until each has come up or failed, but not for long after the start."""
        left_s = self._began + self._wait_s - time.monotonic()
        waiting = [server.settled.wait() for server in self._servers.values() if not server.settled.is_set()]
        if not waiting or left_s <= 0:
            for one in waiting:
                one.close()
            return
        try:
            async with asyncio.timeout(left_s):
                await asyncio.gather(*waiting)
        except TimeoutError:
            pass

    async def close(self) -> None:
        """End them all at once, within the time that one may take."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    def absent(self, name: str) -> Tool[Any] | None:
        """Return what stands in for a tool that is not there because its server is not up, or has changed it."""
        label = server_label(name)
        server = next((one for one in self._servers.values() if label and label_of(one.name) == label), None)
        if server is None:
            return None
        from nanobot.agent.tools.mcp.tools import absent_tool  # lazily, as above

        return absent_tool(server, name)

    def lines(self) -> list[str]:
        """Return a line on each."""
        return [server.line() for server in self._servers.values()]

    def states(self) -> list[tuple[str, str, str]]:
        """Return each one's name, state (``starting``, ``up`` or ``down``) and line."""
        return [(server.name, server.condition.word, server.line()) for server in self._servers.values()]

    def _listed(self, name: str, listing: "Listing") -> None:
        from nanobot.agent.tools.mcp.tools import remote_tools  # lazily, as above

        server = self._servers[name]
        tools, left_out = remote_tools(server)
        server.listing = replace(listing, left_out={**listing.left_out, **left_out})
        if self._replace is not None:
            self._replace(source_of(name), tools)


def source_of(server: str) -> str:
    """Return a server as a source of tools."""
    return f"mcp {server}"


def sdk_connect(*, data_dir: Path) -> Connect:
    """Return the real way to connect, which loads the SDK when it is first used, in a thread."""

    def connect(name: str, settings: McpServerSettings) -> "Serve":
        async def serve(body: "Body") -> None:
            session, oauth = await asyncio.to_thread(_sdk)
            await session.serve(
                name,
                settings,
                body,
                place=data_dir / PLACES / name,
                media=data_dir / "media",
                logins=oauth.Logins(data_dir / LOGINS),
            )

        return serve

    return connect


def _sdk() -> Any:  # Any: two modules
    from nanobot.agent.tools.mcp import oauth, session  # lazily: the SDK takes a second, and not everybody has it

    return session, oauth
