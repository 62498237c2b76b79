"""Pictures for the model to see: checked against what vendors take, and kept where received files are.

A picture is kept under its content's name before the result that shows it is logged, and nothing changes it afterwards: the log
names it by path and digest.
"""

import io
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from nanobot.agent.media import keep
from nanobot.bus.events import Media
from nanobot.providers.images import MAX_BYTES, judge

_SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


def keep_picture(file: BinaryIO, name: str, directory: Path | None) -> Media | str:
    """Keep the picture that the open file holds, from its beginning; or say in a few words why it cannot be shown.  Blocks.

    Args:
        file: can be read from its beginning.
        name: what the model knows it by.
        directory: where files of chats are kept; None: nowhere.
    """
    if directory is None:
        return "this run keeps no files"
    file.seek(0)
    data = file.read(MAX_BYTES + 1)
    media_type, fault = judge(data)
    if fault:
        return fault
    try:
        kept = keep(io.BytesIO(data), f"picture{_SUFFIXES[media_type]}", directory)
    except OSError as error:
        return f"it cannot be kept: {error.strerror or error}"
    return replace(kept, kind="image", name=name, media_type=media_type)
