"""Run one command: ``python -I -S __main__.py DIRECTORY``.

The first line of stdin is the job (JSON); further lines are what the daemon wants (``input``, ``eof``, ``until``, ``end``); end of
file means that the daemon let go or is gone.  Then, as at the deadline, the command and all its descendants get TERM, and KILL
soon after.  What a command leaves running when it ends is ended too.  Stdout tells the daemon, a JSON line each, whether the
command waits for input (``waits``) and how many bytes of it were taken (``taken``).

It promises to end soon after the command does, whatever holds the pipe; to use bounded memory and disk for any output; and that
``status`` (written last, renamed into place) exists exactly when the command is over and ``output`` is whole.  It ignores TERM, so
that a command which kills its parent does not kill its own record.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any

if __name__ == "__main__":  # alone, and isolated: the package's place is not on the path
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from nanobot.supervisor.child import Child, spawn
from nanobot.supervisor.ring import CHUNK_BYTES, RingWriter
from nanobot.supervisor.tree import become_reaper, descendants, kill_all, send, send_group
from nanobot.supervisor.waiting import waits

KILL_AFTER_S = 1.0
KILL_HUNG_AFTER_S = 0.5  # one that has had its time gets less
GOING_S = 0.1  # a namespace is ended by its own end: its processes are on their way and left nothing running
REST_S = 0.3  # what a command left running gets to end by itself
DRAIN_S = 0.25  # how long a pipe is read on after the command itself has ended
_SILENT_S = 0.1  # a terminal that gives nothing for so long has nothing more to give
DYING_BYTES = (
    1 << 20
)  # most output that is read from a command that is being ended: then it blocks instead of burning time

_STILL_S = 0.3  # a command that prints is not asked whether it waits
_LOOK_S = (0.2, 5.0)  # how often, at first and after a long silence
_LAST_LINE = 400
_LONGEST_LINE = 4 << 20


def main(directory: str) -> int:
    """Run the job that stdin brings; return the exit code of this supervisor, not of the command."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.set_blocking(1, False)
    orders = Orders()
    job = orders.first()
    if job is None:
        return 1
    os.chdir(directory)
    record = RingWriter("output")
    start = time.monotonic()
    status: dict[str, Any]
    try:
        become_reaper()
        status = Supervision(job, record, orders).run()
    except OSError as error:
        status = {"reason": "failed", "error": error.strerror or str(error)}
    status["duration_s"] = round(time.monotonic() - start, 3)
    status["cwd"] = job["cwd"]
    status["total_bytes"] = record.total
    if record.error:
        status["lost"] = record.error
    _put("status.tmp", json.dumps(status).encode())
    os.replace("status.tmp", "status")
    return 0


class Orders:
    """What the daemon says: a JSON line each, until it lets go."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._lines: list[bytes] = []
        self.ended = False

    def first(self) -> dict[str, Any] | None:
        """Wait for the job; None if the daemon let go before it was whole, or right after it."""
        while not self._lines and not self.ended:
            self.read()
        if not self._lines:
            return None
        job = json.loads(self._lines.pop(0))
        if select.select([0], [], [], 0)[0]:
            self.read()
        return None if self.ended else job

    def read(self) -> None:
        """Take what there is; call it when there is something."""
        data = os.read(0, 1 << 16)
        self.ended = not data or len(self._buffer) > _LONGEST_LINE
        *lines, rest = bytes(self._buffer + data).split(b"\n")
        self._buffer = bytearray(rest)
        self._lines += lines

    def take(self) -> list[dict[str, Any]]:
        """Return the orders that are whole."""
        lines, self._lines = self._lines, []
        return [json.loads(line) for line in lines]


class Supervision:
    """The running command: reads its output, feeds its input and waits for it, never only for one of them."""

    def __init__(self, job: dict[str, Any], record: RingWriter, orders: Orders) -> None:
        self._record = record
        self._orders = orders
        self._deadline: float | None = job["deadline"]
        self._wake, notify = os.pipe()
        for fd in (self._wake, notify):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(notify, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _noted)
        self._child: Child = spawn(job)
        _put("pid", str(self._child.pid).encode())
        self.code: int | None = None
        self._open = True
        self._feeding = self._child.input is not None
        self._pending = bytearray()
        self._eof = False
        self._taken = 0
        self._last = b""
        self._still_since = time.monotonic()
        self._look_at = self._still_since + _STILL_S
        self._waits = ""

    def run(self) -> dict[str, Any]:
        """Watch over the command to its end; return its status."""
        reason = self._until_over(self._deadline)
        rest = 0
        if reason == "exited":
            self._drain(DRAIN_S)
            rest = self._end_rest()
        else:
            self._end_within(KILL_HUNG_AFTER_S if reason == "timeout" else KILL_AFTER_S)
        code = self.code
        return {
            "reason": reason,
            "exit": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "rest": rest,
        }

    # -- watching --------------------------------------------------------------------------------------------------------------

    def _until_over(self, deadline: float | None) -> str:
        """Return why the waiting ended: ``exited``, ``timeout``, ``killed`` by order, or ``stopped`` by the lifeline's end."""
        self._deadline = deadline
        while True:
            self._reap()
            if self.code is not None:
                return "exited"
            now = time.monotonic()
            if self._deadline is not None and now >= self._deadline:
                return "timeout"
            self._look(now)
            self._wait_for_news(now)
            for order in self._orders.take():
                if "end" in order:
                    return "killed"
                self._obey(order)
            if self._orders.ended:
                return "stopped"

    def _wait_for_news(self, now: float) -> None:
        wait_s = 5.0 if self._deadline is None else min(5.0, self._deadline - now)
        if self._feeding:
            wait_s = min(wait_s, max(self._look_at - now, 0.01))
        readers = [0, self._wake, *([self._child.output] if self._open else [])]
        writers = [self._child.input] if self._pending and self._feeding and self._child.input is not None else []
        ready, writable, _ = select.select(readers, writers, [], wait_s)
        if 0 in ready:
            self._orders.read()
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 512)
        if self._child.output in ready:
            self._read()
        if writable:
            self._feed()

    def _read(self) -> int:
        try:
            data = os.read(self._child.output, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal that nobody has open any more
            data = b""
        self._open = bool(data)
        if data:
            self._record.add(data)
            self._last = (self._last + data)[-_LAST_LINE:].rpartition(b"\n")[2]
            self._moved()
        return len(data)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child.pid:
                self.code = os.waitstatus_to_exitcode(status)

    # -- input -----------------------------------------------------------------------------------------------------------------

    def _obey(self, order: dict[str, Any]) -> None:
        if "until" in order:
            self._deadline = order["until"]
            return
        if self._feeding and "input" in order:
            self._pending += self._child.encoded(order["input"])
        if self._feeding and order.get("eof"):
            self._pending += self._child.end_of_input()
            self._eof = not self._child.is_terminal
        self._feed()
        self._moved()

    def _feed(self) -> None:
        """Write what the command's input takes; an input that nobody reads any more is closed."""
        if not self._feeding or self._child.input is None:
            return
        try:
            while self._pending:
                done = os.write(self._child.input, self._pending[:2048])
                del self._pending[:done]
                self._taken += done
        except BlockingIOError:
            pass
        except OSError:
            self._pending.clear()
            self._eof = True
        if self._eof and not self._pending:
            self._feeding = False
            if not self._child.is_terminal:
                os.close(self._child.input)
        _tell({"taken": self._taken, "pending": len(self._pending), "closed": not self._feeding})

    def _moved(self) -> None:
        """Note that something happened: it does not wait, for all we know."""
        self._still_since = time.monotonic()
        self._look_at = self._still_since + _STILL_S
        if self._waits:
            self._waits = ""
            _tell({"waits": ""})

    def _look(self, now: float) -> None:
        """See, now and then, whether it waits for input."""
        if not self._feeding or now < self._look_at:
            return
        still_s = now - self._still_since
        self._look_at = now + min(max(still_s / 2, _LOOK_S[0]), _LOOK_S[1])
        seen = "" if self._pending else waits(self._child, self._last, still_s)
        if seen != self._waits:
            self._waits = seen
            _tell({"waits": seen})

    # -- ending ----------------------------------------------------------------------------------------------------------------

    def _drain(self, for_s: float) -> None:
        """Read what is still in the pipe, for a moment: somebody else may hold it open."""
        deadline = time.monotonic() + for_s
        while self._open and (left := deadline - time.monotonic()) > 0:
            has_more = select.select([self._child.output], [], [], min(left, _SILENT_S))[0]
            if has_more:
                self._read()
            self._reap()
            if self._child.is_terminal and not has_more and not descendants(1):
                break  # a terminal has no end of file while we hold our side of it, and gives what it has bit by bit

    def _end_rest(self) -> int:
        """End what the command left running; return how many processes that were."""
        deadline = time.monotonic() + GOING_S
        while (rest := len(descendants())) and time.monotonic() < deadline:
            time.sleep(0.005)  # a process that died has no event for whoever did not start it
            self._reap()
        if not rest and not send_group(self._child.pid, 0):
            return 0
        self._end_within(REST_S)
        return max(rest, 1)

    def _end_within(self, grace_s: float) -> None:
        """TERM to all, then KILL to all that are left."""
        send_group(self._child.pid, signal.SIGTERM)
        send(descendants(), signal.SIGTERM)
        deadline, read = time.monotonic() + grace_s, 0
        while (left := deadline - time.monotonic()) > 0:
            self._reap()
            if not descendants(1) and not send_group(self._child.pid, 0):
                break
            watched = [self._child.output] if self._open and read < DYING_BYTES else []
            if select.select(watched, [], [], min(left, 0.02))[0]:
                read += self._read()
        kill_all(self._child.pid, self._reap, lambda: time.sleep(0.005))  # as above
        self._reap()
        self._drain(DRAIN_S)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal has already woken ``select``."""


def _tell(event: dict[str, Any]) -> None:
    """Tell the daemon; if it does not listen, it need not know."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(event).encode() + b"\n")


def _put(name: str, data: bytes) -> None:
    """Write a file of our record: nobody else's business, as commands print secrets."""
    with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
