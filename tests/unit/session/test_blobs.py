"""Bytes beside the log."""

import errno
import hashlib
import os
import time
from pathlib import Path

import pytest

from nanobot.session.blobs import Blobs
from nanobot.session.disk import DirSyncs, sync_dir
from nanobot.session.files import Layout
from tests.fakes.disk import FaultyDisk, PowerDisk


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def blobs(tmp_path: Path, disk: FaultyDisk) -> Blobs:
    return Blobs(disk=disk, at=Layout(tmp_path), dir_syncs=DirSyncs(disk), sync=True)


def test_the_same_bytes_are_written_once(blobs: Blobs, disk: FaultyDisk) -> None:
    """A result that comes again costs no second file."""
    first = blobs.put("k", b"data")
    writes = disk.calls["write"]

    assert blobs.put("k", b"data") == first
    assert disk.calls["write"] == writes


@pytest.mark.parametrize("op", ["open", "write", "fsync", "rename", "mkdir"])
def test_a_failed_put_leaves_no_half_blob(blobs: Blobs, disk: FaultyDisk, tmp_path: Path, op: str) -> None:
    """After a failure the blob is not there, or whole; nothing else is left over; the next try works."""
    disk.short_writes = True
    disk.fail(op, 1)
    with pytest.raises(OSError, match="error"):
        blobs.put("k", b"data" * 1000)
    names = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    blob = blobs.put("k", b"data" * 1000)

    assert names in ([], [blob])
    assert blobs.get("k", blob) == b"data" * 1000


def test_a_damaged_blob_is_not_handed_out(blobs: Blobs, tmp_path: Path) -> None:
    """Bytes that do not hash to their name are not what was kept."""
    blob = blobs.put("k", b"data")
    (Layout(tmp_path).blob_dir("k") / blob).write_bytes(b"dada")
    with pytest.raises(KeyError):
        blobs.get("k", blob)

    (Layout(tmp_path).blob_dir("k") / blob).write_bytes(b"dat")
    assert blobs.put("k", b"data") == blob
    assert blobs.get("k", blob) == b"data"


@pytest.mark.parametrize("trick", ["../x", "..", "", "/etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "\n", "g" * 64])
def test_no_path_passes_for_an_id(blobs: Blobs, trick: str) -> None:
    """Only a full hash in lower case is looked up."""
    with pytest.raises(KeyError):
        blobs.get("k", trick)


def test_another_sessions_blob_is_unknown(blobs: Blobs) -> None:
    """A blob is private to the session that kept it."""
    blob = blobs.put("mine", b"secret")
    with pytest.raises(KeyError):
        blobs.get("theirs", blob)

    assert blob == hashlib.sha256(b"secret").hexdigest()


def test_a19_folders_that_a_dead_process_left_unsynced_are_synced(tmp_path: Path) -> None:
    """A blob survives a power cut also in folders that were made by a process that was killed before it synced them."""
    disk = PowerDisk(tmp_path / "disk")
    at = Layout(tmp_path / "disk" / "data")
    at.blob_dir("k").mkdir(parents=True)
    sync_dir(disk, tmp_path / "disk")  # the writer's part
    blob = Blobs(disk=disk, at=at, dir_syncs=DirSyncs(disk), sync=True).put("k", b"data")
    disk.cut_power(tmp_path / "after")

    assert (Layout(tmp_path / "after" / "data").blob_dir("k") / blob).read_bytes() == b"data"


def test_old_blobs_go_and_named_ones_stay(blobs: Blobs) -> None:
    """Full results are kept for a while; what the prompt is made of is kept as long as it is used."""
    old, head, fresh = blobs.put("k", b"old"), blobs.put("k", b"head"), blobs.put("k", b"fresh")
    for blob in (old, head):
        os.utime(blobs.at.blob_dir("k") / blob, (1_000, 1_000))

    removed = blobs.prune("k", keep={head}, max_age_s=60, max_bytes=10**9, now=time.time())

    assert removed == 1
    assert (blobs.get("k", head), blobs.get("k", fresh)) == (b"head", b"fresh")
    with pytest.raises(KeyError):
        blobs.get("k", old)


def test_the_oldest_go_first_when_there_are_too_many_bytes(blobs: Blobs) -> None:
    """A session's results have a limit in all."""
    names = [blobs.put("k", bytes([n]) * 100) for n in range(5)]
    for age, name in enumerate(reversed(names)):
        os.utime(blobs.at.blob_dir("k") / name, (10_000 - age, 10_000 - age))

    blobs.prune("k", keep=(), max_age_s=10**9, max_bytes=250, now=10_000)

    assert [name for name in names if (blobs.at.blob_dir("k") / name).exists()] == names[-2:]


def test_a_blob_that_comes_again_is_new_again(blobs: Blobs) -> None:
    """The same result twice is as young as the second one."""
    blob = blobs.put("k", b"again")
    os.utime(blobs.at.blob_dir("k") / blob, (1_000, 1_000))
    blobs.put("k", b"again")

    assert blobs.prune("k", keep=(), max_age_s=60, max_bytes=10**9, now=time.time()) == 0


def test_pruning_a_session_without_blobs_does_nothing(blobs: Blobs) -> None:
    """Most sessions never cut a result."""
    assert blobs.prune("nobody", keep=(), max_age_s=0, max_bytes=0, now=0) == 0


def test_the_same_bytes_in_another_session_are_one_file(blobs: Blobs, disk: FaultyDisk) -> None:
    """Every session begins with the same prompt: it is not written again, and stays when the other session goes."""
    blob = blobs.put("one", b"prompt")
    writes, syncs = disk.calls["write"], disk.calls["fsync"]
    blobs.put("two", b"prompt")

    assert disk.calls["write"] == writes
    assert disk.calls["fsync"] - syncs == 2  # the folder, and its own name
    (blobs.at.blob_dir("one") / blob).unlink()
    assert blobs.get("two", blob) == b"prompt"
    assert blobs.put("three", b"prompt") == blob
    assert blobs.get("three", blob) == b"prompt"


def test_where_a_file_cannot_have_two_names_it_is_written_again(blobs: Blobs, disk: FaultyDisk) -> None:
    """Some file systems have no links, and others not that many."""
    disk.refuse(errno.EMLINK, "link")
    blob = blobs.put("one", b"prompt")
    blobs.put("two", b"prompt")

    assert blobs.get("two", blob) == b"prompt"


def test_a_second_name_survives_a_power_cut(tmp_path: Path) -> None:
    """It is synced like a file of its own."""
    disk = PowerDisk(tmp_path / "disk")
    at = Layout(tmp_path / "disk" / "data")
    at.blobs.mkdir(parents=True)
    sync_dir(disk, tmp_path / "disk")  # the writer's part
    blobs = Blobs(disk=disk, at=at, dir_syncs=DirSyncs(disk), sync=True)
    blobs.put("one", b"prompt")
    blob = blobs.put("two", b"prompt")
    disk.cut_power(tmp_path / "after")

    assert (Layout(tmp_path / "after" / "data").blob_dir("two") / blob).read_bytes() == b"prompt"


def test_a_damaged_file_gets_no_second_name(blobs: Blobs) -> None:
    """What a disk has cut short in one session is written anew for the next one."""
    blob = blobs.put("one", b"prompt")
    (blobs.at.blob_dir("one") / blob).write_bytes(b"pro")
    blobs.put("two", b"prompt")

    assert blobs.get("two", blob) == b"prompt"
