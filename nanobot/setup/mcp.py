"""What MCP servers offer: connect to each once, look, and leave."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.mcp.servers import McpServers, source_of
from nanobot.config.secrets import secrets_in
from nanobot.config.settings import Settings
from nanobot.redaction import Redactor
from nanobot.values import frozen


@frozen
class Offer:
    """One server: whether it came up, a line on it, and its tools with their descriptions."""

    name: str
    is_up: bool
    line: str
    tools: tuple[tuple[str, str], ...] = ()


def offers(settings: Settings) -> Sequence[Offer]:
    """Connect to every enabled server and return what it offers.  Takes as long as the slowest may take to start."""
    logging.getLogger("nanobot.agent.tools.mcp").setLevel(logging.ERROR)  # what it warns of is what we return
    return asyncio.run(_offers(settings))


async def _offers(settings: Settings) -> Sequence[Offer]:
    mcp = settings.tools.mcp
    longest_s = max((one.start_timeout_s for one in mcp.servers.values()), default=0.0)
    servers = McpServers(
        mcp.model_copy(update={"wait_s": longest_s + 1.0}),
        data_dir=settings.data_dir,
        redact=Redactor(secrets_in(settings)),
    )
    tools: dict[str, Sequence[Tool[Any]]] = {}
    servers.start(tools.__setitem__)
    try:
        await servers.settled()
        return [
            Offer(
                name,
                state == "up",
                line,
                tuple(sorted((tool.name, tool.description) for tool in tools.get(source_of(name), ()))),
            )
            for name, state, line in servers.states()
        ]
    finally:
        await servers.close()
