"""Bytes of the web as text.  Pure, and never raises on any bytes.

In this order: a byte order mark, what the server declared, what the page declares of itself, valid UTF-8, a guess (by
charset-normalizer where it is installed, which comes with nanobot[web]), Windows-1252.
"""

import codecs
import re
from collections.abc import Iterator

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^<>]{0,500}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^<>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_DECLARED_BYTES = 4_096
_GUESS_BYTES = 64 << 10
_MANY = 0.3  # of bytes that are not ASCII, as in Cyrillic, Greek or Chinese
# What is called so means, on the web, the larger set of Windows
_ALSO = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


def decode(data: bytes, *, content_type: str = "", is_markup: bool = False) -> str:
    """Return the text; what no encoding explains becomes U+FFFD."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    for name in _declared(data, content_type, is_markup):
        text = data.decode(name, "replace")
        if text.count("\ufffd") * 50 <= len(text):  # else it was declared wrongly
            return text
    return _guessed(data)


def _declared(data: bytes, content_type: str, is_markup: bool) -> Iterator[str]:
    found = [match.group(1) for match in [_HEADER.search(content_type)] if match]
    if is_markup:
        start = data[:_DECLARED_BYTES]
        found += [m.group(1).decode() for m in (_META.search(start), _XML.search(start)) if m]
    for name in found:
        try:
            codec = codecs.lookup(name)
        except LookupError:
            continue
        if getattr(codec, "_is_text_encoding", True) and codec.name not in ("idna", "punycode", "undefined", "utf-7"):
            yield _ALSO.get(codec.name, codec.name)


def _guessed(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4 and not data[: error.start].isascii():  # the page was cut inside a character
            return data.decode("utf-8", "replace")
    name = _by_statistics(data[:_GUESS_BYTES])
    try:
        return data.decode(name, "replace")
    except LookupError:
        return data.decode("cp1252", "replace")


def _by_statistics(sample: bytes) -> str:
    if sum(byte > 127 for byte in sample) < len(sample) * _MANY:
        return "cp1252"  # a few accents: western Europe is right more often than any statistics
    try:
        from charset_normalizer import from_bytes  # lazily: an extra
    except ImportError:
        return "cp1252"
    best = from_bytes(sample).best()
    return best.encoding if best else "cp1252"
