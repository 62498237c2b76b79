"""Turn a page or a PDF into text, in a process of its own that may be killed at any moment.

A script: started as ``python -P extractor.py KIND``, never imported by the daemon.  stdin is the document (UTF-8 for ``html``
and ``plain``, bytes for ``pdf``), stdout one JSON object: ``title``, ``text``, or ``fault``.  It limits its own memory, processor
time and files before it reads anything, because what it reads was written by anybody.
"""

import contextlib
import html
import json
import re
import resource
import sys
from collections.abc import Callable

MEMORY_BYTES = 1_500_000_000
CPU_S = 20
MAX_CHARS = 1_000_000
MAX_PAGES = 500
_GOOD_ENOUGH_CHARS = 200
_LIMITS = ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_FSIZE, 0))

_TITLE = re.compile(r"<title[^<>]{0,500}>([^<]{0,1000})", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|style|noscript|template|svg)\b[^<>]{0,5000}>", re.IGNORECASE)
_TAG = re.compile(r"<[!/?a-zA-Z][^<>]*>")
_BREAK = re.compile(r"</?(?:p|div|br|li|tr|h[1-6]|section|article|table|ul|ol|pre|blockquote)\b[^<>]*>", re.IGNORECASE)


def main(kind: str) -> int:
    """Read stdin, write stdout; return the exit code."""
    for kind_of_limit, value in _LIMITS:
        with contextlib.suppress(ValueError, OSError):  # macOS knows no limit of address space
            resource.setrlimit(kind_of_limit, (value, value))
    data = sys.stdin.buffer.read()
    found = pdf(data) if kind == "pdf" else page(data.decode("utf-8", "replace"), plainly=kind == "plain")
    sys.stdout.write(json.dumps(found))
    return 0


def page(text: str, *, plainly: bool) -> dict[str, str]:
    """Return a page's title and main text as Markdown."""
    title = _TITLE.search(text)
    found = ""
    for extract in (_stripped,) if plainly else (_main_text, _whole_text, _stripped):
        with contextlib.suppress(Exception):  # an extractor may stumble over any page; the next one is simpler
            found = max(found, extract(text).strip(), key=len)
        if len(found) >= _GOOD_ENOUGH_CHARS:
            break
    return {"title": " ".join(html.unescape(title.group(1)).split()) if title else "", "text": found[:MAX_CHARS]}


def _main_text(text: str) -> str:
    try:
        import trafilatura  # an extra: the best text, without navigation
    except ImportError:
        return ""
    found = trafilatura.extract(
        text,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_formatting=True,
        favor_recall=True,
    )
    return found or ""


def _whole_text(text: str) -> str:
    from justhtml import JustHTML

    return JustHTML(text).to_markdown()


def _stripped(text: str) -> str:
    """Return what is left without tags; linear in any text."""
    kept: list[str] = []
    at = 0
    while (hidden := _HIDDEN.search(text, at)) is not None:
        kept.append(text[at : hidden.start()])
        end = re.compile(f"</{hidden.group(1)}", re.IGNORECASE).search(text, hidden.end())
        at = end.start() if end else len(text)
    plain = _TAG.sub(" ", _BREAK.sub("\n", "".join((*kept, text[at:]))))
    lines = (" ".join(line.split()) for line in html.unescape(plain).split("\n"))
    return "\n".join(line for line in lines if line)


def pdf(data: bytes) -> dict[str, str]:
    """Return a PDF's title and the text of its pages."""
    try:
        import io

        from pypdf import PdfReader  # an extra
    except ImportError:
        return {"fault": "reading a PDF needs one more package: pip install 'nanobot[documents]'"}
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"fault": "the PDF is locked with a password"}
        title = str(reader.metadata.title or "") if reader.metadata else ""
        return {"title": title, "text": _pages(len(reader.pages), lambda at: reader.pages[at].extract_text())}
    except Exception as error:  # noqa: BLE001  # a damaged document fails in any way
        return {"fault": f"the PDF cannot be read ({type(error).__name__})"}


def _pages(count: int, text_of: Callable[[int], str]) -> str:
    kept: list[str] = []
    size = 0
    for at in range(min(count, MAX_PAGES)):
        kept.append(f"[page {at + 1} of {count}]\n{text_of(at).strip()}")
        size += len(kept[-1])
        if size > MAX_CHARS:
            break
    return "\n\n".join(kept)[:MAX_CHARS]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
