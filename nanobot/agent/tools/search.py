"""Searching files: ``glob`` by name, ``grep`` by content.

Both run ripgrep inside the workspace, which does not follow symlinks.  ``.git`` and ``node_modules`` and what ``.gitignore`` names
are left out unless asked for; a directory named as ``path`` is searched whatever it is called.
"""

import asyncio
import functools
from pathlib import Path

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, ToolContext
from nanobot.agent.tools.paths import PathRules, shown
from nanobot.agent.tools.ripgrep import Found, run_rg
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_SKIPPED = ("--glob", "!**/.git/**", "--glob", "!**/node_modules/**")
_COMMON = ("--hidden", "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "--sort=path", "--no-messages")
_MAX_COLUMNS = 400
_TOO_SLOW = "the search took too long and was stopped before it found anything. Search a smaller directory."


class GlobArguments(ToolArguments):
    pattern: str = Field(min_length=1, description="Such as *.py (any depth), src/**/*.ts, *.{md,txt}")
    path: str = Field(default=".", description="Directory to search in, relative to the workspace")
    ignored: bool = Field(default=False, description="Also files that .gitignore names, .git and node_modules")
    limit: int = Field(default=300, ge=1, le=2_000, description="How many paths at most")


class Glob(BaseTool[GlobArguments]):
    """Files by name."""

    name = "glob"
    description = "Find files by name pattern, hidden files too; gives their paths, sorted."
    arguments = GlobArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    summary_fields = ("pattern", "path")

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def run(self, arguments: GlobArguments, context: ToolContext) -> str:
        """Search."""
        root = await asyncio.to_thread(_directory, self._rules, arguments.path, context.workspace)
        flags = (*_COMMON, *(("--no-ignore",) if arguments.ignored else ()), "--null", "--files")
        # A later glob wins, and one with a slash is anchored: at our root, as in .gitignore
        globs = ("--glob", arguments.pattern.removeprefix("./"), *(() if arguments.ignored else _SKIPPED))
        found = await run_rg((*flags, *globs, "./"), cwd=root)
        _raise_for(found, arguments.pattern)
        names = [part.decode("utf-8", "replace").removeprefix("./") for part in found.output.split(b"\0")[:-1]]
        return await asyncio.to_thread(self._render, names, root, arguments, context.workspace, found.stopped)

    def _render(self, names: list[str], root: Path, arguments: GlobArguments, workspace: Path, stopped: str) -> str:
        is_closed = self._rules.closed(workspace)
        found = [name for name in names if not is_closed(f"{root}/{name}")]
        if not found and stopped == "time":
            raise ToolError(_TOO_SLOW)
        if not found:
            hint = "" if arguments.ignored else " (ignored files, .git and node_modules were left out)"
            return f"No file matches {arguments.pattern!r} in {arguments.path}{hint}."
        lines = [shown(root / name, workspace) for name in found[: arguments.limit]]
        left = len(found) - len(lines)
        if left > 0 or stopped:
            lines.append(f"[{f'{left:,}' if not stopped else 'many'} more; narrow the pattern or raise limit]")
        return "\n".join(lines)


class GrepArguments(ToolArguments):
    pattern: str = Field(min_length=1, description="Regular expression (Rust syntax), matched within lines")
    path: str = Field(default=".", description="File or directory to search, relative to the workspace")
    glob: str | None = Field(default=None, description="Only files whose name matches, such as *.py")
    literal: bool = Field(default=False, description="Take the pattern as plain text")
    ignore_case: bool = False
    context: int = Field(default=0, ge=0, le=10, description="Lines to show around each match")
    files_only: bool = Field(default=False, description="Only the names of matching files")
    ignored: bool = Field(default=False, description="Also files that .gitignore names, .git and node_modules")
    limit: int = Field(default=200, ge=1, le=2_000, description="How many lines at most")


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

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def run(self, arguments: GrepArguments, context: ToolContext) -> str:
        """Search."""
        root, target = await asyncio.to_thread(_target, self._rules, arguments.path, context.workspace)
        found = await run_rg((*_grep_flags(arguments), "--", target), cwd=root)
        _raise_for(found, arguments.pattern)
        return await asyncio.to_thread(self._render, found, root, arguments, context.workspace)

    def _render(self, found: Found, root: Path, arguments: GrepArguments, workspace: Path) -> str:
        is_closed = functools.cache(self._rules.closed(workspace))
        lines: list[str] = []
        total = 0
        for raw in found.output.decode("utf-8", "replace").split("\0" if arguments.files_only else "\n"):
            name, separator, rest = raw.partition("\0")
            name = name.removeprefix("./")
            if not raw or (name != "--" and is_closed(f"{root}/{name}")):
                continue
            total += raw != "--"
            if total <= arguments.limit:
                lines.append(_line(shown(root / name, workspace), rest) if separator or arguments.files_only else raw)
        if not total:
            return _no_match(found, arguments)
        if total > arguments.limit or found.stopped:
            lines.append(_more(found, total - arguments.limit))
        return "\n".join(lines)


def _grep_flags(arguments: GrepArguments) -> list[str]:
    flags = [*_COMMON, "--null", "--max-columns", str(_MAX_COLUMNS), "--max-columns-preview", "--max-filesize=50M"]
    flags += ["--files-with-matches"] if arguments.files_only else ["--line-number", "--with-filename", "--no-heading"]
    flags += ["--context", str(arguments.context)] if arguments.context and not arguments.files_only else []
    flags += ["--fixed-strings"] if arguments.literal else []
    flags += ["--ignore-case"] if arguments.ignore_case else []
    flags += ["--no-ignore"] if arguments.ignored else []
    flags += ["--glob", arguments.glob] if arguments.glob else []
    flags += [] if arguments.ignored else list(_SKIPPED)
    return [*flags, "--regexp", arguments.pattern]


def _line(path: str, rest: str) -> str:
    if not rest:
        return path
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{path}:{rest[:digits]}{rest[digits : digits + 1]} {rest[digits + 1 :]}"


def _no_match(found: Found, arguments: GrepArguments) -> str:
    if found.stopped == "time":
        raise ToolError(_TOO_SLOW)
    hint = "" if arguments.ignored else " (ignored files, .git, node_modules and binary files were left out)"
    return f"No match for {arguments.pattern!r} in {arguments.path}{hint}."


def _more(found: Found, left: int) -> str:
    if found.stopped == "time":
        return "[the search took too long and was stopped here; narrow path, glob or pattern]"
    count = "many" if found.stopped else f"{left:,}"
    return f"[{count} more lines; narrow the search, or use files_only]"


def _raise_for(found: Found, pattern: str) -> None:
    if found.code != 2 or found.stopped or found.output:
        return
    reason = found.errors.strip().removeprefix("rg: ")[:600]
    if reason:
        raise ToolError(f"ripgrep cannot use the pattern {pattern!r}: {reason}")


def _directory(rules: PathRules, raw: str, workspace: Path) -> Path:
    path = rules.resolve(raw, workspace)
    if not path.is_dir():
        raise ToolError(f"{raw!r} is no directory.")
    return path


def _target(rules: PathRules, raw: str, workspace: Path) -> tuple[Path, str]:
    """Return the directory to run in, and what to search from there."""
    path = rules.resolve(raw, workspace)
    if path.is_dir():
        return path, "./"
    if not path.is_file():
        raise ToolError(f"{raw!r} is neither a file nor a directory.")
    return path.parent, f"./{path.name}"
