"""``exec``: one shell command, bounded in time and output, with nothing left behind when it is stopped; or a background job.

The command runs under a supervisor (``nanobot.supervisor``), so that it dies with the daemon while the record of one that ended
survives it in the call's scratch directory.  After a crash ``probe`` collects it; without it the outcome is unknown.  A command on
a terminal that waits for input becomes a job, so that it can be answered.

The boundary is the sandbox; without one a command can read what the daemon's user can read.  A plain ``kill $PPID`` hits the
supervisor, which ignores it.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Planned, Probed, ToolContext
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.shell.command import Launcher
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.session.entries import Effect

if TYPE_CHECKING:
    from nanobot.agent.tools.shell.running import Running


class ExecArguments(ToolArguments):
    command: str = Field(min_length=1, description="Command for bash (not a login shell)")
    cwd: str = Field(default=".", description="Directory to run it in, relative to the workspace")
    env: dict[str, str] = Field(
        default_factory=dict[str, str], description="Variables to set for it, beside the usual ones"
    )
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="Stop it after this many seconds (at most 600)",
    )
    background: bool = Field(default=False, description="Start it as a job and return its id at once")
    pty: bool = Field(
        default=False, description="Give it a terminal; if it asks something it becomes a job to answer with exec_input"
    )


class Exec(BaseTool[ExecArguments]):
    """Shell commands."""

    name = "exec"
    arguments = ExecArguments
    effect: Effect = "opaque"
    chatty = True
    reads_unnamed = True
    cut: CutPolicy = "middle"
    timeout_s: float | None = None
    summary_fields = ("command",)

    def __init__(
        self, launcher: Launcher, jobs: Jobs, *, timeout_s: float = 120, sandbox: Sandbox | None = None
    ) -> None:
        self._launcher = launcher
        self._jobs = jobs
        self._timeout_s = timeout_s
        self._sandbox = sandbox
        self.outward = sandbox is None or sandbox.reaches_out
        self.description = (
            "Run a shell command; gives its output (stdout and stderr together), exit status and duration. "
            f"Stopped after {timeout_s:g} s unless timeout_s says otherwise. It has no input: use non-interactive flags. "
            "Each call starts a new shell; what it leaves running is ended with it. Servers and long work: background, "
            "then exec_output and the like; such a job goes on after your answer." + (sandbox.words if sandbox else "")
        )

    async def plan(self, arguments: ExecArguments, context: ToolContext) -> Planned:
        """Say where the record will lie, or that of the job."""
        return self._running.plan(context)

    async def run(self, arguments: ExecArguments, context: ToolContext) -> str:
        """Run it to its end, its timeout or our cancellation; then nothing of it is left but a job."""
        return await self._running.run(arguments, context)

    async def probe(self, arguments: ExecArguments, context: ToolContext, planned: Planned) -> Probed:
        """Collect the record of a command that ended; say what became of a job; everything else is unknown."""
        return await self._running.probe(arguments, context, planned)

    @cached_property
    def _running(self) -> "Running":
        from nanobot.agent.tools.shell.running import Running  # lazily: for calls

        return Running(self._launcher, self._jobs, timeout_s=self._timeout_s, sandbox=self._sandbox)
