"""Background jobs: commands that go on after the call that started them.

A job belongs to one session; no other one can see or touch it.  It survives its Turn, ``/stop`` and ``/new``, and ends with the
daemon; its record (``job``, ``output``, ``status``) stays, so that after a restart it is known what it said and that it is over.
Ids are made from the call's, so they are short, unique in the session and the same after a crash.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nanobot.agent.tools.shell.command import Launch
from nanobot.agent.tools.threads import in_thread
from nanobot.bus.events import SessionKey
from nanobot.errors import ToolError
from nanobot.session.files import stem
from nanobot.values import frozen

if TYPE_CHECKING:
    from nanobot.agent.tools.shell.supervised import Ended, Input, Supervised

_NOTE = "job"  # the name of the file that says what a job is
_KEPT = 10  # records of jobs that are over, in each session
_CLOSE_S = 8.0
_KILL_S = 8.0
_SHOWN_CHARS = 60


@frozen
class JobNote:
    """What is written down when a job starts."""

    id: str
    command: str
    cwd: str
    terminal: bool
    limit_s: float | None = None


@dataclass(slots=True, eq=False)
class Job:
    """A job of this process, or (``supervised`` is None) what an earlier one left of it.  ``ended`` is set when it is over."""

    note: JobNote
    directory: Path
    supervised: "Supervised | None" = None
    ended: "Ended | None" = None
    told: bool = False  # that it is over

    @property
    def id(self) -> str:
        """The job's name."""
        return self.note.id

    @property
    def runs(self) -> bool:
        """Whether it goes on."""
        return self.supervised is not None and not self.supervised.over

    @property
    def waits(self) -> str:
        """Whether it waits for input: ``certain``, ``likely`` or empty."""
        return self.supervised.waits if self.supervised is not None and self.runs else ""

    @property
    def state(self) -> str:
        """In a few words: whether it runs, or how it ended."""
        if self.supervised is not None and self.runs:
            seconds = time.monotonic() - self.supervised.began
            return f"runs for {_duration(seconds)}"
        if self.ended is None:
            return "lost: nanobot was restarted or its supervisor killed; how it ended is unknown"
        if self.ended.reason == "stopped":
            return f"ended with the restart of nanobot, after {_duration(self.ended.duration_s)}"
        from nanobot.agent.tools.shell.outcome import how  # lazily: for calls

        return how(self.ended, self.note.limit_s)

    @property
    def standing(self) -> str:
        """For the model: its state, and what to do if it waits."""
        how_sure = "waits" if self.waits == "certain" else "seems to wait"
        hint = f"; it {how_sure} for input: answer with exec_input({self.id!r}, ...) or end it with exec_kill"
        return f"{self.id} {self.state}{hint if self.waits else ''}"

    @property
    def description(self) -> str:
        """For the model: how it stands, and what it is."""
        return f"{self.standing} · in {self.note.cwd} · {self.note.command}"

    @property
    def line(self) -> str:
        """What it is, for people, on one line."""
        command = " ".join(self.note.command.split())
        command = command if len(command) <= _SHOWN_CHARS else command[: _SHOWN_CHARS - 1] + "…"
        return f"{self.id} ({command})"


class Jobs:
    """All jobs of this process, and the records of earlier ones.

    Args:
        root: a private directory for their records; made when it is needed.
        per_session: most jobs that run at once in one session.
        in_all: most jobs that run at once.
    """

    def __init__(self, root: Path, *, per_session: int = 8, in_all: int = 32) -> None:
        self._root = root
        self._per_session = per_session
        self._in_all = in_all
        self._jobs: dict[SessionKey, dict[str, Job]] = {}
        self._watchers: dict[Job, asyncio.Task[None]] = {}
        self._starting: Counter[SessionKey] = Counter()

    # -- beginning -------------------------------------------------------------------------------------------------------------

    async def start(self, launch: Launch, note: JobNote, key: SessionKey, *, stdin: "Input") -> Job:
        """Start a job.

        Raises:
            ToolError: too many run already.
        """
        from nanobot.agent.tools.shell.supervised import Supervised  # lazily: for calls

        with self._room(key):
            directory = await in_thread(self._prepare, key, note, None)
            supervised = await Supervised.start(launch, directory, stdin=stdin, timeout_s=note.limit_s)
            return self._add(key, Job(note, directory, supervised))

    async def adopt(self, supervised: "Supervised", note: JobNote, key: SessionKey) -> Job:
        """Make a job of a foreground command: it has no time limit any more, and its record moves here.

        Raises:
            ToolError: too many run already; it stays the caller's.
        """
        with self._room(key):
            directory = await in_thread(self._prepare, key, note, supervised.directory)
            supervised.directory = directory
            supervised.order(until=None)
            return self._add(key, Job(note, directory, supervised))

    @contextlib.contextmanager
    def _room(self, key: SessionKey) -> Generator[None]:
        """Hold a place while a job is being started."""
        running = self.running(key)
        if not self._per_session:
            raise ToolError("background jobs are turned off here (tools.exec.max_jobs).")
        if len(running) + self._starting[key] >= self._per_session:
            names = ", ".join(job.id for job in running)
            raise ToolError(f"{self._per_session} background jobs run already ({names}): end one with exec_kill first.")
        if sum(map(self._count, self._jobs)) + self._starting.total() >= self._in_all:
            raise ToolError("too many background jobs run, most of them for other conversations; try again later.")
        self._starting[key] += 1
        try:
            yield
        finally:
            self._starting[key] -= 1

    def _count(self, key: SessionKey) -> int:
        return len(self.running(key))

    def _add(self, key: SessionKey, job: Job) -> Job:
        self._jobs.setdefault(key, {})[job.id] = job
        watcher = asyncio.create_task(self._watch(job), name=f"job {job.id} {key}")
        self._watchers[job] = watcher
        watcher.add_done_callback(lambda _: self._watchers.pop(job, None))
        return job

    async def _watch(self, job: Job) -> None:
        """See a job to its end, or end it when cancelled; then it is known how it ended."""
        assert job.supervised is not None
        try:
            await job.supervised.until(lambda: False)
        finally:
            await job.supervised.end()
            job.ended = await in_thread(_ended, job.directory)

    # -- looking ---------------------------------------------------------------------------------------------------------------

    def running(self, key: SessionKey) -> Sequence[Job]:
        """Return the session's jobs that run, oldest first."""
        return [job for job in self._jobs.get(key, {}).values() if job.runs]

    @property
    def count(self) -> int:
        """How many jobs run, of all sessions."""
        return sum(map(self._count, self._jobs))

    async def all_of(self, key: SessionKey) -> Sequence[Job]:
        """Return the session's jobs, those of earlier processes included as far as their records are kept."""
        live = self._jobs.get(key, {})
        past = await in_thread(self._past, key)
        return [*(job for job in past if job.id not in live), *live.values()]

    async def find(self, key: SessionKey, name: str) -> Job:
        """Return a job of the session.

        Raises:
            ToolError: the session has no such job.
        """
        jobs = {job.id: job for job in await self.all_of(key)}
        if name not in jobs:
            known = f"this conversation has {', '.join(jobs)}" if jobs else "this conversation has none"
            raise ToolError(f"there is no job {name!r:.60}; {known}.")
        return jobs[name]

    async def settled(self, job: Job) -> None:
        """Wait until it is known how a job that is over has ended."""
        if (watcher := self._watchers.get(job)) is not None:
            await asyncio.wait({watcher})

    def news(self, key: SessionKey) -> str:
        """Return what a Turn should know when it begins: what runs, and, once, what has ended since; empty if nothing."""
        jobs = self._jobs.get(key, {}).values()
        lines = [f"{job.line} {job.state}" for job in jobs if job.runs]
        for job in jobs:
            if not job.runs and not job.told:
                job.told = True
                lines.append(f"{job.line} is over: {job.state}")
        return "; ".join(lines)

    # -- ending ----------------------------------------------------------------------------------------------------------------

    async def kill(self, job: Job) -> None:
        """End a job and all its processes; one that is over stays as it is."""
        watcher = self._watchers.get(job)
        if job.supervised is None or watcher is None:
            return
        job.supervised.order(end=True)
        await asyncio.wait({watcher}, timeout=_KILL_S)
        watcher.cancel()
        await asyncio.wait({watcher})

    async def close(self) -> None:
        """End all jobs."""
        watchers = set(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        if watchers:
            await asyncio.wait(watchers, timeout=_CLOSE_S)

    # -- records ---------------------------------------------------------------------------------------------------------------

    def place(self, key: SessionKey, name: str) -> Path:
        """Return where a job's record lies, whether there is one or not."""
        return self._root / stem(key) / name

    def _prepare(self, key: SessionKey, note: JobNote, moved_from: Path | None) -> Path:
        directory = self.place(key, note.id)
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prune(key)
        if moved_from is None:
            make_empty(directory)
        else:
            shutil.rmtree(directory, ignore_errors=True)
            moved_from.rename(directory)
        with open(os.open(directory / _NOTE, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(asdict(note), file)
        return directory

    def _prune(self, key: SessionKey) -> None:
        """Remove the oldest records of jobs that are over."""
        running = {job.id for job in self.running(key)}
        records = [job for job in self._past(key) if job.id not in running]
        for job in records[: -_KEPT + 1]:
            shutil.rmtree(job.directory, ignore_errors=True)
            self._jobs.get(key, {}).pop(job.id, None)

    def _past(self, key: SessionKey) -> list[Job]:
        """Return what the session's records say, oldest first."""
        try:
            places = sorted((self._root / stem(key)).iterdir(), key=lambda place: place.stat().st_ctime)
        except OSError:
            return []
        return [job for place in places if (job := past_job(place)) is not None]


def past_job(directory: Path) -> Job | None:
    """Return a job as its record says; None if there is none.  Blocks."""
    try:
        note = JobNote(**cast("dict[str, Any]", json.loads((directory / _NOTE).read_bytes())))
    except (OSError, ValueError, TypeError):
        return None
    return Job(note, directory, ended=_ended(directory))


def _ended(directory: Path) -> "Ended | None":
    from nanobot.agent.tools.shell.supervised import read_record  # lazily: for calls

    record = read_record(directory)
    return record[0] if record else None


def job_id(call_id: str) -> str:
    """Return the id of the job that a call starts: ``e17.0`` starts ``j17``, ``e17.2`` starts ``j17.2``."""
    return "j" + re.sub(r"[^\w.]", "", call_id.removeprefix("e").removesuffix(".0"))


def make_empty(directory: Path) -> None:
    """Make a private directory for a record; what an earlier try of the call left in it goes."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)
    directory.mkdir(mode=0o700, parents=True)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
