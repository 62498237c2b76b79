"""``exec_status``, ``exec_output``, ``exec_input`` and ``exec_kill``: what can be done with a session's background jobs."""

import asyncio
import json
import os
from typing import Any, cast

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Tool, ToolContext
from nanobot.agent.tools.shell.jobs import Job, Jobs
from nanobot.agent.tools.shell.outcome import piece_since
from nanobot.errors import ToolError
from nanobot.session.entries import Effect
from nanobot.supervisor.ring import Captured, read_ring

_REACTION_S = 2.0  # for a command to react to what was typed
_MOST_UNREAD_BYTES = 64 << 10
_SETTLE_S = 0.05
_SETTLE_TRIES = 6


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
        return "\n".join(map(_told, jobs)) or "There are no background jobs in this conversation."


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
        return await new_output(self._jobs, job, context.call_id, since=arguments.since)


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
        return await new_output(self._jobs, job, context.call_id)


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
        return _told(job)


def job_tools(jobs: Jobs, *, outward: bool) -> list[Tool[Any]]:
    """Return what goes with ``exec``; ``outward`` as that one is."""
    typing = ExecInput(jobs)
    typing.outward = outward
    return [ExecStatus(jobs), ExecOutput(jobs), typing, ExecKill(jobs)]


async def new_output(jobs: Jobs, job: Job, call_id: str, *, since: int | None = None) -> str:
    """Return what a job printed since ``since``, or since the last look, and how it stands; this becomes the last look."""
    over = not job.runs
    if over:
        await jobs.settled(job)
        job.told = True
    captured = await _settled_output(job)
    begin = since if since is not None else await asyncio.to_thread(_last_look, job, call_id)
    piece = piece_since(captured, begin, over=over)
    await asyncio.to_thread(_note_look, job, call_id, begin, piece.next)
    return f"{piece.text.rstrip(chr(10)) or '(no new output)'}\n[{_standing(job)}; output so far: {piece.next:,} bytes]"


def waiting_hint(job_id: str, waits: str) -> str:
    """Return what to do about a job that waits for input."""
    how_sure = "waits" if waits == "certain" else "seems to wait"
    return f"it {how_sure} for input: answer with exec_input({job_id!r}, ...) or end it with exec_kill"


def _standing(job: Job) -> str:
    return f"{job.id} {job.state}" + (f"; {waiting_hint(job.id, job.waits)}" if job.waits else "")


def _told(job: Job) -> str:
    return f"{_standing(job)} · in {job.note.cwd} · {job.note.command}"


def _wants_enter(arguments: InputArguments) -> bool:
    if arguments.eof and not arguments.text:
        return False
    return arguments.enter and not arguments.text.endswith("\n")


async def _settled_output(job: Job) -> Captured:
    """Read the output, after waiting a moment for the end of a line that is just being printed."""
    captured = await asyncio.to_thread(read_ring, job.directory / "output")
    for _ in range(_SETTLE_TRIES):
        if captured is None or not job.runs or (captured.tail or captured.head).endswith(b"\n"):
            break
        before = captured.total
        await asyncio.sleep(_SETTLE_S)  # the supervisor shows what it has by files, which tell nobody
        captured = await asyncio.to_thread(read_ring, job.directory / "output")
        if captured is not None and captured.total == before:
            break
    return captured or Captured(0, b"", 0, b"")


def _last_look(job: Job, call_id: str) -> int:
    """Return where to go on: after the last look, or where it began if this is the same call again, after a crash."""
    try:
        look = cast("dict[str, Any]", json.loads((job.directory / "look").read_bytes()))
    except (OSError, ValueError):
        return 0
    return look["begin"] if look["call"] == call_id else look["next"]


def _note_look(job: Job, call_id: str, begin: int, following: int) -> None:
    text = json.dumps({"call": call_id, "begin": begin, "next": following})
    with open(os.open(job.directory / "look", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
