"""Run one shell command for a daemon that may die at any moment.

A script of its own: started as ``python -I -S supervisor.py DIRECTORY``, stdlib only, never imported by the daemon.  Its first line
of stdin is the job (JSON); the rest of stdin is the lifeline: end of file means that the daemon stopped the command or is gone.
Then, as at the timeout, the command's process group gets TERM, and KILL two seconds later; on Linux everything that descends
from the command is ended, also what left the group.

It promises to end soon after the command does, whatever holds the pipe; to use bounded memory and disk for any output; and that
``status`` (JSON, written last, renamed into place) exists exactly when the command is over and ``output`` is whole.  It ignores
TERM, so that a command which kills its parent does not kill its own record.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any

HEAD_BYTES = 64 << 10
TAIL_BYTES = 192 << 10
KILL_AFTER_S = 2.0
DRAIN_S = 0.25  # how long a pipe is read on after the command itself has ended

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Kept:
    """The beginning and the end of an output, and how long it was."""

    def __init__(self) -> None:
        self.total = 0
        self.head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self.total += len(data)
        room = HEAD_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    @property
    def tail(self) -> bytes:
        """The kept end; what lies between it and ``head`` is left out."""
        return bytes(self._tail[-TAIL_BYTES:])


def main(directory: str) -> int:
    """Run the job that stdin brings; return the exit code of this supervisor, not of the command."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job = _read_job()
    if job is None or _lifeline_ended():
        return 1
    os.chdir(directory)
    kept = Kept()
    start = time.monotonic()
    status: dict[str, Any]
    try:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        status = _supervise(job, kept)
    except OSError as error:
        status = {"reason": "failed", "error": error.strerror or str(error)}
    status["duration_s"] = round(time.monotonic() - start, 3)
    _write(status, kept)
    return 0


def _read_job() -> dict[str, Any] | None:
    line = bytearray()
    while not line.endswith(b"\n"):
        data = os.read(0, 1 << 16)
        if not data:
            return None
        line += data
    return json.loads(line)


def _lifeline_ended() -> bool:
    """Whether the daemon let go: nothing but the end can be read after the job."""
    return bool(select.select([0], [], [], 0)[0])


def _supervise(job: dict[str, Any], kept: Kept) -> dict[str, Any]:
    command = Command(job, kept)
    reason = command.until_over(time.monotonic() + job["timeout_s"])
    background = False
    if reason == "exited":
        background = command.drain() or command.group_lives()
    else:
        command.end()
    code = command.code
    return {
        "reason": reason,
        "exit": code if code is not None and code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "background": background,
    }


class Command:
    """The running command: reads its pipe and waits for it, never only for one of the two."""

    def __init__(self, job: dict[str, Any], kept: Kept) -> None:
        self.code: int | None = None
        self._kept = kept
        self._open = True
        self._wake, notify = os.pipe()
        for fd in (self._wake, notify):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noted)
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._pid = _spawn(job, writer)
        os.close(writer)
        _put("pid", str(self._pid).encode())

    def until_over(self, deadline: float, *, lifeline: bool = True) -> str:
        """Return why the waiting ended: the command ``exited``, ``timeout``, or ``stopped`` by the lifeline's end."""
        while True:
            self._reap()
            if self.code is not None:
                return "exited"
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            fds = [self._wake, *([self._reader] if self._open else []), *([0] if lifeline else [])]
            ready, _, _ = select.select(fds, [], [], min(left, 1.0))
            if self._reader in ready:
                self._read()
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 512)
            if 0 in ready and not os.read(0, 4096):
                return "stopped"

    def drain(self) -> bool:
        """Read what is still in the pipe, for a moment; return whether somebody holds it open."""
        deadline = time.monotonic() + DRAIN_S
        while self._open and (left := deadline - time.monotonic()) > 0:
            if select.select([self._reader], [], [], left)[0]:
                self._read()
        return self._open

    def group_lives(self) -> bool:
        """Whether the command left processes in its group."""
        try:
            os.killpg(self._pid, 0)
        except OSError:
            return False
        return True

    def end(self) -> None:
        """TERM, then KILL to the group, then KILL to whatever escaped from it."""
        self._signal_group(signal.SIGTERM)
        deadline = time.monotonic() + KILL_AFTER_S
        self.until_over(deadline, lifeline=False)
        while self.group_lives() and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)  # a group of processes that are not ours tells nobody when it has ended
        self._signal_group(signal.SIGKILL)
        for _ in range(100):
            self._reap()
            children = _children()
            if not children:
                break
            for pid in children:  # orphans come to us, so killing level by level finds all of them
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)  # for those just killed to go, before looking again
        self.until_over(time.monotonic() + 1.0, lifeline=False)
        self.drain()

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, number)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._reader, 1 << 16)
            self._kept.add(data)
            self._open = bool(data)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self.code = os.waitstatus_to_exitcode(status)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal has already woken ``select``."""


def _spawn(job: dict[str, Any], writer: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:  # the child: from here to exec, nothing may return
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (writer, 1), (writer, 2)):
            os.dup2(source, target)
        os.chdir(job["cwd"])
        os.execve(job["argv"][0], job["argv"], job["env"])
    except OSError as error:
        os.write(2, f"the command could not be started: {error}\n".encode())
    finally:
        os._exit(126)


def _children() -> list[int]:
    """Return our children, as far as the system tells (Linux)."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _write(status: dict[str, Any], kept: Kept) -> None:
    status["total_bytes"] = kept.total
    status["head_bytes"] = len(kept.head)
    status["kept_bytes"] = len(kept.head) + len(kept.tail)
    for name, data in (("output", bytes(kept.head) + kept.tail), ("status", json.dumps(status).encode())):
        _put(name + ".tmp", data)
        os.replace(name + ".tmp", name)


def _put(name: str, data: bytes) -> None:
    """Write a file of our record: nobody else's business, as commands print secrets."""
    with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def _prctl(option: int, value: int) -> None:
    """Ask Linux; elsewhere the lifeline and the group have to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
