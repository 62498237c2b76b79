"""Tools that installed packages bring, under the entry point ``nanobot.tools``.

In a package's ``pyproject.toml``::

    [project.entry-points."nanobot.tools"]
    weather = "my_package.tools:weather"

The object is a typed function, a ``BaseTool``, or a list of these; a single function is called as its entry point is.  A package
that cannot be loaded, or that brings a name which is taken, is reported and left out: it never stops the start.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from nanobot.agent.tools.base import BaseTool, Tool
from nanobot.agent.tools.function import function_tool
from nanobot.errors import MisuseError
from nanobot.values import frozen

GROUP = "nanobot.tools"
_RESERVED = "mcp_"
_SHOWN_CHARS = 200


@frozen
class Packaged:
    """``tools`` that can be offered, ``faults`` as a sentence each, and all ``names`` that a configuration may speak of."""

    tools: tuple[Tool[Any], ...] = ()
    faults: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


def packaged_tools(*, disabled: Collection[str] = (), taken: Collection[str] = ()) -> Packaged:
    """Load what installed packages bring.  What is disabled by its entry point's name is not even imported.

    Args:
        disabled: names of entry points or tools that are not wanted.
        taken: names that are ours.
    """
    tools: dict[str, Tool[Any]] = {}
    faults: list[str] = []
    names: set[str] = set()
    for entry in _entries():
        names.add(entry.name)
        if entry.name in disabled:
            continue
        try:
            brought = list(_load(entry))
        except MisuseError as error:
            faults.append(f"{_origin(entry)}: {error}")
            continue
        for tool in brought:
            names.add(tool.name)
            if tool.name.startswith(_RESERVED):
                faults.append(
                    f"{_origin(entry)}: {tool.name!r} is a name for tools of MCP servers; this one is left out."
                )
            elif tool.name in taken or tool.name in tools:
                faults.append(f"{_origin(entry)}: there is a tool named {tool.name!r} already; this one is left out.")
            elif tool.name not in disabled:
                tools[tool.name] = tool
    return Packaged(tuple(tools.values()), tuple(faults), frozenset(names))


def _entries() -> list[EntryPoint]:
    """Return the entry points in an order that does not depend on where packages lie."""
    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.dist.name if entry.dist else "", entry.name))


def _load(entry: EntryPoint) -> Iterator[Tool[Any]]:
    try:
        found = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a package may fail in any way when it is imported
        line = " ".join(str(error).split())[:_SHOWN_CHARS]
        raise MisuseError(f"it cannot be loaded: {type(error).__name__}: {line}") from None
    if isinstance(found, list | tuple):
        for one in cast("Iterable[object]", found):
            yield _as_tool(one, name=None)
    else:
        yield _as_tool(found, name=entry.name)


def _as_tool(given: object, *, name: str | None) -> Tool[Any]:
    if isinstance(given, BaseTool):
        return cast("Tool[Any]", given)
    if inspect.isroutine(given):
        return function_tool(cast("Callable[..., object]", given), name=name)
    raise MisuseError(f"{given!r:.100} is no tool; it must be a typed function, a BaseTool, or a list of these.")


def _origin(entry: EntryPoint) -> str:
    return f"tools of the package {entry.dist.name if entry.dist else entry.value!r} ({entry.name})"
