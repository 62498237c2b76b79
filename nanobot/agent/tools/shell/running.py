"""What ``exec`` does: a command under its supervisor from its start to its end, or its record after a crash."""

import asyncio
from pathlib import Path

from nanobot.agent.tools.base import Planned, Probed, ToolContext
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.shell.command import Launch, Launcher, Wanted
from nanobot.agent.tools.shell.exec import ExecArguments
from nanobot.agent.tools.shell.jobs import JobNote, Jobs, job_id, make_empty, past_job
from nanobot.agent.tools.shell.looking import new_output
from nanobot.agent.tools.shell.outcome import how, whole_text
from nanobot.agent.tools.shell.supervised import Ended, Input, Supervised, command_lives, read_record
from nanobot.agent.tools.threads import in_thread
from nanobot.errors import ToolError
from nanobot.supervisor.ring import Captured, read_ring

_PROBE_S = 5.0
_EARLY_S = 0.5  # for a job to fail at once, so that the call can say so
_SLACK_S = 8.0  # beyond the timeout, for a supervisor that hangs; seen only when the machine does


class Running:
    """Runs the commands of calls; the arguments are those of ``Exec``."""

    def __init__(self, launcher: Launcher, jobs: Jobs, *, timeout_s: float, sandbox: Sandbox | None) -> None:
        self._launcher = launcher
        self._jobs = jobs
        self._timeout_s = timeout_s
        self._sandbox = sandbox

    def plan(self, context: ToolContext) -> Planned:
        """Say where the record will lie, or that of the job."""
        return Planned(before={"scratch": str(context.scratch), "job": str(self._job_place(context))})

    async def run(self, arguments: ExecArguments, context: ToolContext) -> str:
        """Run it to its end, its timeout or our cancellation; then nothing of it is left but a job."""
        if arguments.background:
            return await self._in_background(arguments, context)
        launch = await in_thread(self._launch, arguments, context)
        await in_thread(make_empty, context.scratch)
        limit_s = arguments.timeout_s or self._timeout_s
        stdin: Input = "terminal" if arguments.pty else "none"
        supervised = await Supervised.start(launch, context.scratch, stdin=stdin, timeout_s=limit_s)
        becomes_job = False
        try:
            if await supervised.until(lambda: bool(supervised.waits), timeout_s=limit_s + _SLACK_S):
                note = self._note(arguments, context, launch)
                job = await self._jobs.adopt(supervised, note, context.session_key)
                becomes_job = True
                return await new_output(self._jobs, job, context.call_id)
        finally:
            if not becomes_job:
                await supervised.end()
        record = await in_thread(read_record, context.scratch)
        if record is None:
            raise ToolError(await in_thread(_unknown, context.scratch))
        if record[0].reason == "failed":
            raise ToolError(f"the command could not be run: {record[0].error}.")
        text = _rendered(*record, limit_s=limit_s)
        hint = await in_thread(self._hint, record[0], text, context)
        return f"{text}\n{hint}" if hint else text

    def _hint(self, ended: Ended, text: str, context: ToolContext) -> str:
        return self._sandbox.hint(text, context.workspace) if self._sandbox and ended.exit else ""

    async def probe(self, arguments: ExecArguments, context: ToolContext, planned: Planned) -> Probed:
        """Collect the record of a command that ended; say what became of a job; everything else is unknown."""
        before = planned.before or {}
        scratch = Path(str(before.get("scratch", context.scratch)))
        place = Path(str(before.get("job", self._job_place(context))))
        if await in_thread(past_job, place) is not None:
            await _last_record(place)
            job = await self._jobs.find(context.session_key, job_id(context.call_id))
            return Probed("done", await new_output(self._jobs, job, context.call_id))
        if arguments.background:
            return Probed("not_done")  # a job's record is there before it starts
        record = await _last_record(scratch)
        if record and record[0].reason in ("exited", "timeout"):
            return Probed("done", _rendered(*record, limit_s=arguments.timeout_s or self._timeout_s))
        lost = "Interrupted by a restart; outcome unknown: it may have done all, some or nothing. Verify before repeating it."
        text = whole_text(record[1]) if record else ""
        return Probed("unknown", f"{lost}\nIts output until then:\n{text}" if text else lost)

    async def _in_background(self, arguments: ExecArguments, context: ToolContext) -> str:
        launch = await in_thread(self._launch, arguments, context)
        note = self._note(arguments, context, launch)
        stdin: Input = "terminal" if arguments.pty else "pipe"
        job = await self._jobs.start(launch, note, context.session_key, stdin=stdin)
        assert job.supervised is not None
        await job.supervised.until(lambda: bool(job.waits), timeout_s=_EARLY_S)
        text = await new_output(self._jobs, job, context.call_id)
        return f"Started {job.id} in {launch.cwd}.\n{text}" if job.runs else text

    def _launch(self, arguments: ExecArguments, context: ToolContext) -> Launch:
        wanted = Wanted(arguments.command, arguments.cwd, arguments.env, terminal=arguments.pty)
        return self._launcher.launch(wanted, context)

    def _note(self, arguments: ExecArguments, context: ToolContext, launch: Launch) -> JobNote:
        return JobNote(
            job_id(context.call_id),
            arguments.command,
            str(launch.cwd),
            arguments.pty,
            arguments.timeout_s if arguments.background else None,
        )

    def _job_place(self, context: ToolContext) -> Path:
        return self._jobs.place(context.session_key, job_id(context.call_id))


async def _last_record(directory: Path) -> tuple[Ended, Captured] | None:
    """Return the record, after waiting a little for a supervisor that just lost its daemon and is ending the command."""
    for _ in range(int(_PROBE_S / 0.1)):
        record = await in_thread(read_record, directory)
        if record or not await in_thread(command_lives, directory):
            return record
        await asyncio.sleep(0.1)  # its supervisor is not our child after a restart: there is no event for its end
    return None


def _unknown(directory: Path) -> str:
    text = "the command's supervisor was killed; the command was ended with it. Its outcome is unknown."
    captured = read_ring(directory / "output")
    return f"{text} Its output until then:\n{whole_text(captured)}" if captured and captured.total else text


def _rendered(ended: Ended, captured: Captured, *, limit_s: float) -> str:
    return f"{whole_text(captured) or '(no output)'}\n[{how(ended, limit_s)}, in {ended.cwd}]"
