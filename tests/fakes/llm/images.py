"""Would a vendor take this image?  Format, base64, the first and last bytes, and size; pixels are not decoded."""

import base64
import binascii
import struct

MAX_BYTES = 5 * 1024 * 1024
MAX_SIDE = 8_000
MEDIA_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def image_fault(media_type: str, encoded: str) -> str | None:
    """Return what is wrong with the image, or None."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return "invalid base64 data"
    if len(raw) > MAX_BYTES:
        return f"image exceeds 5 MB maximum: {len(raw)} bytes > {MAX_BYTES} bytes"
    found = _sniff(raw)
    if found is None:
        return "Could not process image"
    if found != media_type:
        return f"Image does not match the provided media type {media_type}"
    if found == "image/png":
        return _png_fault(raw)
    return None


def _sniff(raw: bytes) -> str | None:
    if raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if raw.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if raw.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return None


def _png_fault(raw: bytes) -> str | None:
    if raw[12:16] != b"IHDR" or len(raw) < 24 or b"IEND" not in raw[-16:]:
        return "Could not process image"
    if max(struct.unpack(">II", raw[16:24])) > MAX_SIDE:
        return f"At least one of the image dimensions exceed max allowed size: {MAX_SIDE} pixels"
    return None
