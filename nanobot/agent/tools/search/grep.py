"""Finding text in files: ``grep``.

Two steps, so that nothing from outside is ever shown: ripgrep walks the tree and names the files that seem to match; those are
opened by walks that follow no link, and ripgrep searches what was opened.  Its expressions take linear time, and both steps share
one time limit and one limit of output.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Literal

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.agent.tools.child import Found
from nanobot.agent.tools.files.paths import PathRules, printed, shown, sourced
from nanobot.agent.tools.search.inside import Inside
from nanobot.agent.tools.search.ripgrep import MAX_OUTPUT_BYTES, TIMEOUT_S, reason, run_rg
from nanobot.agent.tools.search.walking import TOO_SLOW, names_in, walking
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.agent.tools.threads import in_thread, to_its_end
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_MAX_COLUMNS = 400
_AT_ONCE = 100  # files that are open at a time


class GrepArguments(ToolArguments):
    pattern: str = Field(min_length=1, description="Regular expression (Rust syntax), matched within lines")
    path: str = Field(default=".", description="File or directory to search, relative to the workspace")
    glob: str | None = Field(default=None, description="Only files whose name matches, such as *.py")
    type: str | None = Field(default=None, description="Such as py, js")
    literal: bool = Field(default=False, description="Take the pattern as plain text")
    ignore_case: bool = False
    multiline: bool = Field(default=False, description="Let the pattern match across lines")
    context: int = Field(default=0, ge=0, le=10, description="Lines to show around each match")
    show: Literal["lines", "files", "counts"] = Field(
        default="lines", description="Matching lines, names of files, or counts"
    )
    ignored: bool = Field(default=False, description="Also what .gitignore names, .git, node_modules")
    limit: int = Field(default=200, ge=1, le=2_000, description="How many lines at most")


@dataclass
class _Hits:
    """What was found, to be shown: the first ``limit`` lines, and how many there are."""

    limit: int
    lines: list[str] = field(default_factory=list[str])
    total: int = 0
    matches: int = 0
    bytes: int = 0
    stopped: str = ""

    def add(self, line: str, *, counts: bool = True) -> None:
        self.total += counts
        if self.total <= self.limit:
            self.lines.append(line)


class Grep(BaseTool[GrepArguments]):
    """Files by content."""

    name = "grep"
    description = (
        "Search the contents of files; gives path:line: text for each match, sorted by path. Binary files are left out."
    )
    arguments = GrepArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    summary_fields = ("pattern", "path")

    def __init__(self, rules: PathRules, secret_paths: SecretPaths | None = None) -> None:
        self._rules = rules
        self._secret_paths = secret_paths or SecretPaths()

    async def run(self, arguments: GrepArguments, context: ToolContext) -> str | Sourced:
        """Search.  For members of groups a directory's files with secrets are not there; of a file that is named gates decide."""
        deadline = monotonic() + TIMEOUT_S
        root, name = await context.in_thread(_target, self._rules, arguments.path, context)
        names, stopped = ([name], "") if name else await _candidates(arguments, root, deadline)
        keeps_secrets = not name and context.role not in ("owner", "user")
        if keeps_secrets:
            names = [one for one in names if not self._secret_paths.is_secret(str(root / one))]
        hits = _Hits(arguments.limit, stopped=stopped)
        with Inside(root, self._rules.walls(context.workspace)) as inside:
            for start in range(0, len(names), _AT_ONCE):
                left_s = deadline - monotonic()
                if hits.bytes > MAX_OUTPUT_BYTES or left_s <= 0:
                    hits.stopped = hits.stopped or ("output" if left_s > 0 else "time")
                    break
                found, files = await _search(arguments, inside, names[start : start + _AT_ONCE], left_s)
                _take(hits, found, {path: shown(root / name, context.workspace) for path, name in files.items()})
        text = _render(hits, arguments)
        if keeps_secrets:  # said also where there are none: whether one has a match is what must not be told
            text += "\n[files with secrets were not searched: they are kept from members of groups]"
        return sourced(text, root, context.workspace)


async def _candidates(arguments: GrepArguments, root: Path, deadline: float) -> tuple[list[str], str]:
    flags = [*walking(glob=arguments.glob, ignored=arguments.ignored), "--null", "--files-with-matches"]
    flags += ["--type", arguments.type] if arguments.type else []
    found = await run_rg((*flags, *_matching(arguments), "./"), cwd=root, timeout_s=deadline - monotonic())
    _raise_for(found, arguments)
    return names_in(found.output), found.stopped


async def _search(
    arguments: GrepArguments, inside: Inside, names: Sequence[str], left_s: float
) -> tuple[Found, dict[str, str]]:
    """Search files that were opened inside; return what was found in them, and their names by what ripgrep calls them."""
    files: dict[int, str] = {}
    with contextlib.ExitStack() as held:
        await to_its_end(
            in_thread, _open_all, inside, names, files, held
        )  # a cancelled search still closes what the thread opens
        if not files:
            return Found(b"", "", 1), {}
        paths = {f"/dev/fd/{fd}": name for fd, name in files.items()}
        flags = [*_showing(arguments), *_matching(arguments)]
        found = await run_rg((*flags, *paths), cwd=Path("/"), timeout_s=left_s, pass_fds=tuple(files))
    _raise_for(found, arguments)
    return found, paths


def _open_all(inside: Inside, names: Iterable[str], files: dict[int, str], held: contextlib.ExitStack) -> None:
    for name in names:
        fd = inside.open(name)
        if fd is not None:
            held.callback(os.close, fd)
            files[fd] = name


def _matching(arguments: GrepArguments) -> list[str]:
    flags = ["--max-filesize=50M", *(["--fixed-strings"] if arguments.literal else [])]
    flags += ["--ignore-case"] if arguments.ignore_case else []
    flags += ["--multiline"] if arguments.multiline else []
    return [*flags, "--regexp", arguments.pattern, "--"]


def _showing(arguments: GrepArguments) -> list[str]:
    flags = ["--threads=1", "--null", "--with-filename", "--no-heading"]  # one thread: in the order of the names
    match arguments.show:
        case "files":
            return [*flags, "--files-with-matches"]
        case "counts":
            return [*flags, "--count"]
        case "lines":
            columns = ["--max-columns", str(_MAX_COLUMNS), "--max-columns-preview"]
            return [*flags, "--line-number", "--context", str(arguments.context), *columns]


def _take(hits: _Hits, found: Found, names: dict[str, str]) -> None:
    hits.stopped = hits.stopped or found.stopped
    hits.bytes += len(found.output)
    text = found.output.decode("utf-8", "replace")
    for raw in text.replace("\0/dev/fd/", "\0\n/dev/fd/").split("\n"):
        path, is_named, rest = raw.partition("\0")
        if raw == "--":
            hits.add(raw, counts=False)
        elif is_named and path in names:
            hits.add(_line(printed(names[path]), rest))
            hits.matches += int(rest) if rest.isdigit() else 0


def _line(path: str, rest: str) -> str:
    if not rest or rest.isdigit():
        return f"{path}: {int(rest):,}" if rest else path
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{path}:{rest[:digits]}{rest[digits : digits + 1]} {rest[digits + 1 :]}"


def _render(hits: _Hits, arguments: GrepArguments) -> str:
    if not hits.total:
        if hits.stopped == "time":
            raise ToolError(TOO_SLOW)
        hint = "" if arguments.ignored else " (ignored files, .git, node_modules and binary files were left out)"
        return f"No match for {arguments.pattern!r} in {arguments.path}{hint}."
    notes: list[str] = []
    if arguments.show == "counts":
        notes.append(f"[{hits.matches:,} lines in {hits.total:,} files]")
    if hits.stopped == "time":
        notes.append("[the search took too long and was stopped here; narrow path, glob or pattern]")
    elif hits.total > hits.limit or hits.stopped:
        count = "many" if hits.stopped else f"{hits.total - hits.limit:,}"
        what = "lines" if arguments.show == "lines" else "files"
        notes.append(f"[{count} more {what}; narrow the search, or use show=files or counts]")
    return "\n".join((*hits.lines, *notes))


def _raise_for(found: Found, arguments: GrepArguments) -> None:
    if why := reason(found):
        raise ToolError(f"ripgrep cannot use the pattern {arguments.pattern!r}: {why}")


def _target(rules: PathRules, raw: str, context: ToolContext) -> tuple[Path, str]:
    """Return the directory to search in, and the name of the one file in it if only that is wanted."""
    path = rules.resolve_to_list(raw, context.workspace, context.role)
    if path.is_dir():
        return path, ""
    if not path.is_file():
        raise ToolError(f"{raw!r} is neither a file nor a directory.")
    return path.parent, path.name
