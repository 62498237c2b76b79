"""``exec``: one shell command, bounded in time and output, with nothing left behind when it is stopped.

The command runs under ``supervisor.py``, a small process of its own, so that reading gigabytes of output costs the event loop
nothing, and so that the command dies with the daemon while the record of one that ended survives it: ``output`` and ``status`` in
the call's scratch directory.  After a crash ``probe`` collects them; without them the outcome is unknown.

No boundary: a command can read what the daemon's user can read, leave its session and outlive us.  Only a sandbox prevents that.
A plain ``kill $PPID`` hits the supervisor, which ignores it.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Planned, Probed, ToolContext
from nanobot.agent.tools.command import Launcher, Wanted
from nanobot.agent.tools.decode import printable
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_END_S = 8.0  # the supervisor needs at most about four seconds to end a command
_PROBE_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """What the supervisor recorded."""

    reason: str  # exited | timeout | stopped | failed
    exit: int | None
    signal: int | None
    background: bool
    duration_s: float
    text: str
    left_out_bytes: int
    error: str = ""


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
            "Each call starts a new shell. Redirect the output of what shall go on in the background to a file."
        )

    async def plan(self, arguments: ExecArguments, context: ToolContext) -> Planned:
        """Say where the record will lie."""
        return Planned(before={"scratch": str(context.scratch)})

    async def run(self, arguments: ExecArguments, context: ToolContext) -> str:
        """Run it to its end, its timeout or our cancellation; then nothing of it is left but what it put in the background."""
        job = await asyncio.to_thread(self._prepared, arguments, context)
        await _supervise(context.scratch, job)
        ended = await asyncio.to_thread(_read, context.scratch)
        if ended is None:
            raise ToolError(
                "the command's supervisor was killed; the command was ended with it. Its outcome is unknown."
            )
        if ended.reason == "failed":
            raise ToolError(f"the command could not be run: {ended.error}.")
        return _render(ended, job["timeout_s"])

    async def probe(self, arguments: ExecArguments, context: ToolContext, planned: Planned) -> Probed:
        """Collect the record of a command that ended; everything else is unknown."""
        scratch = Path(str((planned.before or {}).get("scratch", context.scratch)))
        for _ in range(int(_PROBE_S / 0.1)):  # a supervisor that just lost its daemon is ending the command
            ended = await asyncio.to_thread(_read, scratch)
            if ended or not await asyncio.to_thread(_command_lives, scratch):
                break
            await asyncio.sleep(0.1)  # its supervisor is not our child after a restart: there is no event for its end
        else:
            ended = None
        if ended and ended.reason in ("exited", "timeout"):
            return Probed("done", _render(ended, arguments.timeout_s or self._timeout_s))
        lost = "Interrupted by a restart; outcome unknown: it may have done all, some or nothing. Verify before repeating it."
        return Probed("unknown", f"{lost}\nIts output until then:\n{ended.text}" if ended and ended.text else lost)

    def _prepared(self, arguments: ExecArguments, context: ToolContext) -> dict[str, Any]:
        wanted = Wanted(arguments.command, arguments.cwd, arguments.env)
        launch = self._launcher.launch(wanted, context)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(context.scratch)  # an earlier try of this call
        context.scratch.mkdir(mode=0o700, parents=True)
        return {
            "argv": launch.argv,
            "cwd": str(launch.cwd),
            "env": dict(launch.env),
            "timeout_s": arguments.timeout_s or self._timeout_s,
        }


async def _supervise(scratch: Path, job: Mapping[str, Any]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", _SUPERVISOR, str(scratch)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.defpath},
        cwd="/",
        start_new_session=True,  # Ctrl-C at our terminal stops the Turn, which stops this
    )
    lifeline = process.stdin
    assert lifeline is not None
    try:
        lifeline.write(json.dumps(job).encode() + b"\n")
        async with asyncio.timeout(job["timeout_s"] + _END_S):
            await process.wait()
    except TimeoutError:  # a supervisor that hangs; seen only when the machine does
        pass
    finally:
        lifeline.close()
        await _ended(process, scratch)


async def _ended(process: asyncio.subprocess.Process, scratch: Path) -> None:
    """Wait until the supervisor has ended the command; do it ourselves if the supervisor cannot."""
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None or process.returncode < 0:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            _kill_group(scratch)
    await process.wait()


def _kill_group(scratch: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.killpg(int((scratch / "pid").read_text()), signal.SIGKILL)


def _command_lives(scratch: Path) -> bool:
    """Whether the command's process still exists, so that a status may still come."""
    try:
        os.kill(int((scratch / "pid").read_text()), 0)
    except (OSError, ValueError):
        return False
    return True


def _read(scratch: Path) -> Ended | None:
    """Return the record, or None if it is not whole."""
    try:
        status = cast("dict[str, Any]", json.loads((scratch / "status").read_bytes()))
        output = (scratch / "output").read_bytes()
    except (OSError, ValueError):
        return None
    if len(output) != status["kept_bytes"]:
        return None
    left_out = status["total_bytes"] - status["kept_bytes"]
    return Ended(
        reason=status["reason"],
        exit=status.get("exit"),
        signal=status.get("signal"),
        background=status.get("background", False),
        duration_s=status["duration_s"],
        text=_text(output, status["head_bytes"], left_out),
        left_out_bytes=left_out,
        error=status.get("error", ""),
    )


def _text(output: bytes, head_bytes: int, left_out: int) -> str:
    if not left_out:
        return printable(output).rstrip("\n")
    head, tail = output[:head_bytes], output[head_bytes:]
    cut = tail.find(b"\n", 0, 4096) + 1  # begin the end at a line
    note = f"[… {left_out + cut:,} bytes of output left out here; redirect to a file to keep all …]"
    return f"{printable(_whole(head))}\n{note}\n{printable(tail[cut:])}".rstrip("\n")


def _whole(head: bytes) -> bytes:
    """Cut at the last line end, so that no character is torn."""
    end = head.rfind(b"\n", len(head) - 4096)
    return head[: end + 1] if end >= 0 else head


def _render(ended: Ended, timeout_s: float) -> str:
    return "\n".join((ended.text or "(no output)", f"[{_how(ended, timeout_s)}{_background(ended)}]"))


def _how(ended: Ended, timeout_s: float) -> str:
    after = f"after {ended.duration_s:.1f} s"
    if ended.reason == "timeout":
        return f"timed out {after} (limit {timeout_s:g} s) and was killed with all its children"
    if ended.reason == "stopped":
        return f"stopped {after}"
    if ended.signal is not None:
        return f"killed by {_signal_name(ended.signal)} {after}"
    return f"exit {ended.exit} {after}"


def _background(ended: Ended) -> str:
    if not ended.background:
        return ""
    return "; it left processes running in the background, whose further output is not captured"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
