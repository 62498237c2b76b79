"""What ``read_file`` does: looks what a file is, and makes text or a picture of it."""

import asyncio
import codecs
import contextlib
import hashlib
import io
import os
from pathlib import Path
from typing import BinaryIO

from nanobot.agent.tools.base import Result, Shown, Sourced, ToolContext
from nanobot.agent.tools.documents.limits import Kind
from nanobot.agent.tools.documents.reading import Document, document_kind, parse_pages, read_document
from nanobot.agent.tools.files import seen
from nanobot.agent.tools.files.decode import Binary, Text, sniff
from nanobot.agent.tools.files.paths import PathRules, sourced
from nanobot.agent.tools.files.read import ReadFileArguments
from nanobot.agent.tools.files.reading import CHUNK_BYTES, Page, read_page
from nanobot.agent.tools.showing import keep_picture
from nanobot.agent.tools.threads import in_thread, to_its_end
from nanobot.bus.events import Media
from nanobot.errors import ToolError
from nanobot.pictures import image_size
from nanobot.values import frozen

_SAMPLE_BYTES = 8_192
_IMAGE_BYTES = 256 << 10  # a JPEG's size can stand far behind its beginning
_FOOTER_CHARS = 300
_DOCUMENTS_AT_ONCE = 2  # each may take a gigabyte


@frozen
class _Looked:
    """What a file is; ``said`` is the answer, unless it is a document that has yet to be read from ``file``."""

    path: Path
    said: str = ""
    images: tuple[Media, ...] = ()
    document: tuple[BinaryIO, Kind] | None = None


class Reader:
    """Reads what the rules open.

    Args:
        rules: what is open.
        max_chars: most characters of an answer.
    """

    def __init__(self, rules: PathRules, *, max_chars: int) -> None:
        self._rules = rules
        self._page_chars = max(500, max_chars - _FOOTER_CHARS)
        self._documents = asyncio.Semaphore(_DOCUMENTS_AT_ONCE)

    async def read(self, arguments: ReadFileArguments, context: ToolContext) -> Result:
        """Return the page, document or picture.

        Raises:
            ToolError: it cannot be read; says what could be done instead.
        """
        pages = parse_pages(arguments.pages) if arguments.pages else None
        with contextlib.ExitStack() as held:
            looked = await to_its_end(context.in_thread, self._look, arguments, context, held)
            text = looked.said
            if looked.document is not None:
                file, kind = looked.document
                async with self._documents:
                    document = await read_document(file, kind, arguments.path, pages)
                text = await in_thread(_page_of, document, arguments, self._page_chars)
            elif pages is not None:
                raise ToolError(f"{arguments.path!r} has no pages; use offset and limit.")
        result = sourced(text, looked.path, context.workspace)
        if not looked.images:
            return result
        return Shown(text, looked.images, result.origin if isinstance(result, Sourced) else "")

    def _look(self, arguments: ReadFileArguments, context: ToolContext, held: contextlib.ExitStack) -> _Looked:
        path, file = self._rules.open(arguments.path, context.workspace)
        held.callback(file.close)
        size = os.fstat(file.fileno()).st_size
        sample = file.read(_SAMPLE_BYTES)
        form = sniff(sample, complete=len(sample) < _SAMPLE_BYTES)
        if arguments.encoding is not None:
            form = _named_encoding(arguments.encoding)
        elif not arguments.raw and (kind := document_kind(path.name, form)) is not None:
            return _Looked(path, document=(file, kind))
        if isinstance(form, Binary):
            if form.is_image:
                pixels = image_size(sample + file.read(_IMAGE_BYTES))
                picture = keep_picture(file, arguments.path, context.media)
                images = (picture,) if isinstance(picture, Media) else ()
                return _Looked(path, _described(arguments.path, form, size, pixels, picture), images)
            raise ToolError(_binary(arguments.path, form, size))
        sha256 = _sha256(file) if size <= seen.MAX_SEEN_BYTES else None
        page = read_page(file, form, first=arguments.offset, limit=arguments.limit, max_chars=self._page_chars)
        text = _render(page, arguments, form, size)
        seen.note(context, path, sha256)
        return _Looked(path, text)


def _sha256(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _binary(name: str, form: Binary, size: int) -> str:
    hint = " If it is text in an old encoding, give encoding." if form.kind == "binary data" else ""
    return f"{name!r} is not text: {form.kind}, {size:,} bytes. Use exec with a fitting program to look into it.{hint}"


def _described(name: str, form: Binary, size: int, pixels: tuple[int, int] | None, picture: Media | str) -> str:
    shape = f", {pixels[0]:,} × {pixels[1]:,} pixels" if pixels else ""
    what = f"{name} is an image: {form.kind.removesuffix(' image')}{shape}, {size:,} bytes"
    if isinstance(picture, Media):
        return f"[{what}. It is shown with this result.]"
    return f"[{what}. It is not shown: {picture}. A PNG or JPEG made from it with exec could be.]"


def _named_encoding(encoding: str) -> Text:
    try:
        codec = codecs.lookup(encoding)
        "".encode(codec.name)
        codecs.getincrementaldecoder(codec.name)
    except (LookupError, ValueError):  # no such name, or one that is about bytes or lines
        raise ToolError(f"{encoding!r} is no encoding; such as cp1251, shift_jis, utf-16.") from None
    return Text(codec.name)


def _render(page: Page, arguments: ReadFileArguments, form: Text, size: int) -> str:
    if not page.lines:
        return _nothing(page, arguments)
    lines = [f"{line.number}\t{line.text}" + _clip_note(line.full_bytes) for line in page.lines]
    return "\n".join((*lines, *_footer(page, form, size)))


def _nothing(page: Page, arguments: ReadFileArguments) -> str:
    if page.timed_out or page.total is None:
        raise ToolError(
            f"line {arguments.offset:,} of {arguments.path!r} was not reached in time. Use exec with sed or tail."
        )
    if page.total == 0:
        return f"[{arguments.path} is empty]"
    lines = "1 line" if page.total == 1 else f"{page.total:,} lines"
    raise ToolError(f"{arguments.path!r} has only {lines}; offset {arguments.offset:,} is beyond its end.")


def _clip_note(full_bytes: int) -> str:
    return f" … [line clipped; it is {full_bytes:,} bytes long]" if full_bytes else ""


def _page_of(document: Document, arguments: ReadFileArguments, max_chars: int) -> str:
    data = document.text.encode("utf-8", "replace")
    form = Text("utf-8")
    page = read_page(io.BytesIO(data), form, first=arguments.offset, limit=arguments.limit, max_chars=max_chars)
    return f"[{'; '.join(document.notes)}]\n{_render(page, arguments, form, len(data))}"


def _footer(page: Page, form: Text, size: int) -> list[str]:
    last = page.lines[-1].number
    notes: list[str] = []
    if page.timed_out:
        notes.append(f"reading stopped after too long a time; the file is {size:,} bytes")
    elif page.total is None:
        notes.append(f"more lines follow (the file is {size:,} bytes); go on with offset={last + 1}")
    elif last < page.total:
        notes.append(f"lines {page.lines[0].number}-{last} of {page.total:,}; go on with offset={last + 1}")
    if form.encoding == "latin-1":
        notes.append("not valid UTF-8; shown as Latin-1")
    elif not form.encoding.startswith("utf-8"):
        notes.append(f"encoded as {form.codec.upper()}")
    return [f"[{'; '.join(notes)}]"] if notes else []
