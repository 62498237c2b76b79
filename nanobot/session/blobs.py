"""Bytes that lie beside a session's log: full results, prompts, pre-images.  Named by their sha256; private to the session.

Sessions begin with the same prompt and the same tools: the same bytes in another session are a second name for one file, which is
there already and synced.
"""

import hashlib
import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.session.disk import DirSyncs, Disk, make_dirs, read_block, write_new
from nanobot.session.entries import BlobId
from nanobot.session.files import Layout
from nanobot.values import frozen

_ID = re.compile(r"[0-9a-f]{64}")
_KEPT = 64


@frozen
class Blobs:
    """The blobs of all sessions.  Blocks: to be called from threads."""

    disk: Disk
    at: Layout
    dir_syncs: DirSyncs
    sync: bool
    named: set[Path] = field(default_factory=set[Path])  # folders whose own names this process has synced
    kept: dict[BlobId, Path] = field(default_factory=dict[BlobId, Path])  # synced files; some threads share it

    def put(self, key: SessionKey, data: bytes) -> BlobId:
        """Keep the bytes, safe on the disk when this returns.

        Raises:
            OSError: the disk refused; nothing half-written has the blob's name.
        """
        blob = hashlib.sha256(data).hexdigest()
        folder = self.at.blob_dir(key)
        make_dirs(self.disk, folder, sync=False)
        if self._has(folder / blob, len(data)) or self._linked(folder / blob, len(data)):
            os.utime(folder / blob)  # it is new again, for ``prune``
        else:
            self._write(folder, blob, data)
        if self.sync:  # also for one that was there: its name may be younger than the last sync
            self._sync_names(folder)
        self.kept[blob] = folder / blob
        if len(self.kept) > _KEPT:
            self.kept.clear()
        return blob

    def get(self, key: SessionKey, blob: BlobId) -> bytes:
        """Return the bytes.

        Raises:
            KeyError: no such blob in this session, or it is damaged.
            OSError: the disk cannot be read.
        """
        if not _ID.fullmatch(blob):
            raise KeyError(blob)
        try:
            fd = self.disk.open(self.at.blob_dir(key) / blob, os.O_RDONLY)
        except FileNotFoundError:
            raise KeyError(blob) from None
        try:
            data = read_block(self.disk, fd, self.disk.stat(fd).st_size, 0)
        finally:
            self.disk.close(fd)
        if hashlib.sha256(data).hexdigest() != blob:
            raise KeyError(blob)
        return data

    def prune(self, key: SessionKey, *, keep: Collection[BlobId], max_age_s: float, max_bytes: int, now: float) -> int:
        """Remove what is older than ``max_age_s``, and the oldest above ``max_bytes`` in all; return how many that were.

        Args:
            key: the session.
            keep: blobs that stay whatever their age.
            max_age_s: since they were last put.
            max_bytes: of what may be removed, together.
            now: seconds since the epoch.
        """
        found = [path for path in _listed(self.at.blob_dir(key)) if _ID.fullmatch(path.name) and path.name not in keep]
        stats = [(path, path.stat()) for path in found]
        total = removed = 0
        for path, stat in sorted(stats, key=lambda item: item[1].st_mtime, reverse=True):
            total += stat.st_size
            if now - stat.st_mtime > max_age_s or total > max_bytes:
                self.disk.unlink(path)
                removed += 1
        return removed

    def _sync_names(self, folder: Path) -> None:
        """Sync the blob's name, and once in this process the names of the folders above it: who made them may have died since."""
        self.dir_syncs.sync(folder)
        for each in (folder, self.at.blobs):
            if each not in self.named:
                self.dir_syncs.sync(each.parent)
                self.named.add(each)

    def _has(self, path: Path, size: int) -> bool:
        try:
            return path.stat().st_size == size
        except FileNotFoundError:
            return False

    def _linked(self, path: Path, size: int) -> bool:
        """Say whether the blob has this name too now.  Where that cannot be, it is written once more."""
        kept = self.kept.get(path.name)
        if kept is None or not self._has(kept, size):
            return False
        try:
            self.disk.link(kept, path)
        except OSError:
            return False
        return True

    def _write(self, folder: Path, blob: BlobId, data: bytes) -> None:
        temporary = folder / f".{blob}.{os.getpid()}.{os.urandom(4).hex()}"
        write_new(self.disk, temporary, data, sync=self.sync)
        try:
            self.disk.rename(temporary, folder / blob)
        except OSError:
            with suppress(OSError):
                self.disk.unlink(temporary)
            raise


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
