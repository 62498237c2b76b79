"""``exec``: one shell command, bounded in time and output, with nothing left behind when it is stopped.

The command runs under a supervisor (``nanobot.supervisor``), so that it dies with the daemon while the record of one that ended
survives it in the call's scratch directory.  After a crash ``probe`` collects it; without it the outcome is unknown.

No boundary: a command can read what the daemon's user can read.  Only a sandbox prevents that.  A plain ``kill $PPID`` hits the
supervisor, which ignores it.
"""

import asyncio
import contextlib
import shutil
from pathlib import Path

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Planned, Probed, ToolContext
from nanobot.agent.tools.command import Launch, Launcher, Wanted
from nanobot.agent.tools.outcome import how, whole_text
from nanobot.agent.tools.supervised import Ended, Supervised, command_lives, read_record
from nanobot.errors import ToolError
from nanobot.session.entries import Effect
from nanobot.supervisor.ring import Captured, read_ring

_PROBE_S = 5.0
_SLACK_S = 8.0  # beyond the timeout, for a supervisor that hangs; seen only when the machine does


class ExecArguments(ToolArguments):
    command: str = Field(
        min_length=1, description="Command for bash (not a login shell), run without a terminal or input"
    )
    cwd: str = Field(default=".", description="Directory to run it in, relative to the workspace")
    env: dict[str, str] = Field(
        default_factory=dict[str, str], description="Variables to set for it, beside the usual ones"
    )
    timeout_s: float | None = Field(
        default=None, gt=0, le=600, description="Stop it after this many seconds (at most 600)"
    )


class Exec(BaseTool[ExecArguments]):
    """Shell commands."""

    name = "exec"
    arguments = ExecArguments
    effect: Effect = "opaque"
    chatty = True
    cut: CutPolicy = "middle"
    timeout_s: float | None = None
    summary_fields = ("command",)

    def __init__(self, launcher: Launcher, *, timeout_s: float = 120) -> None:
        self._launcher = launcher
        self._timeout_s = timeout_s
        self.description = (
            "Run a shell command; gives its output (stdout and stderr together), exit status and duration. "
            f"Stopped after {timeout_s:g} s unless timeout_s says otherwise. It has no input: use non-interactive flags. "
            "Each call starts a new shell; what it leaves running is ended with it."
        )

    async def plan(self, arguments: ExecArguments, context: ToolContext) -> Planned:
        """Say where the record will lie."""
        return Planned(before={"scratch": str(context.scratch)})

    async def run(self, arguments: ExecArguments, context: ToolContext) -> str:
        """Run it to its end, its timeout or our cancellation; then nothing of it is left."""
        launch = await asyncio.to_thread(self._prepared, arguments, context)
        limit_s = arguments.timeout_s or self._timeout_s
        supervised = await Supervised.start(launch, context.scratch, stdin="none", timeout_s=limit_s)
        try:
            await supervised.until(lambda: False, timeout_s=limit_s + _SLACK_S)
        finally:
            await supervised.end()
        record = await asyncio.to_thread(read_record, context.scratch)
        if record is None:
            raise ToolError(await asyncio.to_thread(_unknown, context.scratch))
        if record[0].reason == "failed":
            raise ToolError(f"the command could not be run: {record[0].error}.")
        return _rendered(*record, limit_s=limit_s)

    async def probe(self, arguments: ExecArguments, context: ToolContext, planned: Planned) -> Probed:
        """Collect the record of a command that ended; everything else is unknown."""
        scratch = Path(str((planned.before or {}).get("scratch", context.scratch)))
        record = await _last_record(scratch)
        if record and record[0].reason in ("exited", "timeout"):
            return Probed("done", _rendered(*record, limit_s=arguments.timeout_s or self._timeout_s))
        lost = "Interrupted by a restart; outcome unknown: it may have done all, some or nothing. Verify before repeating it."
        text = whole_text(record[1]) if record else ""
        return Probed("unknown", f"{lost}\nIts output until then:\n{text}" if text else lost)

    def _prepared(self, arguments: ExecArguments, context: ToolContext) -> Launch:
        launch = self._launcher.launch(Wanted(arguments.command, arguments.cwd, arguments.env), context)
        make_empty(context.scratch)
        return launch


def make_empty(directory: Path) -> None:
    """Make a private directory for a record; what an earlier try of the call left in it goes."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)
    directory.mkdir(mode=0o700, parents=True)


async def _last_record(directory: Path) -> tuple[Ended, Captured] | None:
    """Return the record, after waiting a little for a supervisor that just lost its daemon and is ending the command."""
    for _ in range(int(_PROBE_S / 0.1)):
        record = await asyncio.to_thread(read_record, directory)
        if record or not await asyncio.to_thread(command_lives, directory):
            return record
        await asyncio.sleep(0.1)  # its supervisor is not our child after a restart: there is no event for its end
    return None


def _unknown(directory: Path) -> str:
    text = "the command's supervisor was killed; the command was ended with it. Its outcome is unknown."
    captured = read_ring(directory / "output")
    return f"{text} Its output until then:\n{whole_text(captured)}" if captured and captured.total else text


def _rendered(ended: Ended, captured: Captured, *, limit_s: float) -> str:
    return f"{whole_text(captured) or '(no output)'}\n[{how(ended, limit_s)}]"
