"""Read the images of a request for a wire: off the event loop, checked, or replaced by a text that says why not.

A picture that a vendor refuses would poison every later request of its session (field fault E13), so what can be known beforehand
is checked here: it exists, is what the log says it was, is a format vendors take, and is not too large.
"""

import base64
import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from nanobot.messages import ImagePart

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


def inspect_image(data: bytes) -> tuple[str, tuple[int, int] | None]:
    """Return (media type, (width, height)) as the bytes themselves say; "" for other formats, None for a damaged header."""
    for magic, media_type, size_of in _FORMATS:
        if data.startswith(magic) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            try:
                size = size_of(data)
            except (struct.error, IndexError):
                return media_type, None
            return media_type, size if size and min(size) > 0 else None
    return "", None


def _left_out(part: ImagePart, why: str) -> str:
    return f"[image {Path(part.path).name!r} left out: {why}]"


def _png(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or b"IDAT" not in data:
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif(data: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    for _ in range(10_000):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


_FORMATS: tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int] | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
    (b"GIF87a", "image/gif", _gif),
    (b"GIF89a", "image/gif", _gif),
    (b"RIFF", "image/webp", _webp),
)
