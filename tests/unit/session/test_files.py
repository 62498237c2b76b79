"""Names and permissions of a session's files."""

import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.bus.events import InboundMessage
from nanobot.session.disk import DirSyncs, make_dirs
from nanobot.session.entries import Finished
from nanobot.session.files import stem
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from tests.fakes.disk import FaultyDisk


@pytest.mark.parametrize(
    "key", ["telegram:42", "", "..", "-rf", "a/b", "\0", "ключ🦀", "x" * 10_000, "\udc80", "a\nb", "CON", ".hidden"]
)
def test_a_name_is_short_plain_and_stable(key: str) -> None:
    """Any key gives a name that every file system takes and that no shell mistakes for an option."""
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}-[0-9a-f]{16}", stem(key))
    assert stem(key) == stem(key)


def test_a_name_shows_the_key() -> None:
    """A person finds the session by its file's name."""
    assert stem("telegram:42").startswith("telegram_42-")


def test_a13_names_differ_where_case_is_ignored() -> None:
    """Keys that differ in case or in unsafe characters have different names on every file system."""
    keys = ["x:a_b", "x:a:b", "x:a/b", "X:A_B", "x:a.b", "x:a" + "b" * 40, "x:a" + "b" * 41]

    assert len({stem(key).lower() for key in keys}) == len(keys)


async def test_files_are_private(tmp_path: Path) -> None:
    """Nobody else on the machine reads a conversation, whatever the umask."""
    store = JsonlStore(tmp_path / "data", settings=SessionSettings(), owner="test")
    await store.accept("k", InboundMessage(id="1", session_key="k", sender="me", text="hi", at=datetime.now(UTC)))
    claim = await store.claim("k", "test")
    await store.put_blob(claim, b"data")
    await store.append(claim, Finished(id="e1"), sync=True)
    await store.close()

    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (tmp_path / "data").rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a19_a_new_folder_is_synced_or_not_there(tmp_path: Path) -> None:
    """When the sync of a new folder's name fails, the next try does not take the folder for safe."""
    disk = FaultyDisk()
    disk.fail("fsync", 2)
    with pytest.raises(OSError, match="error"):
        make_dirs(disk, tmp_path / "a" / "b", sync=True)
    before = disk.calls["fsync"]
    make_dirs(disk, tmp_path / "a" / "b", sync=True)

    assert disk.calls["fsync"] == before + 1


def test_syncs_of_one_folder_are_shared(tmp_path: Path) -> None:
    """Those who ask while a folder is being synced share the next sync."""
    disk = FaultyDisk()
    syncs = DirSyncs(disk)
    disk.gate.clear()
    threads = [threading.Thread(target=syncs.sync, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
        time.sleep(0.005)
    disk.gate.set()
    for thread in threads:
        thread.join(5)

    assert disk.calls["fsync"] == 2


async def test_building_a_store_touches_nothing(tmp_path: Path) -> None:
    """Work begins with the first call."""
    store = JsonlStore(tmp_path / "data", settings=SessionSettings(), owner="test")

    assert not (tmp_path / "data").exists()
    assert (list(await store.keys()), list(await store.unfinished())) == ([], [])
    await store.close()
    assert not (tmp_path / "data").exists()
