"""Looking at an Office file's zip before a library unpacks it: how much comes out, and whether its XML declares entities."""

import zipfile
from typing import BinaryIO

from nanobot.agent.tools.documents.limits import Unreadable

_MAX_ENTRIES = 5_000
_MAX_UNPACKED_BYTES = 300 << 20
_MAX_RATIO = 200
_SMALL_BYTES = 20 << 20  # a good ratio is no bomb
_DECLARATIONS = tuple(
    word.encode(codec) for word in ("<!DOCTYPE", "<!ENTITY") for codec in ("ascii", "utf-16-le", "utf-16-be")
)


def check_archive(file: BinaryIO) -> None:
    """Let a zip pass that unpacks to a bearable size and has only plain XML.

    Raises:
        Unreadable: it is no zip, encrypted, a bomb, or its XML declares entities.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            _check_sizes(archive.infolist())
            for entry in archive.infolist():
                if entry.filename.lower().endswith((".xml", ".rels", ".vml")):
                    _check_xml(archive, entry)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise Unreadable(f"it is damaged or not what its name says ({error}).") from None
    file.seek(0)


def _check_sizes(entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > _MAX_ENTRIES:
        raise Unreadable(f"it holds {len(entries):,} parts, more than {_MAX_ENTRIES:,}.")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Unreadable("it is encrypted.")
    packed, unpacked = sum(entry.compress_size for entry in entries), sum(entry.file_size for entry in entries)
    if unpacked > _MAX_UNPACKED_BYTES or (unpacked > _SMALL_BYTES and unpacked > packed * _MAX_RATIO):
        raise Unreadable(f"it unpacks from {packed:,} to {unpacked:,} bytes, which looks like a bomb.")


def _check_xml(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    tail = b""
    with archive.open(entry) as part:
        while chunk := part.read(1 << 18):
            if any(word in tail + chunk for word in _DECLARATIONS):
                raise Unreadable(f"its part {entry.filename!r} declares XML entities, which no Office program writes.")
            tail = chunk[-32:]
