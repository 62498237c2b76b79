"""Finding files by name: ``glob``."""

from pathlib import Path

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.agent.tools.files.paths import PathRules, printed, shown, sourced
from nanobot.agent.tools.search.inside import Inside
from nanobot.agent.tools.search.ripgrep import reason, run_rg
from nanobot.agent.tools.search.walking import TOO_SLOW, names_in, walking
from nanobot.agent.tools.threads import in_thread
from nanobot.errors import ToolError
from nanobot.session.entries import Effect


class GlobArguments(ToolArguments):
    pattern: str = Field(min_length=1, description="Such as *.py (any depth), src/**/*.ts, *.{md,txt}")
    path: str = Field(default=".", description="Directory to search in, relative to the workspace")
    ignored: bool = Field(default=False, description="Also what .gitignore names, .git, node_modules")
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

    async def run(self, arguments: GlobArguments, context: ToolContext) -> str | Sourced:
        """Search."""
        root = await in_thread(_directory, self._rules, arguments.path, context)
        flags = walking(glob=arguments.pattern, ignored=arguments.ignored)
        found = await run_rg((*flags, "--null", "--files", "./"), cwd=root)
        if why := reason(found):
            raise ToolError(f"ripgrep cannot use the pattern {arguments.pattern!r}: {why}")
        names = names_in(found.output)
        return await context.in_thread(self._render, names, root, arguments, context.workspace, found.stopped)

    def _render(
        self, names: list[str], root: Path, arguments: GlobArguments, workspace: Path, stopped: str
    ) -> str | Sourced:
        with Inside(root, self._rules.walls(workspace)) as inside:
            found = [name for name in names if inside.has(name)]
        if not found and stopped == "time":
            raise ToolError(TOO_SLOW)
        if not found:
            hint = "" if arguments.ignored else " (ignored files, .git and node_modules were left out)"
            return f"No file matches {arguments.pattern!r} in {arguments.path}{hint}."
        lines = [printed(shown(root / name, workspace)) for name in found[: arguments.limit]]
        left = len(found) - len(lines)
        if left > 0 or stopped:
            lines.append(f"[{f'{left:,}' if not stopped else 'many'} more; narrow the pattern or raise limit]")
        return sourced("\n".join(lines), root, workspace)


def _directory(rules: PathRules, raw: str, context: ToolContext) -> Path:
    path = rules.resolve_to_list(raw, context.workspace, context.role)
    if not path.is_dir():
        raise ToolError(f"{raw!r} is no directory.")
    return path
