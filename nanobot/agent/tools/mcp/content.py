"""A server's result as the model gets it: text as it is, pictures to see, everything else in one line that says what it was.

Pictures and other files are kept beside received media, where the file tools can read them and ``send_file`` can send them.
"""

import base64
import binascii
import io
import json
import mimetypes
from collections.abc import Iterable
from pathlib import Path

import mcp_types as types

from nanobot.agent.media import keep
from nanobot.agent.tools.mcp.remote import Reply
from nanobot.agent.tools.showing import keep_picture
from nanobot.bus.events import Media

MAX_TEXT_CHARS = 1_000_000
MAX_FILE_BYTES = 10_000_000

Block = types.ContentBlock | types.TextResourceContents | types.BlobResourceContents


def reply_of(blocks: Iterable[Block], structured: object, *, media: Path, is_error: bool = False) -> Reply:
    """Return the blocks as one text, at most ``MAX_TEXT_CHARS`` long, and their pictures.

    Writes files below ``media``: call it in a thread.
    """
    images: list[Media] = []
    parts = [_block(block, media, images) for block in blocks]
    if structured is not None and not any(parts):
        parts = [json.dumps(structured, ensure_ascii=False)]
    text = "\n".join(part for part in parts if part)
    if len(text) > MAX_TEXT_CHARS:
        gone = len(text) - MAX_TEXT_CHARS
        text = f"{text[:MAX_TEXT_CHARS]}\n[… the server sent {gone:,} characters more; they were not kept …]"
    return Reply(text or "(an empty result)", is_error, tuple(images))


def _block(block: Block, media: Path, images: list[Media]) -> str:
    match block:
        case types.TextContent() | types.TextResourceContents():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _file(block.type, block.data, block.mime_type, media, images)
        case types.BlobResourceContents():
            kind = block.mime_type or "application/octet-stream"
            return _file(f"resource {block.uri}", block.blob, kind, media, images)
        case types.EmbeddedResource():
            return f"[resource {block.resource.uri}]\n{_block(block.resource, media, images)}"
        case types.ResourceLink():
            about = ", ".join(filter(None, (block.mime_type, block.description)))
            return f"[resource {block.uri}{f' ({about})' if about else ''}: mcp_read_resource reads it]"


def _file(what: str, data: str, media_type: str, media: Path, images: list[Media]) -> str:
    """Keep a file under its content's name; say what and where it is.  A picture that can be shown is one of ``images``."""
    kind = media_type.partition(";")[0].strip()[:80]
    if len(data) > MAX_FILE_BYTES * 4 // 3 + 4:
        return f"[{what}, {kind}: too large to keep ({len(data) * 3 // 4:,} bytes)]"
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{what}, {kind}: its data cannot be read]"
    picture = keep_picture(io.BytesIO(raw), "", media) if kind.startswith("image/") else None
    if isinstance(picture, Media):
        images.append(picture)
        return f"[{what}, {kind}, {len(raw):,} bytes: {picture.path}]"
    about = f"{kind}, {len(raw):,} bytes" + (f", not shown: {picture}" if picture else "")
    try:
        kept = keep(io.BytesIO(raw), f"file{mimetypes.guess_extension(kind) or '.bin'}", media)
    except OSError as error:
        return f"[{what}, {about}: it cannot be kept: {error.strerror or error}]"
    return f"[{what}, {about}: {kept.path}]"
