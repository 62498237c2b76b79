"""Whether a command waits for somebody to type, by what its processes do rather than by what it printed.

``certain``: a process is inside ``read`` on the command's own input, or the terminal hides what is typed, as for a password.
``likely``: its processes sleep and the last line looks like a prompt; programs that poll their terminal look like this.
"""

import contextlib
import os
import re
import stat
import termios

from nanobot.supervisor.child import Child
from nanobot.supervisor.tree import descendants

_READS = {"x86_64": {0, 19}, "aarch64": {63, 65}}.get(os.uname().machine, set[int]())  # read, readv
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_=>])")
_PROMPT = re.compile(
    rb"[?:>$#%\])]\s*$|\xc2\xbb\s*$|\xe2\x9d\xaf\s*$|\b(y/n|yes/no|press|enter|continue|password|passphrase)\b",
    re.IGNORECASE,
)
_LIKELY_S = 1.0
_MOST_PROCESSES = 200


def waits(child: Child, last_line: bytes, still_s: float) -> str:
    """Return ``certain``, ``likely`` or nothing.

    Args:
        child: the command; it has an input.
        last_line: the end of its output, without a line end.
        still_s: for how long it has printed nothing.
    """
    processes = descendants(_MOST_PROCESSES)
    if any(_reads(pid, child) for pid in processes):
        return "certain"
    if not all(map(_sleeps, processes)):
        return ""
    if _hides_input(child):
        return "certain"
    return "likely" if still_s >= _LIKELY_S and looks_like_prompt(last_line) else ""


def looks_like_prompt(line: bytes) -> bool:
    """Whether an unfinished line asks for something."""
    return bool(_PROMPT.search(_ESCAPES.sub(b"", line.rpartition(b"\r")[2] or line)))


def _hides_input(child: Child) -> bool:
    if not child.is_terminal:
        return False
    try:
        local = termios.tcgetattr(child.output)[3]
    except termios.error:
        return False
    return bool(local & termios.ICANON) and not local & termios.ECHO


def _reads(pid: int, child: Child) -> bool:
    """Whether a process is inside ``read`` on the command's input; no, where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/syscall") as file:
            number, descriptor = file.read().split()[:2]
        if int(number) in _READS:
            return _is_input(os.stat(f"/proc/{pid}/fd/{int(descriptor, 16)}"), child)
    return False


def _is_input(file: os.stat_result, child: Child) -> bool:
    source = child.source
    if source is None:
        return False
    if child.is_terminal:
        own_terminal = os.makedev(5, 0)  # /dev/tty
        return stat.S_ISCHR(file.st_mode) and file.st_rdev in (source.st_rdev, own_terminal)
    return (file.st_dev, file.st_ino) == (source.st_dev, source.st_ino)


def _sleeps(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in ("S", "T", "Z")
    except (OSError, IndexError):
        return True
