"""What MCP servers offer, as tools of ours.

Results are other people's words, and what is asked leaves the house: both are said.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from nanobot.agent.tools.arguments import ToolArguments, closest
from nanobot.agent.tools.base import BaseTool, CutPolicy, Result, Shown, Sourced, ToolContext, one_line
from nanobot.agent.tools.mcp.names import FAMILY, label_of, tool_name
from nanobot.agent.tools.mcp.remote import Connection, Declined, Lost, Reply
from nanobot.agent.tools.mcp.schemas import missing, usable
from nanobot.agent.tools.mcp.server import NotUp, Server, TimedOut
from nanobot.errors import ToolError
from nanobot.messages import JsonObject
from nanobot.session.entries import Effect

_Answer = TypeVar("_Answer")


class RemoteArguments(BaseModel):
    """Whatever the model wrote: the server's own schema says what is right."""

    model_config = ConfigDict(extra="allow", frozen=True)


class RemoteTool(BaseTool[RemoteArguments]):
    """A tool of a server.

    It finds its counterpart when it runs: it may stand in the frozen beginning of a conversation since before its server came up,
    or was changed.
    """

    arguments = RemoteArguments
    chatty = True
    outward = True
    timeout_s: float | None = None  # ``Server.request`` bounds it
    cut: CutPolicy = "middle"

    def __init__(self, server: Server, name: str, *, remote: str, description: str, schema: JsonObject) -> None:
        self.name = name
        self.description = description
        self.schema: JsonObject | None = schema
        self.effect: Effect = server.settings.effect_of(remote)
        self.concurrent = self.effect == "pure"
        self.max_observation_chars = server.settings.max_result_chars
        self._server = server

    def summary(self, arguments: RemoteArguments) -> str:
        """Return the call on one line."""
        return one_line(f"{self.name} {json.dumps(arguments.model_extra, ensure_ascii=False)}")

    async def run(self, arguments: RemoteArguments, context: ToolContext) -> Result:
        """Have the server run it."""
        given: JsonObject = dict(arguments.model_extra or {})

        async def call(connection: Connection) -> Reply:
            remote = self._counterpart(given)
            return await connection.call(remote, given)

        is_safe = self.effect in ("pure", "idempotent")
        return _observed(self._server, await _asked(self._server, call, repeatable=is_safe))

    def _counterpart(self, given: JsonObject) -> str:
        listing = self._server.listing
        found = {tool_name(self._server.name, tool.name): tool for tool in (listing.tools if listing else ())}
        tool = found.get(self.name)
        if tool is None:
            close = closest(self.name, list(found))
            hint = f" Close to it: {', '.join(close)}." if close else ""
            raise ToolError(
                f"the MCP server {self._server.name!r} does not offer this tool any more.{hint} A new conversation (/new) "
                "brings its present list."
            )
        if fault := missing(given, tool.schema):
            raise ToolError(f"the arguments are wrong (nothing was run): {fault}.")
        return tool.name


def remote_tools(server: Server) -> tuple[list[RemoteTool], dict[str, str]]:
    """Return the tools that a server offers and its settings let in, and why others of those cannot be offered."""
    tools: dict[str, RemoteTool] = {}
    left_out: dict[str, str] = {}
    for tool in server.listing.tools if server.listing else ():
        if not server.settings.offers(tool.name):
            continue
        name = tool_name(server.name, tool.name)
        try:
            schema = usable(tool.schema)
        except ValueError as error:
            left_out[tool.name] = str(error)
            continue
        if name in tools:
            left_out[tool.name] = "its name comes out as another tool's"
            continue
        description = tool.description or f"The tool {tool.name} of the MCP server {server.name}."
        tools[name] = RemoteTool(server, name, remote=tool.name, description=description, schema=schema)
    return list(tools.values()), left_out


def absent_tool(server: Server, name: str) -> RemoteTool:
    """Return what stands in for a tool whose server is not up: running it waits for the server."""
    remote = name.removeprefix(f"{FAMILY}{label_of(server.name)}_")
    return RemoteTool(server, name, remote=remote, description="", schema={"type": "object", "properties": {}})


class ServerArguments(ToolArguments):
    server: str = Field(description="Name of the MCP server")


class ResourceArguments(ServerArguments):
    uri: str = Field(description="URI as mcp_list_resources or a result gives it")


class PromptArguments(ServerArguments):
    name: str = Field(default="", description="Which prompt; empty: list them")
    arguments: dict[str, str] = Field(default_factory=dict[str, str], description="The prompt's own arguments")


class _OfServers(BaseTool[Any]):  # Any: each has its own arguments
    chatty = True
    outward = True
    effect: Effect = "pure"
    concurrent = True
    timeout_s: float | None = None  # as above

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers
        self.description = f"{self.purpose} Servers: {', '.join(servers)}."

    purpose = ""

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            raise ToolError(f"there is no MCP server {name!r}; there are: {', '.join(self._servers)}.")
        return self._servers[name]


class ListResources(_OfServers):
    """What a server has to read."""

    name = "mcp_list_resources"
    purpose = "List what an MCP server has to read: URIs of resources, and templates for more."
    arguments = ServerArguments
    summary_fields = ("server",)

    async def run(self, arguments: ServerArguments, context: ToolContext) -> Result:
        """Ask the server."""
        server = self._server(arguments.server)
        return Sourced(await _asked(server, lambda connection: connection.resources()), _origin(server))


class ReadResource(_OfServers):
    """One resource of a server."""

    name = "mcp_read_resource"
    purpose = "Read a resource of an MCP server."
    arguments = ResourceArguments
    summary_fields = ("server", "uri")

    async def run(self, arguments: ResourceArguments, context: ToolContext) -> Result:
        """Ask the server."""
        server = self._server(arguments.server)
        return _observed(server, await _asked(server, lambda connection: connection.read_resource(arguments.uri)))


class GetPrompt(_OfServers):
    """Prompts of a server."""

    name = "mcp_get_prompt"
    purpose = "List the prompts that an MCP server has prepared, or have one filled in and read it."
    arguments = PromptArguments
    summary_fields = ("server", "name")

    async def run(self, arguments: PromptArguments, context: ToolContext) -> Result:
        """Ask the server."""
        server = self._server(arguments.server)
        if not arguments.name:
            return Sourced(await _asked(server, lambda connection: connection.prompts()), _origin(server))
        name, given = arguments.name, arguments.arguments
        return _observed(server, await _asked(server, lambda connection: connection.prompt(name, given)))


def _origin(server: Server) -> str:
    return f"mcp {server.name}"


def _observed(server: Server, reply: Reply) -> Sourced | Shown:
    if reply.is_error:
        raise ToolError(reply.text, origin=_origin(server))
    if reply.images:
        return Shown(reply.text, reply.images, _origin(server))
    return Sourced(reply.text, _origin(server))


async def _asked(
    server: Server, ask: Callable[[Connection], Awaitable[_Answer]], *, repeatable: bool = True
) -> _Answer:
    """Ask a server; what goes wrong is told to the model, with what it can do about it."""
    who = f"the MCP server {server.name!r}"
    try:
        return await server.request(ask, repeatable=repeatable)
    except NotUp as error:
        raise ToolError(f"{who} is {error}. Nothing was run; try again later, or do without it.") from None
    except TimedOut as error:
        raise ToolError(f"{who}: {error}. Whether the call still has an effect is unknown.") from None
    except Lost as error:
        raise ToolError(
            f"{who}: {error}. Whether the call had an effect is unknown; it is being started again."
        ) from None
    except Declined as error:
        raise ToolError(f"{who} answered with an error: {error}", origin=_origin(server)) from None
