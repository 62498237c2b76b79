"""Names of arguments in rules: one that its tool does not have would make a rule that never holds, and nobody would know.

Tools of MCP servers and of scripts are not known when the configuration is read: what may be about them is taken as it is.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.mcp.names import FAMILY
from nanobot.agent.tools.rules import Rule
from nanobot.agent.tools.settings import ToolSettings
from nanobot.agent.tools.web.search import WebSearch
from nanobot.config.explain import closest

_SIGNS = "*?["


def known_arguments(packaged: Collection[Tool[Any]] = ()) -> Mapping[str, frozenset[str]]:
    """Return the names of the arguments of our tools, and of those of packages."""
    ours = {tool.name: tool.arguments for tool in builtin_tools(ToolSettings(), environ={})}
    ours |= {WebSearch.name: WebSearch.arguments, **{tool.name: tool.arguments for tool in packaged}}
    return {name: frozenset(arguments.model_fields) for name, arguments in ours.items()}


def argument_faults(
    rules: Sequence[Rule], known: Mapping[str, frozenset[str]], *, unknown: Collection[str] = (), has_servers: bool
) -> Iterator[tuple[int, str, str]]:
    """Yield each rule's number with an argument that a tool of it does not have, and what to say of that.

    A glob over tools is right if one of them has the argument.

    Args:
        rules: as configured.
        known: the names of arguments, by tool.
        unknown: tools whose arguments are not known.
        has_servers: whether there are MCP servers, whose tools a glob may mean.
    """
    for at, rule in enumerate(rules):
        for tool in rule.tool:
            there = _arguments(tool, known, unknown, has_servers=has_servers)
            if there is not None:
                yield from ((at, name, _complaint(tool, name, there)) for name in rule.argument if name not in there)


def _arguments(
    glob: str, known: Mapping[str, frozenset[str]], unknown: Collection[str], *, has_servers: bool
) -> frozenset[str] | None:
    """Return what the tools of a glob take; None where it may be about tools of which that is not known."""
    if any(fnmatchcase(name, glob) for name in unknown) or glob.startswith(FAMILY):
        return None
    if has_servers and glob[0] in _SIGNS:
        return None
    found = [arguments for name, arguments in known.items() if fnmatchcase(name, glob)]
    return frozenset[str]().union(*found) if found else None


def _complaint(tool: str, name: str, there: Collection[str]) -> str:
    guess = closest(name, there)
    hint = f"did you mean {guess!r}?" if guess else f"there are: {', '.join(sorted(there))}"
    whose = f"no tool like {tool!r}" if any(sign in tool for sign in _SIGNS) else repr(tool)
    has = "has" if whose.startswith("no ") else "does not have"
    return f"{whose} {has} an argument of this name, so the rule would never hold for it; {hint}"
