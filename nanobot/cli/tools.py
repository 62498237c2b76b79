"""``nanobot tools``: which tools there are, and what the rules say of them to whom.  Starts nothing and asks nobody."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.agent.rule_table import NO_RULE, Standing, standings
from nanobot.agent.rules import Placed, placed
from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.mcp.names import FAMILY, label_of
from nanobot.agent.tools.packages import packaged_tools
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.settings import BUILTIN_TOOLS
from nanobot.bus.events import Role
from nanobot.cli.streams import write_out
from nanobot.values import frozen

if TYPE_CHECKING:
    from nanobot.config.settings import Settings

_BESIDES = {
    "ask": "What can send something out is asked about besides, where a conversation holds strangers' words and secrets.",
    "deny": "What can send something out is refused besides, where a conversation holds strangers' words and secrets.",
    "allow": "",
}


@frozen
class Listed:
    """One tool, or all tools of an MCP server whose names are not known before it runs."""

    name: str
    comes_from: str
    effect: str
    outward: bool
    roles: Mapping[Role, Standing]


def list_tools(config: Path | None, *, as_json: bool) -> int:
    """Print the tools of this configuration; return 0."""
    from nanobot.config.environment import environment
    from nanobot.config.settings import find, load

    environ = environment()
    settings = load(find(config, environ), environ)
    found = list(listed(settings, environ))
    besides = _BESIDES[settings.tools.outward]
    if as_json:
        write_out(json.dumps({"outward": settings.tools.outward, "tools": [asdict(one) for one in found]}) + "\n")
    else:
        write_out("\n".join([*map(render, found), *([f"\n{besides}"] if besides else [])]) + "\n")
    return 0


def listed(settings: "Settings", environ: Mapping[str, str]) -> Iterator[Listed]:
    """Yield the built-in tools, those of packages, and MCP servers."""
    given = settings.tools
    rules = placed(given.rules, ask_before=given.ask_before, is_confined=given.restrict_to_workspace)
    packaged = packaged_tools(disabled=given.disabled, taken=BUILTIN_TOOLS)
    sandbox = Sandbox(given.sandbox, data_dir=settings.data_dir)
    builtin = builtin_tools(given, environ=environ, sandbox=sandbox, others=packaged.names)
    for origin, tools in (("nanobot", builtin), ("a package", packaged.tools)):
        for tool in tools:
            arguments = tuple(tool.arguments.model_fields)
            roles = standings(rules, tool.name, outward=tool.outward, arguments=arguments)
            yield Listed(tool.name, origin, tool.effect, tool.outward, roles)
    yield from _servers(settings, rules)


def _servers(settings: "Settings", rules: Sequence[Placed]) -> Iterator[Listed]:
    for name, server in settings.tools.mcp.servers.items():
        if server.enabled:
            tools = f"{FAMILY}{label_of(name)}_*"
            effect = server.effect if isinstance(server.effect, str) else "by tool"
            roles = standings(rules, tools, outward=True, arguments=None)
            yield Listed(tools, f"MCP server {name}", effect, outward=True, roles=roles)


def render(tool: Listed) -> str:
    """Return a tool for reading; roles to which the same applies share a line.  Pure."""
    same: dict[Standing, list[Role]] = {}
    for role, standing in tool.roles.items():
        same.setdefault(standing, []).append(role)
    facts = [tool.effect, *(["can send out"] if tool.outward else [])]
    facts += [] if tool.comes_from == "nanobot" else [f"from {tool.comes_from}"]
    return "\n".join([f"{tool.name} ({', '.join(facts)})", *(_line(roles, one) for one, roles in same.items())])


def _line(roles: Sequence[Role], standing: Standing) -> str:
    before = "".join(f"{one.action} if {one.when} ({one.rule}); else " for one in standing.before)
    rule = "" if standing.rule == NO_RULE else f" ({standing.rule})"
    return f"  {', '.join(roles)}: {before}{standing.action}{rule}"
