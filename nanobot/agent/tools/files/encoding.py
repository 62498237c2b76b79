"""Text to bytes and back, in the form that a file has: encoding, mark at the beginning, line ends.  Pure."""

from nanobot.agent.tools.files.decode import Binary, Text, sniff
from nanobot.errors import ToolError


def decoded(content: bytes, form: Text, name: str) -> str:
    """Return the text without its mark.

    Raises:
        ToolError: it cannot be read without loss.
    """
    try:
        return content[len(form.bom) :].decode(form.codec)
    except UnicodeDecodeError as error:
        raise ToolError(f"{name!r} cannot be edited as {form.encoding}: invalid bytes at {error.start:,}.") from None


def encoded(text: str, form: Text | None = None) -> bytes:
    """Return the text's bytes with its mark; UTF-8 without a form.

    Raises:
        ToolError: a character has no bytes in that encoding.
    """
    form = form or Text("utf-8")
    try:
        return form.bom + text.encode(form.codec)
    except UnicodeEncodeError as error:
        bad = text[error.start : error.start + 1]
        raise ToolError(f"the character {bad!r} cannot be written in the file's encoding ({form.encoding}).") from None


def in_form_of(old: bytes, text: str) -> tuple[bytes, str]:
    """Return ``text`` as the new content of a file that held ``old``, and in words what it kept of the old form.

    Only what the old file says plainly is kept: its mark with the encoding behind it, and CRLF if every line ended so and the
    text has none of its own.
    """
    form = sniff(old[:8_192], complete=len(old) <= 8_192) if old else Text("utf-8")
    if isinstance(form, Binary) or not form.bom:
        form = Text("utf-8")
    kept = [f"{form.encoding.removesuffix('-sig').upper()} with its mark"] if form.bom else []
    crlf, newline = "\r\n".encode(form.codec), "\n".encode(form.codec)
    is_crlf = "\r" not in text and 0 < old.count(crlf) == old.count(newline)
    if is_crlf and "\n" in text:
        kept.append("CRLF line ends")
        text = text.replace("\n", "\r\n")
    return encoded(text, form), "".join(f", {what} as before" for what in kept)
