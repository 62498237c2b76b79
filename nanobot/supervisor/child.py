"""Starting the command: in a session of its own, with pipes or a terminal of its own."""

import contextlib
import fcntl
import os
import signal
import struct
import termios
from typing import Any, NamedTuple

from nanobot.supervisor.tree import die_with_parent

_ROWS, _COLUMNS = 40, 120
_END_OF_FILE = b"\x04"


class Child(NamedTuple):
    """The started command; ``output`` is read, ``input`` (if it has one) written, both without blocking."""

    pid: int
    output: int
    input: int | None
    is_terminal: bool
    source: os.stat_result | None  # what the command reads its input from

    def encoded(self, text: str) -> bytes:
        """Return a text as it is typed: on a terminal the Enter key sends a carriage return."""
        return (text.replace("\n", "\r") if self.is_terminal else text).encode("utf-8", "replace")

    def end_of_input(self) -> bytes:
        """Return what to write for an end of the input, if it is written."""
        return _END_OF_FILE if self.is_terminal else b""


def spawn(job: dict[str, Any]) -> Child:
    """Start what the job says; ``input`` is ``none``, ``pipe`` or ``terminal``."""
    if job["input"] == "terminal":
        return _on_terminal(job)
    reader, writer = os.pipe()
    source, feed = os.pipe() if job["input"] == "pipe" else (os.open(os.devnull, os.O_RDONLY), None)
    pid = os.fork()
    if pid == 0:
        _become(job, source, writer)
    known = os.fstat(source) if feed is not None else None
    os.close(writer)
    os.close(source)
    for fd in (reader, feed):
        if fd is not None:
            os.set_blocking(fd, False)
    return Child(pid, reader, feed, is_terminal=False, source=known)


def _on_terminal(job: dict[str, Any]) -> Child:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    known = os.fstat(theirs)
    pid = os.fork()
    if pid == 0:
        _become(job, theirs, theirs, is_terminal=True)
    os.close(theirs)
    os.set_blocking(ours, False)
    return Child(pid, ours, ours, is_terminal=True, source=known)


def _become(job: dict[str, Any], source: int, writer: int, *, is_terminal: bool = False) -> None:
    """Be the command.  In the child, from here to exec, nothing may return."""
    try:
        os.setsid()
        die_with_parent()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if is_terminal:
            fcntl.ioctl(source, termios.TIOCSCTTY, 0)
        for fd, target in ((source, 0), (writer, 1), (writer, 2)):
            os.dup2(fd, target)
        os.chdir(job["cwd"])
        os.execve(job["argv"][0], job["argv"], job["env"])
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(2, f"the command could not be started: {error}\n".encode())
    finally:
        os._exit(126)
