"""Files that come with a message: kept under their content's name, so that they stay what they were."""

import asyncio
import hashlib
import mimetypes
import os
import shutil
from pathlib import Path

from nanobot.bus.events import Media, MediaKind
from nanobot.errors import MisuseError

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


async def take_in(path: Path, directory: Path) -> Media:
    """Copy a file into ``directory`` and return it as media; a file that is there already is not copied again.

    Raises:
        MisuseError: it cannot be read.
    """
    try:
        return await asyncio.to_thread(_take_in, path, directory)
    except OSError as error:
        raise MisuseError(f"the file {str(path)!r} cannot be attached: {error.strerror or error}") from error


def _take_in(path: Path, directory: Path) -> Media:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    target = directory / f"{digest}{path.suffix.lower()}"
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        shutil.copyfile(path, partial)
        partial.replace(target)
    kind: MediaKind = "image" if media_type in _IMAGES else "file"
    return Media(
        kind=kind,
        name=path.name,
        media_type=media_type,
        size_bytes=target.stat().st_size,
        path=str(target),
        sha256=digest,
    )
