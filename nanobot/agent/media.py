"""Files that come with a message or go out with an answer: kept under their content's name, so that they stay what they were."""

import asyncio
import errno
import hashlib
import mimetypes
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from nanobot.bus.events import Media, MediaKind
from nanobot.errors import MisuseError

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")
_BLOCK_BYTES = 1 << 20


async def take_in(path: Path, directory: Path) -> Media:
    """Copy a file into ``directory`` and return it as media.

    Raises:
        MisuseError: it cannot be read.
    """
    try:
        return await asyncio.to_thread(_take_in, path, directory)
    except OSError as error:
        raise MisuseError(f"the file {str(path)!r} cannot be attached: {error.strerror or error}") from error


def _take_in(path: Path, directory: Path) -> Media:
    with path.open("rb") as file:
        return keep(file, path.name, directory)


def keep(file: BinaryIO, name: str, directory: Path, *, max_bytes: int | None = None) -> Media:
    """Copy an open file into ``directory`` in one pass; it is safe on the disk when this returns.  Blocks.

    Raises:
        OSError: the disk refuses, or the file grew beyond ``max_bytes``; nothing half-written has the content's name.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = directory / f".{uuid4().hex}.partial"
    try:
        digest, size = _copy(file, partial, max_bytes)
        suffix = _SUFFIX.search(name)
        target = directory / f"{digest}{suffix.group().lower() if suffix else ''}"
        partial.replace(target)
        _sync_names(directory)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind: MediaKind = "image" if media_type in _IMAGES else "file"
    return Media(kind=kind, name=name, media_type=media_type, size_bytes=size, path=str(target), sha256=digest)


def _copy(file: BinaryIO, target: Path, max_bytes: int | None) -> tuple[str, int]:
    """Copy and sync; return the content's sha256 and size."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        while block := file.read(_BLOCK_BYTES):
            size += len(block)
            if max_bytes is not None and size > max_bytes:
                raise OSError(errno.EFBIG, "it grew while it was copied")
            digest.update(block)
            copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest(), size


def _sync_names(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
