"""A server's result as text for the model: what is text as it is, everything else in one line that says what it was.

Images and other files are kept beside received media, where the file tools can read them and ``send_file`` can send them.
"""

import base64
import binascii
import hashlib
import json
import mimetypes
import os
from collections.abc import Iterable
from pathlib import Path

import mcp_types as types

MAX_TEXT_CHARS = 1_000_000
MAX_FILE_BYTES = 10_000_000

Block = types.ContentBlock | types.TextResourceContents | types.BlobResourceContents


def text_of(blocks: Iterable[Block], structured: object, *, media: Path) -> str:
    """Return the blocks as one text, at most ``MAX_TEXT_CHARS`` long.  Writes files below ``media``: call it in a thread."""
    parts = [_block(block, media) for block in blocks]
    if structured is not None and not any(parts):
        parts = [json.dumps(structured, ensure_ascii=False)]
    text = "\n".join(part for part in parts if part)
    if len(text) > MAX_TEXT_CHARS:
        gone = len(text) - MAX_TEXT_CHARS
        return f"{text[:MAX_TEXT_CHARS]}\n[… the server sent {gone:,} characters more; they were not kept …]"
    return text or "(an empty result)"


def _block(block: Block, media: Path) -> str:
    match block:
        case types.TextContent() | types.TextResourceContents():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _kept(block.type, block.data, block.mime_type, media)
        case types.BlobResourceContents():
            return _kept(f"resource {block.uri}", block.blob, block.mime_type or "application/octet-stream", media)
        case types.EmbeddedResource():
            return f"[resource {block.resource.uri}]\n{_block(block.resource, media)}"
        case types.ResourceLink():
            about = ", ".join(filter(None, (block.mime_type, block.description)))
            return f"[resource {block.uri}{f' ({about})' if about else ''}: mcp_read_resource reads it]"


def _kept(what: str, data: str, media_type: str, media: Path) -> str:
    """Keep a file under its content's name; say what and where it is."""
    kind = media_type.partition(";")[0].strip()[:80]
    if len(data) > MAX_FILE_BYTES * 4 // 3 + 4:
        return f"[{what}, {kind}: too large to keep ({len(data) * 3 // 4:,} bytes)]"
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{what}, {kind}: its data cannot be read]"
    target = media / f"{hashlib.sha256(raw).hexdigest()}{mimetypes.guess_extension(kind) or '.bin'}"
    if not target.exists():
        media.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        partial.write_bytes(raw)
        partial.replace(target)
    return f"[{what}, {kind}, {len(raw):,} bytes: {target}]"
