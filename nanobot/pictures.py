"""What the bytes of a picture say of it: its format and size.  Pure."""

import struct
from collections.abc import Callable


def inspect_image(data: bytes) -> tuple[str, tuple[int, int] | None]:
    """Return (media type, (width, height)) of a whole PNG, JPEG, GIF or WebP; "" for other formats, None for damaged data."""
    media_type, size = _header(data)
    if media_type not in _SHOWN:
        return "", None
    if media_type == "image/png" and (data[12:16] != b"IHDR" or b"IDAT" not in data):
        return media_type, None
    return media_type, size if size and min(size) > 0 else None


def image_size(sample: bytes) -> tuple[int, int] | None:
    """Return width and height as the first bytes of a picture say, BMP too; None if they do not say."""
    return _header(sample)[1]


def _header(data: bytes) -> tuple[str, tuple[int, int] | None]:
    for magic, media_type, size_of in _FORMATS:
        if data.startswith(magic) and (media_type != "image/webp" or data[8:12] == b"WEBP"):
            try:
                return media_type, size_of(data)
            except (struct.error, IndexError):  # cut short
                return media_type, None
    return "", None


def _png(data: bytes) -> tuple[int, int] | None:
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


def _bmp(data: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from("<ii", data, 18)
    return width, abs(height)


_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # what models and messengers take
_FORMATS: tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int] | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
    (b"GIF87a", "image/gif", _gif),
    (b"GIF89a", "image/gif", _gif),
    (b"RIFF", "image/webp", _webp),
    (b"BM", "image/bmp", _bmp),
)
