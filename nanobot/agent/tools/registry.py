"""Which tools there are, and the one way to run one.

A call is looked up by its exact name, parsed and validated before anything runs; nothing else is ever run in its place.  Errors say
whether the name, the arguments or the run was wrong.  Text that leaves here is clean (no NULs, no lone surrogates) and redacted
once, but not yet cut to the budget: ``results.fit`` does that, with the id of the entry that will hold it.

Most tools are there from beginning to end.  Those of a *source*, such as an MCP server, may be others from one moment to the next:
``replace`` swaps a source's whole set at once, and a call of a tool that is not there now may have a stand-in.
"""

import asyncio
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from nanobot.agent.tools.arguments import closest, parse_arguments, validate
from nanobot.agent.tools.base import Planned, Probed, Result, Sends, Shown, Sourced, Tool, ToolContext
from nanobot.agent.tools.mcp.names import CHATTY
from nanobot.agent.tools.schema import parameters
from nanobot.agent.tools.threads import in_thread
from nanobot.bus.events import Media
from nanobot.errors import MisuseError, ToolError
from nanobot.messages import ToolCall, clean_text
from nanobot.providers.base import ToolSpec
from nanobot.redaction import REDACTED
from nanobot.values import frozen

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
DEFAULT_MAX_CHARS = 16_000


@frozen
class PreparedCall:
    """A call that may run: its tool is known and its arguments are valid."""

    call: ToolCall
    tool: Tool[Any]  # each tool has its own arguments type; ``arguments`` is an instance of it
    arguments: BaseModel


@frozen
class Observation:
    """What a run gave: the full text, clean and redacted, whose words it is (``origin``; empty: ours), and files it promised.

    ``images`` are for the model to see.  ``ran`` is False for a call that was refused before it ran.
    ``secret`` says what of it is secret, or was before it was redacted; empty: nothing that is known to be.
    """

    text: str
    is_error: bool
    duration_ms: float
    origin: str = ""
    media: tuple[Media, ...] = ()
    secret: str = ""
    images: tuple[Media, ...] = ()
    ran: bool = True


def _as_is(text: str) -> str:
    return text


class ToolRegistry:
    """The tools of one agent.

    Args:
        tools: each with its own name.
        redact: takes secrets out of a text; applied once to each observation and error.
        default_max_chars: the budget of a result whose tool names none.
        limits: budgets by tool name; they win over the tool's own.
        sources: names of what brings tools while we run, whether it has brought any or not.
        absent: returns what stands in for a tool that is not there now, by its name; None if there is nothing.

    Raises:
        MisuseError: two tools of one name, or a name that a model cannot call.
    """

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        *,
        redact: Callable[[str], str] = _as_is,
        default_max_chars: int = DEFAULT_MAX_CHARS,
        limits: Mapping[str, int] | None = None,
        sources: Iterable[str] = (),
        absent: Callable[[str], Tool[Any] | None] = lambda name: None,
    ) -> None:
        self.sources = frozenset(sources)
        self._brought: dict[str, dict[str, Tool[Any]]] = {}
        self._brought_specs: dict[str, dict[str, ToolSpec]] = {}
        self._absent = absent
        self._redact = redact
        self._default_max_chars = default_max_chars
        self._limits = dict(limits or {})
        self._own: dict[str, Tool[Any]] = {}
        self._own_specs: dict[str, ToolSpec] = {}
        self._own_ones(tools)

    def put(self, tool: Tool[Any]) -> None:
        """Have this tool of our own from the next Turn on, in place of ours of its name if there is one.

        Raises:
            MisuseError: its name is none that a model can call, or a source's.
        """
        self._own_ones([*(one for one in self._own.values() if one.name != tool.name), tool])

    def _own_ones(self, tools: Iterable[Tool[Any]]) -> None:
        own = _by_name(tools)
        if taken := next((name for named in self._brought.values() for name in named if name in own), None):
            raise MisuseError(f"There are two tools named {taken!r}; rename one.")
        self._own_specs = {
            name: self._own_specs[name] if self._own.get(name) is tool else _spec(tool, "")
            for name, tool in own.items()
        }
        self._own = own
        self._chatty = frozenset(name for name, tool in own.items() if tool.chatty) | {CHATTY}
        self._arrange()

    def replace(self, source: str, tools: Iterable[Tool[Any]]) -> None:
        """Have the source bring these tools instead of those it brought before.  A call that has begun is not disturbed.

        Raises:
            MisuseError: as the constructor, or a name that another source or we ourselves have; nothing was replaced.
        """
        brought = _by_name(tools)
        others = [self._own, *(named for name, named in self._brought.items() if name != source)]
        if taken := next((name for name in brought for named in others if name in named), None):
            raise MisuseError(f"There are two tools named {taken!r}; rename one.")
        known = self._brought_specs.get(source, {})
        specs = {name: _spec(tool, source) for name, tool in brought.items()}
        self._brought[source] = brought
        self._brought_specs[source] = {n: known[n] if known.get(n) == spec else spec for n, spec in specs.items()}
        self._arrange()

    def _arrange(self) -> None:
        self._tools = {name: tool for named in (self._own, *self._brought.values()) for name, tool in named.items()}
        every = {n: s for named in (self._own_specs, *self._brought_specs.values()) for n, s in named.items()}
        self._specs = tuple(every[name] for name in sorted(every))

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools as the model sees them, sorted by name; the same objects as long as they are the same tools."""
        return self._specs

    def own_specs(self) -> tuple[ToolSpec, ...]:
        """Return those of them that no source brought."""
        return tuple(self._own_specs.values())

    def get(self, name: str) -> Tool[Any] | None:
        """Return the tool of exactly this name, if there is one."""
        return self._tools.get(name)

    @property
    def chatty(self) -> frozenset[str]:
        """The names of the tools whose old results may become one line, and of families of them (see ``passes.is_chatty``).

        Sources do not change it: what the model sees must not depend on which server happens to be up.
        """
        return self._chatty

    def max_chars(self, name: str) -> int:
        """Return the budget of this tool's results, in characters."""
        tool = self._tools.get(name)
        own = tool.max_observation_chars if tool else None
        return self._limits.get(name, own or self._default_max_chars)

    def prepare_call(self, call: ToolCall) -> PreparedCall:
        """Return the call with its tool and its valid arguments.

        Raises:
            ToolError: the name or the arguments are wrong; nothing ran.
        """
        tool = self._tools.get(call.name) or self._absent(call.name)
        if tool is None:
            raise ToolError(self._clean(self._unknown(call.name)))
        try:
            arguments = validate(parse_arguments(call.arguments, tool.arguments), tool.arguments)
        except ToolError as error:
            raise ToolError(self._clean(f"Error in the arguments of {call.name} (nothing was run):\n{error}")) from None
        return PreparedCall(call, tool, arguments)

    async def execute(self, prepared: PreparedCall, context: ToolContext) -> Observation:
        """Run the call within its tool's timeout.  Only cancellation comes out as an exception."""
        start = time.perf_counter()
        result, is_error = await self._run(prepared, context)
        text = result if isinstance(result, str) else result.text
        origin = result.origin if isinstance(result, Sourced | Shown) else ""
        media = (result.media,) if isinstance(result, Sends) else ()
        clean = await in_thread(self._clean, text) if len(text) > 50_000 else self._clean(text)
        secret = f"a key in a result of {prepared.tool.name}" if clean.count(REDACTED) > text.count(REDACTED) else ""
        images = result.images if isinstance(result, Shown) else ()
        images = tuple(replace(image, name=self._clean(image.name)) for image in images)
        duration_ms = (time.perf_counter() - start) * 1000
        return Observation(clean, is_error, duration_ms, self._clean(origin), media, secret, images)

    def holds_secret(self, text: str) -> bool:
        """Say whether a text that is kept as it is, such as a person's, holds a known secret or one of a known shape."""
        return self._redact(text) != text

    async def plan(self, prepared: PreparedCall, context: ToolContext) -> Planned:
        """Ask the tool what the call will change.

        Raises:
            ToolError: it cannot work, or cannot be planned; nothing ran.
        """
        try:
            return await prepared.tool.plan(prepared.arguments, context)
        except ToolError as error:
            raise ToolError(self._clean(f"Error before running {prepared.tool.name}: {error}")) from None
        except Exception as error:  # noqa: BLE001  # as in ``execute``
            text = f"Error before running {prepared.tool.name}: {_exception_line(error)}"
            raise ToolError(self._clean(text)) from None

    async def probe(self, prepared: PreparedCall, context: ToolContext, planned: Planned) -> Probed:
        """Ask the tool what became of a call that may have run before a restart; a probe that fails knows nothing."""
        try:
            probed = await prepared.tool.probe(prepared.arguments, context, planned)
        except Exception:  # noqa: BLE001  # as in ``execute``
            return Probed("unknown")
        return Probed(probed.outcome, self._clean(probed.text))

    async def _run(self, prepared: PreparedCall, context: ToolContext) -> tuple[Result, bool]:
        tool = prepared.tool
        limit = asyncio.timeout(tool.timeout_s)
        try:
            async with limit:
                return await tool.run(prepared.arguments, context), False
        except ToolError as error:
            text = f"Error while running {tool.name}: {error}"
            return Sourced(text, error.origin) if error.origin else text, True
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            return f"Error while running {tool.name}: it was cancelled from inside.", True  # nobody asked us to stop
        except (Exception, SystemExit, GeneratorExit, BaseExceptionGroup) as error:  # noqa: BLE001  # a tool may fail in any way, sys.exit() included; the Turn goes on and the model is told
            if limit.expired() and isinstance(error, TimeoutError):
                return (
                    f"Error while running {tool.name}: it took longer than {tool.timeout_s:g} s and was stopped.",
                    True,
                )
            return f"Error while running {tool.name}: {_exception_line(error)}", True

    def _clean(self, text: str) -> str:
        return self._redact(clean_text(text))

    def _unknown(self, name: str) -> str:
        close = closest(name, list(self._tools))
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        return f"Error: there is no tool named {name[:100]!r} (nothing was run).{hint} The tools are: {', '.join(self._tools)}."


def _by_name(tools: Iterable[Tool[Any]]) -> dict[str, Tool[Any]]:
    named: dict[str, Tool[Any]] = {}
    for tool in sorted(tools, key=lambda tool: tool.name):
        if not _NAME.fullmatch(tool.name):
            raise MisuseError(f"{tool.name!r} is no tool name: use 1 to 64 letters, digits, _ or -.")
        if tool.name in named:
            raise MisuseError(f"There are two tools named {tool.name!r}; rename one.")
        named[tool.name] = tool
    return named


def _spec(tool: Tool[Any], source: str) -> ToolSpec:
    schema = parameters(tool.arguments) if tool.schema is None else tool.schema
    return ToolSpec(tool.name, tool.description, schema, source)


def _exception_line(error: BaseException) -> str:
    line = "".join(traceback.format_exception_only(error)).strip()
    line = line if len(line) <= 1_000 else line[:999] + "…"
    return f"{line}. This is a fault of the tool or of what it uses, not of your arguments' form; try another way."
