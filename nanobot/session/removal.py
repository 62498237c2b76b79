"""Remove a session's files.  The lock file stays: it counts the claims, and a removed lock file is two locks."""

from contextlib import suppress
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.session.disk import Disk, sync_dir
from nanobot.session.files import Layout, stem


def remove_session(disk: Disk, at: Layout, key: SessionKey) -> None:
    """Remove log, blobs, marker and quarantined bytes, the log first.  Blocks; the session's lock must be held.

    Raises:
        OSError: something is left.
    """
    disk.unlink(at.log(key))
    if at.sessions.is_dir():
        sync_dir(disk, at.sessions)
    for path in _belongings(at, key):
        disk.unlink(path)
    disk.unlink(at.marker(key))
    with suppress(FileNotFoundError):
        at.blob_dir(key).rmdir()


def _belongings(at: Layout, key: SessionKey) -> list[Path]:
    folder = at.blob_dir(key)
    blobs = list(folder.iterdir()) if folder.is_dir() else []
    return blobs + list(at.quarantine.glob(f"{stem(key)}.*"))
