"""The size of a picture in pixels, from its first bytes.  Pure, and never raises on any bytes."""

import struct

_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # start-of-frame markers


def image_size(sample: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF, JPEG, WebP or BMP; None if the bytes do not say."""
    try:
        if sample.startswith(b"\x89PNG"):
            return _pair(">II", sample, 16)
        if sample.startswith(b"GIF8"):
            return _pair("<HH", sample, 6)
        if sample.startswith(b"BM"):
            width, height = _pair("<ii", sample, 18)
            return width, abs(height)
        if sample[8:12] == b"WEBP":
            return _webp(sample)
        return _jpeg(sample) if sample.startswith(b"\xff\xd8") else None
    except struct.error:  # cut short
        return None


def _pair(form: str, sample: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, sample, at)
    return int(first), int(second)


def _webp(sample: bytes) -> tuple[int, int] | None:
    kind = sample[12:16]
    if kind == b"VP8 ":
        width, height = _pair("<HH", sample, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(sample[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(sample[24:27], "little") + 1, int.from_bytes(sample[27:30], "little") + 1
    return None


def _jpeg(sample: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(sample) and sample[at] == 0xFF:
        marker = sample[at + 1]
        if marker in _JPEG_SIZES:
            height, width = _pair(">HH", sample, at + 5)
            return width, height
        at += 2 + int.from_bytes(sample[at + 2 : at + 4], "big")
    return None
