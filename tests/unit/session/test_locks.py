"""Locks between processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanobot.errors import SessionBusy
from nanobot.session.disk import Disk
from nanobot.session.locks import hold, take


def test_c11_the_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    """Two gateways on one data directory: the second ends with the first one's name and process."""
    path = tmp_path / "deep" / "gateway.lock"
    with (
        hold(path, "gateway one", what="The data directory"),
        pytest.raises(SessionBusy, match=f"held by gateway one .process {os.getpid()}.") as refused,
        hold(path, "gateway two", what="The data directory"),
    ):
        raise AssertionError("two holders")

    assert refused.value.owner == "gateway one"
    with hold(path, "gateway two", what="The data directory"):
        pass


def test_a_holder_whose_name_says_its_process_is_named_once(tmp_path: Path) -> None:
    """ "held by process 7 on host (process 7)" says nothing more."""
    owner = f"process {os.getpid()} on vm"
    with hold(tmp_path / "x.lock", owner, what="x"), pytest.raises(SessionBusy, match=rf"held by {owner}\.$"):
        take(Disk(), tmp_path / "x.lock", owner="late", what="x")


def test_c11_a_dead_holders_lock_is_free(tmp_path: Path) -> None:
    """The note of a process that died stops nobody: the system gave the lock back."""
    path = tmp_path / "x.lock"
    script = (
        "import os, sys; from pathlib import Path; from nanobot.session.locks import hold\n"
        "with hold(Path(sys.argv[1]), 'dead', what='x'): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False, timeout=30)
    noted = path.read_text()
    with hold(path, "alive", what="x") as lock:
        assert "dead" in noted
        assert lock.epoch == 2


def test_a_childs_life_does_not_hold_the_lock(tmp_path: Path) -> None:
    """A command that the agent started and that outlives it keeps no lock."""
    path = tmp_path / "x.lock"
    with hold(path, "parent", what="x"):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with hold(path, "next", what="x"):
            pass
    finally:
        child.communicate(b"\n", timeout=30)


@pytest.mark.parametrize("note", [b"", b"\0" * 300, b"[]", b'{"epoch":"x"}', b"\xff\xff", b'{"epoch":-4}', b"{" * 5000])
def test_a_damaged_note_is_no_obstacle(tmp_path: Path, note: bytes) -> None:
    """Whatever stands in the lock file, the lock can be had, and the count begins again."""
    path = tmp_path / "x.lock"
    path.write_bytes(note)
    lock = take(Disk(), path, owner="o" * 10_000, what="x")
    lock.release()
    lock.release()
    again = take(Disk(), path, owner="o", what="x")
    again.release()

    assert (lock.epoch, again.epoch) == (1, 2)
