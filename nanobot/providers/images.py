"""Read the images of a request for a wire: off the event loop, checked, or replaced by a text that says why not.

A picture that a vendor refuses would poison every later request of its session (field fault E13), so what can be known beforehand
is checked here: it exists, is what the log says it was, is a format vendors take, and is not too large.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nanobot.messages import ImagePart
from nanobot.pictures import inspect_image

MAX_BASE64_BYTES = 5 * 1024 * 1024  # Anthropic's limit for one image, counted after base64
MAX_SIDE_PIXELS = 8_000


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """An image ready for a wire: its real media type and its bytes in base64."""

    media_type: str
    base64: str


Images: TypeAlias = Mapping[ImagePart, LoadedImage | str]
"""A message's images as they were read; a text says why one is left out."""


def load_image(part: ImagePart) -> LoadedImage | str:
    """Return the image, or one sentence that says why it cannot be shown.  Reads a file: call it in a thread."""
    path = Path(part.path)
    try:
        if path.stat().st_size > MAX_BASE64_BYTES * 3 // 4:
            return _left_out(part, "it is larger than 3.75 MB")
        data = path.read_bytes()
    except OSError:
        return _left_out(part, "its file is gone")
    if part.sha256 and hashlib.sha256(data).hexdigest() != part.sha256.lower():
        return _left_out(part, "its file was changed since")
    media_type, size = inspect_image(data)
    if not media_type:
        return _left_out(part, "it is no PNG, JPEG, GIF or WebP image")
    if size is None:
        return _left_out(part, "its data is damaged")
    if max(size) > MAX_SIDE_PIXELS:
        return _left_out(part, f"{size[0]}×{size[1]} pixels are more than {MAX_SIDE_PIXELS} on a side")
    return LoadedImage(media_type, base64.b64encode(data).decode("ascii"))


def _left_out(part: ImagePart, why: str) -> str:
    return f"[image {Path(part.path).name!r} left out: {why}]"
