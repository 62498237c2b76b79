"""Looking at directories: ``list_dir``."""

import contextlib
import itertools
import os
import stat

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.agent.tools.files.opening import Walls, directory, is_closed, os_reason
from nanobot.agent.tools.files.paths import PathRules, printed, shown, sourced
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_MAX_ENTRIES = 20_000


class ListDirArguments(ToolArguments):
    path: str = Field(default=".", description="Directory, relative to the workspace")
    limit: int = Field(default=500, ge=1, le=5_000, description="How many entries at most")


class ListDir(BaseTool[ListDirArguments]):
    """What lies in a directory."""

    name = "list_dir"
    description = (
        "List one directory by name, hidden entries too: directories end with /, files show their size, symlinks their target. "
        "Use glob to search deeper."
    )
    arguments = ListDirArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    summary_fields = ("path",)

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    async def run(self, arguments: ListDirArguments, context: ToolContext) -> str | Sourced:
        """List it."""
        return await context.in_thread(self._list, arguments, context)

    def _list(self, arguments: ListDirArguments, context: ToolContext) -> str | Sourced:
        workspace = context.workspace
        path = self._rules.resolve_to_list(arguments.path, workspace, context.role)
        walls = self._rules.walls(workspace)
        try:
            with directory(path, walls=walls) as fd:
                names = _names(fd, walls)
                lines = [_describe(name, fd) for name in names[: arguments.limit]]
        except NotADirectoryError:
            raise ToolError(f"{arguments.path!r} is no directory; use read_file.") from None
        except OSError as error:
            raise ToolError(os_reason(error, arguments.path, path, walls)) from None
        where = shown(path, workspace)
        count = f"{len(names):,}{'+' if len(names) >= _MAX_ENTRIES else ''}"
        head = f"{where}/ ({count} {'entry' if len(names) == 1 else 'entries'})" if names else f"{where}/ is empty."
        left = len(names) - len(lines)
        tail = [f"[{left:,} more entries; raise limit, or use glob]"] if left > 0 else []
        return sourced("\n".join((head, *lines, *tail)), path, workspace)


def _names(fd: int, walls: Walls) -> list[str]:
    names: list[str] = []
    with os.scandir(fd) as found:
        for entry in itertools.islice(found, _MAX_ENTRIES):
            with contextlib.suppress(OSError):  # gone since
                if is_closed(os.stat(entry.name, dir_fd=fd, follow_symlinks=False), walls):
                    continue
            names.append(entry.name)
    return sorted(names)


def _describe(entry: str, fd: int) -> str:
    name = printed(entry)
    try:
        info = os.stat(entry, dir_fd=fd, follow_symlinks=False)
    except OSError:  # gone since, or not ours to see
        return f"{name}  (cannot be examined)"
    if stat.S_ISDIR(info.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(info.st_mode):
        return f"{name} -> {printed(_target(entry, fd))}"
    if stat.S_ISREG(info.st_mode):
        return f"{name}  {info.st_size:,} bytes"
    return f"{name}  (device, FIFO or socket)"


def _target(name: str, fd: int) -> str:
    try:
        return os.readlink(name, dir_fd=fd)
    except OSError:
        return "?"
