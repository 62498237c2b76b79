"""``read_result``: page, search and count in the full text of an earlier result of this session.

Offsets are in characters, as in the marker of a cut result.  The output fits its own budget and is never stored again.
Searching is ripgrep's work, so no pattern can freeze the event loop.
"""

import re
from bisect import bisect_right
from itertools import accumulate

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.agent.tools.child import Found
from nanobot.agent.tools.results import safe_cut
from nanobot.agent.tools.search.ripgrep import run_rg
from nanobot.agent.tools.threads import in_thread
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_LINE_CHARS = 300
_NOTE_CHARS = 300


class ReadResultArguments(ToolArguments):
    id: str = Field(description="The result's name, such as e17")
    offset: int = Field(default=0, ge=0, description="Character to begin at")
    limit: int | None = Field(default=None, ge=1, description="How many characters at most")
    pattern: str | None = Field(
        default=None, min_length=1, description="Give only lines that match this regular expression"
    )
    count_only: bool = Field(
        default=False, description="Give only numbers: characters and lines, or matches of pattern"
    )


class ReadResult(BaseTool[ReadResultArguments]):
    """Results that were cut."""

    name = "read_result"
    description = (
        "Read the full text of an earlier tool result of this conversation that was cut or left out: "
        "a page from `offset` on, or the lines that match `pattern` with their offsets."
    )
    arguments = ReadResultArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    keeps_result = False
    summary_fields = ("id",)

    def __init__(self, *, max_chars: int = 16_000) -> None:
        self.max_observation_chars: int | None = max_chars
        self._room = max(200, max_chars - _NOTE_CHARS)

    async def run(self, arguments: ReadResultArguments, context: ToolContext) -> str | Sourced:
        """Read.  What is shown is in the words of whoever the result was from."""
        name = arguments.id.strip().strip("\"'")
        try:
            kept = await context.full_result(name)
        except KeyError:
            raise ToolError(f"there is no kept result {name!r} in this conversation; ids look like e17.") from None
        if isinstance(kept, Sourced):
            return Sourced(await self._read(kept.text, name, arguments, context), kept.origin)
        return await self._read(kept, name, arguments, context)

    async def _read(self, text: str, name: str, arguments: ReadResultArguments, context: ToolContext) -> str:
        if arguments.pattern is not None:
            return await self._search(text, arguments, arguments.pattern, context)
        if arguments.count_only:
            return f"{name}: {len(text):,} characters, {_line_count(text):,} lines."
        return self._page(text, name, arguments)

    def _page(self, text: str, name: str, arguments: ReadResultArguments) -> str:
        start = arguments.offset
        if start and start >= len(text):
            raise ToolError(f"{name} has {len(text):,} characters; offset {start:,} is beyond its end.")
        end = min(len(text), start + min(arguments.limit or self._room, self._room))
        if end < len(text):
            line_end = text.rfind("\n", start + (end - start) * 3 // 4, end) + 1
            end = line_end or max(safe_cut(text, end), start + 1)
        more = f'; go on with read_result("{name}", offset={end})' if end < len(text) else "; this is its end"
        return f"{text[start:end]}\n[{name}: characters {start:,} to {end:,} of {len(text):,}{more}]"

    async def _search(self, text: str, arguments: ReadResultArguments, pattern: str, context: ToolContext) -> str:
        data = await in_thread(text.encode, "utf-8", "replace")
        found, note = await _rg(data, pattern, context, count=arguments.count_only)
        if found.stopped == "time":
            raise ToolError("the search took too long and was stopped; use a simpler pattern.")
        if arguments.count_only:
            return f"{arguments.id}: {int(found.output.strip() or 0):,} matches of {pattern!r}{note}."
        return await in_thread(self._render, text, found, arguments, note)

    def _render(self, text: str, found: Found, arguments: ReadResultArguments, note: str) -> str:
        starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        first = bisect_right(starts, arguments.offset) - 1
        room = min(arguments.limit or self._room, self._room)
        rows: list[str] = []
        hits = [hit for hit in _hits(found.output) if hit[0] >= first]
        for index, line in hits:
            row = f"{starts[index]}: {line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + ' …'}"
            if rows and len(row) + 1 > room:
                go_on = f'read_result("{arguments.id}", pattern=…, offset={starts[index]})'
                rows.append(
                    f"[{len(hits) - len(rows):,}{'+' if found.stopped else ''} more matching lines; go on with {go_on}]"
                )
                break
            room -= len(row) + 1
            rows.append(row[: self._room])
        head = f"[matching lines, each after the offset where it begins{note}]"
        return (
            "\n".join((head, *rows)) if rows else f"No line of {arguments.id} matches {pattern_text(arguments)}{note}."
        )


def pattern_text(arguments: ReadResultArguments) -> str:
    """Return the pattern as error texts show it."""
    return repr(arguments.pattern) + (f" from offset {arguments.offset:,} on" if arguments.offset else "")


async def _rg(data: bytes, pattern: str, context: ToolContext, *, count: bool) -> tuple[Found, str]:
    flags = ("--text", "--encoding=none", "--count-matches" if count else "--line-number")
    found = await run_rg((*flags, "--regexp", pattern, "-"), cwd=context.workspace, stdin=data, max_bytes=4 << 20)
    if found.code != 2 or found.stopped or found.output:
        return found, ""
    found = await run_rg((*flags, "--fixed-strings", "--regexp", pattern, "-"), cwd=context.workspace, stdin=data)
    return found, "; the pattern is no regular expression and was taken as plain text"


def _hits(output: bytes) -> list[tuple[int, str]]:
    """Return line indexes (from 0) and lines."""
    rows = (re.match(r"(\d+):(.*)", line) for line in output.decode("utf-8", "replace").split("\n"))
    return [(int(row.group(1)) - 1, row.group(2)) for row in rows if row]


def _line_count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")
