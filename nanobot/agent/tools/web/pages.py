"""Pages as text: fetched, told apart, decoded, and extracted where they are HTML or PDF."""

import asyncio
import json
import re
from http import HTTPStatus

from nanobot.agent.tools.base import Sourced
from nanobot.agent.tools.files.decode import Text, sniff
from nanobot.agent.tools.web.charset import decode
from nanobot.agent.tools.web.extraction import Extracted, Extractor
from nanobot.agent.tools.web.fetching import Fetcher, Page

_MAX_CHARS = 1_000_000
_MAX_ORIGIN_CHARS = 200  # the address is the page's words too, where a redirect led there
_HTML = ("text/html", "application/xhtml+xml")


class Pages:
    """What is on the web, as text.

    Args:
        fetcher: brings the page.
        extractor: makes text of it.
    """

    def __init__(self, fetcher: Fetcher, extractor: Extractor) -> None:
        self._fetcher = fetcher
        self._extractor = extractor

    async def read(self, url: str, *, raw: bool) -> Sourced:
        """Return the page's text behind a line about where it came from.

        Raises:
            ToolError: it may not be fetched, cannot be, or cannot be read.
        """
        page = await self._fetcher.fetch(url)
        text = await self._text(page, raw=raw)
        return Sourced(f"{_headline(page)}\n\n{text}", origin=f"web {str(page.target)[:_MAX_ORIGIN_CHARS]}")

    async def _text(self, page: Page, *, raw: bool) -> str:
        kind = page.content_type.lower().partition(";")[0].strip()
        if not page.body:
            return _unread(page, kind)
        if kind == "application/pdf" or page.body.startswith(b"%PDF-"):
            return _titled(await self._extractor.extract("pdf", page.body), empty="no text; it may be scanned")
        if binary := _binary(page.body, is_called_text=_is_text(kind)):
            return f"[{binary}, {len(page.body):,} bytes; not shown]"
        is_html = kind in _HTML or (not kind and page.body[:1_000].lstrip()[:1] == b"<")
        text = await asyncio.to_thread(decode, page.body, content_type=page.content_type, is_markup=is_html)
        if is_html and not raw:
            found = await self._extractor.extract("html", text.encode("utf-8", "replace"))
            return _titled(found, empty="no text; it may need JavaScript. raw shows the source")
        if kind == "application/json" or kind.endswith("+json"):
            text = await asyncio.to_thread(_indented, text)
        return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}\n[cut here, {len(text):,} characters]"


def _headline(page: Page) -> str:
    """Say what was fetched, in our words: a server's reason phrase is not repeated."""
    try:
        phrase = f" {HTTPStatus(page.status).phrase}"
    except ValueError:
        phrase = ""
    size = "" if page.length is None else f", {page.length:,} bytes"
    line = f"{page.status}{phrase} · {page.target} · {page.content_type or 'no type'}{size}"
    if page.hops:
        line += f" · redirected from {page.hops[0]}" + (
            f" over {len(page.hops) - 1} more" if len(page.hops) > 1 else ""
        )
    return f"{line} · {page.note}" if page.note else line


def _is_text(kind: str) -> bool:
    return kind.startswith("text/") or kind in _HTML or bool(re.search(r"\b(json|xml|javascript|yaml)$", kind))


def _binary(body: bytes, *, is_called_text: bool) -> str:
    """Return what the bytes are if they are no text.  Text of old Asian encodings looks binary: there the server's word counts."""
    sample = body[:8_192]
    form = sniff(sample, complete=len(body) <= 8_192)
    if isinstance(form, Text) or (is_called_text and form.kind == "binary data" and b"\0" not in sample):
        return ""
    return form.kind


def _unread(page: Page, kind: str) -> str:
    if not page.length:
        return "[an empty answer]"
    hint = "images are not shown" if kind.startswith("image/") else "only text, HTML, JSON and PDF are read"
    return f"[{kind or 'unknown type'}, {page.length:,} bytes; {hint}. A command such as curl -O can save it]"


def _titled(found: Extracted, *, empty: str) -> str:
    text = found.text.strip() or f"[{empty}]"
    title = found.title.strip()
    return text if not title or title in text[: len(title) + 10] else f"# {title}\n\n{text}"


def _indented(text: str) -> str:
    """Return JSON on lines that can be searched and cut; as it is when it is none."""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
