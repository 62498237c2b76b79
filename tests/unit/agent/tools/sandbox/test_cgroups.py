"""Groups for commands of a root daemon, on trees that look like the kernel's."""

import os
import time
from pathlib import Path

from nanobot.agent.tools.sandbox.cgroups import make_groups
from nanobot.agent.tools.sandbox.policy import Limits

LIMITS = Limits(memory_mb=64, processes=9)


def test_where_nothing_can_be_made_nothing_is_joined(tmp_path: Path) -> None:
    """No groups, no error: the limits of each process remain."""
    assert make_groups(LIMITS, root=tmp_path) == ()
    assert make_groups(Limits(), root=tmp_path) == ()


def test_groups_that_cannot_limit_are_not_joined(tmp_path: Path) -> None:
    """A tree without the controllers' files is of no use."""
    (tmp_path / "cgroup.controllers").write_text("hugetlb")

    assert make_groups(LIMITS, root=tmp_path) == ()


def test_what_earlier_commands_left_goes(tmp_path: Path) -> None:
    """Empty groups of a while ago are removed, fresh ones wait for their command."""
    (tmp_path / "pids" / "nanobot" / "old").mkdir(parents=True)
    (tmp_path / "pids" / "nanobot" / "fresh").mkdir()
    then = time.time() - 900
    os.utime(tmp_path / "pids" / "nanobot" / "old", (then, then))

    make_groups(LIMITS, root=tmp_path)

    left = {path.name for path in (tmp_path / "pids" / "nanobot").iterdir()}
    assert "old" not in left
    assert "fresh" in left
