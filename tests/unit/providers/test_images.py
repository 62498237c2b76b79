"""Images on their way to a wire."""

import struct
import zlib
from base64 import b64encode
from pathlib import Path

import pytest

from nanobot.messages import ImagePart
from nanobot.pictures import image_size, inspect_image
from nanobot.providers.images import LoadedImage, load_image


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 8)) + chunk(b"IEND", b"")


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc2\x00\x0b\x08" + struct.pack(">HH", 20, 30) + b"\x01\x01\x11\x00"
WEBP = b"RIFF\x1e\0\0\0WEBP"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (png(3, 4), ("image/png", (3, 4))),
        (JPEG, ("image/jpeg", (30, 20))),
        (b"GIF89a" + struct.pack("<HH", 5, 6), ("image/gif", (5, 6))),
        (WEBP + b"VP8X" + b"\0" * 8 + b"\x09\0\0\x13\0\0", ("image/webp", (10, 20))),
        (WEBP + b"VP8 " + b"\0" * 10 + struct.pack("<HH", 7, 8), ("image/webp", (7, 8))),
        (b"\x89PNG\r\n\x1a\njunk", ("image/png", None)),
        (b"\xff\xd8\xff", ("image/jpeg", None)),
        (b"BM....", ("", None)),
        (b"", ("", None)),
    ],
)
def test_headers(data: bytes, expected: tuple[str, tuple[int, int] | None]) -> None:
    """Format and size are read from the bytes, damage is noticed."""
    assert inspect_image(data) == expected


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (png(100, 9_000), "pixels"),
        (png(1, 1) + b"\0" * 4_000_000, "3.75 MB"),
        (b"BM", "no PNG"),
        (b"GIF89a", "damaged"),
    ],
)
def test_e13_what_a_vendor_would_refuse_becomes_a_sentence(data: bytes, why: str, tmp_path: Path) -> None:
    """An image that would poison the session is replaced by the reason."""
    (tmp_path / "x").write_bytes(data)

    found = load_image(ImagePart(str(tmp_path / "x"), "image/png", ""))

    assert isinstance(found, str)
    assert why in found


def test_a_good_image_is_loaded(tmp_path: Path) -> None:
    """The media type is the real one, whatever the log says."""
    (tmp_path / "x").write_bytes(png(1, 1))

    assert load_image(ImagePart(str(tmp_path / "x"), "image/jpeg", "")) == LoadedImage(
        "image/png", b64encode(png(1, 1)).decode()
    )


def test_a_header_alone_tells_the_size() -> None:
    """The first bytes are enough, BMP included, and any shorter beginning says nothing instead of failing."""
    png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    bmp = b"BM" + bytes(16) + (3).to_bytes(4, "little") + (-2).to_bytes(4, "little", signed=True)

    assert image_size(png) == (640, 480)
    assert image_size(bmp) == (3, 2)
    assert inspect_image(bmp) == ("", None)
    assert inspect_image(png) == ("image/png", None)
    assert {image_size(whole[:cut]) for whole in (png, bmp) for cut in range(len(whole))} == {None}
