"""What bytes are: text in which encoding, an image, or something binary.  Pure, and never raises on any bytes."""

import codecs
import re

from nanobot.values import frozen

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark begins it
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BM", "BMP image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "zip archive (or docx, xlsx, pptx, jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "ELF program or library"),
    (b"SQLite format 3\0", "SQLite database"),
)
# CSI, OSC and other strings (ended by BEL or ST; bounded, so that an unended one costs no more), charset and two-byte escapes
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[PX^_][^\x1b]{0,4096}\x1b\\|[()][0-9A-Za-z]|[@-Z\\^_=>78])"
)
_UNENDED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[PX^_][^\x1b]*|[()])?")
_CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@frozen
class Text:
    """Text; ``bom`` bytes at the beginning are no part of it."""

    encoding: str
    bom: bytes = b""

    @property
    def codec(self) -> str:
        """Python's name for how the text behind the ``bom`` is encoded."""
        return self.encoding.removesuffix("-sig")


@frozen
class Binary:
    """No text.  ``kind`` says what it looks like."""

    kind: str

    @property
    def is_image(self) -> bool:
        """Whether it is an image."""
        return self.kind.endswith("image")


def sniff(sample: bytes, *, complete: bool) -> Text | Binary:
    """Return what a file's first bytes look like.  ``complete`` says that there are no more."""
    for bom, encoding in _BOMS:
        if sample.startswith(bom):
            return Text(encoding, bom)
    if sample[:4] == b"RIFF" and sample[8:12] == b"WEBP":
        return Binary("WebP image")
    for magic, kind in _MAGIC:
        if sample.startswith(magic) and (magic != b"BM" or b"\0" in sample[:32]):
            return Binary(kind)
    if b"\0" in sample:
        return _utf16(sample) or Binary("binary data")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=complete)
    except UnicodeDecodeError:
        odd = sum(byte < 9 or 13 < byte < 32 for byte in sample)
        high = sum(byte > 127 for byte in sample)
        if odd * 20 > len(sample) or high * 3 > len(sample):
            return Binary("binary data")
        return Text("latin-1")
    return Text("utf-8")


def printable(data: bytes) -> str:
    """Return a command's output as text: decoded, without escapes, control characters and what a carriage return overwrote."""
    if not data:
        return ""
    if b"\0" in data and _is_nul_separated(data):  # find -print0, /proc/*/environ
        data = data.replace(b"\0", b"\n")
    form = sniff(data[:8192], complete=len(data) <= 8192)
    if isinstance(form, Binary):
        return f"[binary output, {len(data):,} bytes, looks like {form.kind}; not shown]"
    return readable(data[len(form.bom) :].decode(form.codec, "replace"))


def readable(text: str) -> str:
    """Return what a terminal printed without escapes, control characters and what was overwritten or rubbed out."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    text = _CONTROL.sub("", text)
    if "\b" in text:
        text = "\n".join(_overwritten(line) if "\b" in line else line for line in text.split("\n"))
    return text


def is_unended_escape(data: bytes) -> bool:
    """Whether bytes that begin with an escape are the beginning of a sequence whose end is still to come."""
    return bool(_UNENDED.fullmatch(data))


def _overwritten(line: str) -> str:
    """Return a line as backspaces leave it: they move back, and what follows is written over."""
    cells: list[str] = []
    at = 0
    for character in line:
        if character == "\b":
            at = max(at - 1, 0)
            continue
        at = len(cells) if character == "\t" else at
        cells[at : at + 1] = character
        at += 1
    return "".join(cells)


def _is_nul_separated(data: bytes) -> bool:
    sample = data[:8192]
    odd = sum(byte < 9 or 13 < byte < 32 for byte in sample)
    return odd == sample.count(0) <= len(sample) / 8 and b"\0\0" not in sample and not sample.startswith(b"\xff\xfe")


def _utf16(sample: bytes) -> Text | None:
    """Recognize UTF-16 without a mark: nearly all of every second byte is NUL, and hardly any of the others."""
    even, odd = sample[0::2], sample[1::2]
    if len(odd) < 2:
        return None
    zeros_even, zeros_odd = even.count(0) / len(even), odd.count(0) / len(odd)
    if zeros_odd > 0.7 and zeros_even < 0.05:
        return Text("utf-16-le")
    if zeros_even > 0.7 and zeros_odd < 0.05:
        return Text("utf-16-be")
    return None
