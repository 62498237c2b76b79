"""What a job printed since somebody last looked, and how it stands."""

import asyncio
import json
import os
from typing import Any, cast

from nanobot.agent.tools.shell.jobs import Job, Jobs
from nanobot.agent.tools.shell.outcome import piece_since
from nanobot.agent.tools.threads import in_thread
from nanobot.supervisor.ring import Captured, read_ring

_SETTLE_S = 0.05
_SETTLE_TRIES = 6


async def new_output(jobs: Jobs, job: Job, call_id: str, *, since: int | None = None) -> str:
    """Return what a job printed since ``since``, or since the last look, and how it stands; this becomes the last look."""
    captured, over, standing = await _looked_at(jobs, job)
    begin = since if since is not None else await in_thread(_last_look, job, call_id)
    piece = piece_since(captured, begin, over=over)
    await in_thread(_note_look, job, call_id, begin, piece.next)
    return f"{piece.text.rstrip(chr(10)) or '(no new output)'}\n[{standing}; output so far: {piece.next:,} bytes]"


async def _looked_at(jobs: Jobs, job: Job) -> tuple[Captured, bool, str]:
    """Return the output, whether the job is over, and how it stands, all of one moment.

    A job that ends while it is read is read again: who is told of the end must have what was said last.
    """
    while True:
        over = not job.runs
        if over:
            await jobs.settled(job)
            job.told = True
        captured = await _settled_output(job)
        if over or job.runs:
            return captured, over, job.standing


async def _settled_output(job: Job) -> Captured:
    """Read the output, after waiting a moment for the end of a line that is just being printed."""
    captured = await in_thread(read_ring, job.directory / "output")
    for _ in range(_SETTLE_TRIES):
        if captured is None or not job.runs or (captured.tail or captured.head).endswith(b"\n"):
            break
        before = captured.total
        await asyncio.sleep(_SETTLE_S)  # the supervisor shows what it has by files, which tell nobody
        captured = await in_thread(read_ring, job.directory / "output")
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
