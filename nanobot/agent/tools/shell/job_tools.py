"""``exec_status``, ``exec_output``, ``exec_input`` and ``exec_kill``: what can be done with a session's background jobs."""

from typing import Any

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Tool, ToolContext
from nanobot.agent.tools.shell.jobs import Job, Jobs
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_REACTION_S = 2.0  # for a command to react to what was typed
_MOST_UNREAD_BYTES = 64 << 10


class StatusArguments(ToolArguments):
    job: str | None = Field(default=None, description="One job's id; default all")


class ExecStatus(BaseTool[StatusArguments]):
    """What runs."""

    name = "exec_status"
    description = "List this conversation's background jobs, with their state."
    arguments = StatusArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    summary_fields = ()

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def run(self, arguments: StatusArguments, context: ToolContext) -> str:
        """Say how the jobs are."""
        key = context.session_key
        jobs = [await self._jobs.find(key, arguments.job)] if arguments.job else await self._jobs.all_of(key)
        return "\n".join(job.description for job in jobs) or "There are no background jobs in this conversation."


class OutputArguments(ToolArguments):
    job: str = Field(description="Its id")
    since: int | None = Field(
        default=None, ge=0, description="Byte to show from; default: what is new since the last look"
    )
    wait_s: float = Field(default=0, ge=0, le=60, description="First wait so long for its end or for a question of it")


class ExecOutput(BaseTool[OutputArguments]):
    """What a job printed.

    Where the last look ended is kept beside the record, with the call that looked: the same call again shows the same again.
    """

    name = "exec_output"
    description = (
        "Show what a background job printed since the last look, and whether it runs, waits for input or is over."
    )
    arguments = OutputArguments
    effect: Effect = "idempotent"
    chatty = True
    timeout_s: float | None = 90.0
    cut: CutPolicy = "middle"
    summary_fields = ("job",)

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def run(self, arguments: OutputArguments, context: ToolContext) -> str:
        """Wait if that is wanted; then show what is new."""
        job = await self._jobs.find(context.session_key, arguments.job)
        if arguments.wait_s and job.supervised is not None:
            await job.supervised.until(lambda: bool(job.waits), timeout_s=arguments.wait_s)
        return await _new_output(self._jobs, job, context.call_id, since=arguments.since)


class InputArguments(ToolArguments):
    job: str = Field(description="Its id")
    text: str = Field(default="", max_length=30_000, description='Keys are control characters: "\\u0003" is Ctrl-C')
    enter: bool = Field(default=True, description="Press Enter")
    eof: bool = Field(default=False, description="Then end its input")


class ExecInput(BaseTool[InputArguments]):
    """Typing."""

    name = "exec_input"
    description = "Type into a background job, as an answer or at its prompt; shows its reply."
    arguments = InputArguments
    effect: Effect = "opaque"
    chatty = True
    summary_fields = ("job", "text")

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def run(self, arguments: InputArguments, context: ToolContext) -> str:
        """Hand it over; then show how the job reacts, for a moment."""
        job = await self._jobs.find(context.session_key, arguments.job)
        supervised = job.supervised
        if supervised is None or not job.runs:
            raise ToolError(f"{job.id} is over and takes no input: {job.state}.")
        if supervised.input_closed:
            raise ToolError(f"{job.id} takes no input any more: it has closed it, or eof was sent.")
        if supervised.pending_input > _MOST_UNREAD_BYTES:
            raise ToolError(f"{job.id} does not read: {supervised.pending_input:,} bytes already wait for it.")
        text = arguments.text + ("\n" if _wants_enter(arguments) else "")
        supervised.waits = ""
        supervised.order(input=text, eof=arguments.eof)
        await supervised.until(lambda: bool(supervised.waits), timeout_s=_REACTION_S)
        return await _new_output(self._jobs, job, context.call_id)


class KillArguments(ToolArguments):
    job: str = Field(description="Its id")


class ExecKill(BaseTool[KillArguments]):
    """Ending a job."""

    name = "exec_kill"
    description = "End a background job with all its processes."
    arguments = KillArguments
    effect: Effect = "idempotent"
    summary_fields = ("job",)

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def run(self, arguments: KillArguments, context: ToolContext) -> str:
        """End it; one that is over stays as it is."""
        job = await self._jobs.find(context.session_key, arguments.job)
        await self._jobs.kill(job)
        job.told = True
        return job.description


def job_tools(jobs: Jobs, *, outward: bool) -> list[Tool[Any]]:
    """Return what goes with ``exec``; ``outward`` as that one is."""
    typing = ExecInput(jobs)
    typing.outward = outward
    return [ExecStatus(jobs), ExecOutput(jobs), typing, ExecKill(jobs)]


def _wants_enter(arguments: InputArguments) -> bool:
    if arguments.eof and not arguments.text:
        return False
    return arguments.enter and not arguments.text.endswith("\n")


async def _new_output(jobs: Jobs, job: Job, call_id: str, *, since: int | None = None) -> str:
    from nanobot.agent.tools.shell.looking import new_output  # lazily: for calls

    return await new_output(jobs, job, call_id, since=since)
