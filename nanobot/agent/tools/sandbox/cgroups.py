"""Limits of a whole command where nanobot is root: the kernel counts no processes of root's, but it counts those of a cgroup.

A group is made for each command, where groups may be made at all; its shell joins it.  Nobody is told when a group is empty, so
each command also removes those that earlier ones left.

Source: the kernel's documentation, admin-guide/cgroup-v1 and cgroup-v2
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from nanobot.agent.tools.sandbox.policy import Limits

ROOT = Path("/sys/fs/cgroup")
_OURS = "nanobot"
_FRESH_S = 60.0  # its command may not have joined yet
_MB = 1 << 20


def make_groups(limits: Limits, *, root: Path = ROOT) -> tuple[str, ...]:
    """Return the files that a process writes its number into to be limited; none where there can be no groups."""
    name = uuid4().hex
    return tuple(
        joined
        for parent, settings in _hierarchies(limits, root)
        if (joined := _make(parent, name, {file: value for file, value in settings.items() if value is not None}))
    )


def _hierarchies(limits: Limits, root: Path) -> Iterator[tuple[Path, dict[str, int | None]]]:
    memory = limits.memory_mb and limits.memory_mb * _MB
    if (root / "cgroup.controllers").exists():  # version 2: one tree for all
        yield root / _OURS, {"pids.max": limits.processes, "memory.max": memory}
        return
    yield root / "pids" / _OURS, {"pids.max": limits.processes}
    yield root / "memory" / _OURS, {"memory.limit_in_bytes": memory}


def _make(parent: Path, name: str, settings: dict[str, int]) -> str:
    """Return the file to join by, empty if nothing could be limited."""
    group, limited = parent / name, False
    try:
        if not settings or not parent.parent.is_dir():
            return ""
        parent.mkdir(exist_ok=True)
        _sweep(parent)
        for tree in (parent.parent, parent):
            if (tree / "cgroup.subtree_control").exists():
                for controller in ("+pids", "+memory"):
                    with contextlib.suppress(OSError):  # not there, or on already
                        (tree / "cgroup.subtree_control").write_text(controller)
        group.mkdir()
    except OSError:
        return ""
    for file, value in settings.items():
        with contextlib.suppress(OSError):
            if (group / file).exists():
                (group / file).write_text(str(value))
                limited = True
    return str(group / "cgroup.procs") if limited else ""


def _sweep(parent: Path) -> None:
    """Remove groups without processes; those with some refuse to go."""
    for group in parent.iterdir():
        with contextlib.suppress(OSError):
            if group.is_dir() and time.time() - group.stat().st_mtime > _FRESH_S:
                group.rmdir()
