"""Files in words, for where they cannot be sent.  Pure."""

from nanobot.bus.events import Media, size_text


def in_words(media: Media, caption: str) -> str:
    """Return (as Markdown) which file it is and where it lies, with its caption below."""
    return f"📎 `{media.name}` ({size_text(media.size_bytes or 0)}): `{media.ref or media.path}`\n\n{caption}".rstrip()
