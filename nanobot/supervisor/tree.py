"""Processes below one, and ending all of them: also those that left the group, ignore TERM, or fork while they are being ended.

Descendants are known on Linux, where orphans come to us (``become_reaper``).  Elsewhere the group has to do.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200


def become_reaper() -> None:
    """Let processes whose parents end become children of ours."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when our parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def descendants(most: int = 4096) -> list[int]:
    """Return the living processes below us, parents first, as far as the system tells; at most so many."""
    found: list[int] = []
    waiting = children(os.getpid())
    while waiting and len(found) < most:
        pid = waiting.pop(0)
        found.append(pid)
        waiting += children(pid)
    return found


def children(pid: int) -> list[int]:
    """Return the children of a process (of all its threads), zombies included."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def send(pids: list[int], number: int) -> None:
    """Send a signal to each; those that are gone or not ours are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def send_group(group: int, number: int) -> bool:
    """Send a signal to a group (0: only ask); return whether there is one."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def kill_all(group: int, reap: Callable[[], None], pause: Callable[[], None]) -> None:
    """Kill the group and everything below us.

    All are stopped first, round by round until no new ones turn up: whoever forks faster than we kill would get away otherwise.

    Args:
        group: the command's process group.
        reap: collects children that ended.
        pause: gives the system a moment.
    """
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        new = [pid for pid in descendants() if pid not in stopped]
        if not new:
            break
        send(new, signal.SIGSTOP)
        stopped.update(new)
    send_group(group, signal.SIGKILL)
    for _ in range(_ROUNDS):
        reap()
        alive = descendants()
        if not alive:
            return
        send(alive, signal.SIGKILL)
        pause()


def _prctl(option: int, value: int) -> None:
    """Ask Linux; elsewhere the lifeline and the group have to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
