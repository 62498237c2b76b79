"""Small pictures for tests: bytes that are what they claim to be, or not."""

import struct
import zlib


def png(width: int = 2, height: int = 2, *, pad_bytes: int = 0) -> bytes:
    """Return a grey PNG; ``pad_bytes`` of noise make it as large as a photo."""
    rows = zlib.compress((b"\0" + b"\x80" * min(width, 8)) * min(height, 8))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    padding = _chunk(b"zTXt", b"k\0\0" + bytes(range(256)) * (pad_bytes // 256)) if pad_bytes else b""
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + padding + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
