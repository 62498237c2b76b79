"""MCP servers and the tools they bring, without an agent around them."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from nanobot.agent.bare import bare_context
from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.mcp.life import Backoff
from nanobot.agent.tools.mcp.servers import McpServers
from nanobot.agent.tools.mcp.settings import McpServerSettings, McpSettings
from nanobot.agent.tools.registry import Observation, ToolRegistry
from nanobot.messages import JsonObject, ToolCall
from nanobot.redaction import Redactor

PROGRAM = Path(__file__).with_name("stdio.py")
QUICK = Backoff(least_s=0.0, base_s=0.02, cap_s=0.1)


def scripted(place: Path, manner: str = "good", *, secret: str = "", **more: Any) -> McpServerSettings:
    """Return what a config would say of the scripted program.  ``more`` are other keys."""
    place.mkdir(parents=True, exist_ok=True)
    env = {"FAKE_TOKEN": SecretStr(secret)} if secret else {}
    values: dict[str, Any] = {"timeout_s": 5, "start_timeout_s": 10, **more}
    return McpServerSettings(command=sys.executable, args=(str(PROGRAM), str(place), manner), env=env, **values)


@dataclass
class Rig:
    """The servers and a registry with what they bring; ``changes`` are the sources that brought something, in order."""

    servers: McpServers
    registry: ToolRegistry
    changes: list[str] = field(default_factory=list[str])

    def replace(self, source: str, tools: Sequence[Tool[Any]]) -> None:
        """Take in what a server brings."""
        self.changes.append(source)
        self.registry.replace(source, tools)

    @property
    def names(self) -> list[str]:
        """The tools that servers brought."""
        return [spec.name for spec in self.registry.specs() if spec.source]

    async def call(self, tool: str, /, **arguments: Any) -> Observation:  # Any: JSON
        """Call a tool as the runner does."""
        given: JsonObject = dict(arguments)
        prepared = self.registry.prepare_call(ToolCall("e1.0", tool, given))
        return await self.registry.execute(prepared, bare_context())


@asynccontextmanager
async def rig(
    home: Path,
    servers: dict[str, McpServerSettings],
    *,
    secrets: Sequence[str] = (),
    backoff: Backoff = QUICK,
    settles: bool = True,
) -> AsyncGenerator[Rig]:
    """Run the servers for the block, once each has come up or failed."""
    home.mkdir(exist_ok=True, parents=True)
    redact = Redactor(secrets)
    found = McpServers(McpSettings(servers=servers), data_dir=home / "data", redact=redact, backoff=backoff)
    registry = ToolRegistry(found.tools(), redact=redact, sources=found.sources, absent=found.absent)
    running = Rig(found, registry)
    found.start(running.replace)
    try:
        if settles:
            await found.settled()
        yield running
    finally:
        await found.close()
