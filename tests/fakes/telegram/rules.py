"""What Telegram refuses, as pure checks.

Lengths and offsets count UTF-16 code units.  Sources: core.telegram.org/bots/api (sendMessage, MessageEntity, InlineKeyboardButton)
and the error texts that the public server answers with.
"""

import re
from typing import Any, cast

MAX_TEXT_UNITS = 4_096
MAX_CAPTION_UNITS = 1_024
MAX_ENTITIES = 100
MAX_PHOTO_BYTES = 10 * 1024 * 1024
MAX_PHOTO_SIDES = 10_000
MAX_PHOTO_RATIO = 20
MAX_DOCUMENT_BYTES = 50 * 1024 * 1024
MAX_CALLBACK_BYTES = 64
_FOUND_TYPES = frozenset(["mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number"])
_STYLES = frozenset(["bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote"])
ENTITY_TYPES = _FOUND_TYPES | _STYLES | {"code", "pre", "text_link", "text_mention", "custom_emoji"}
_STANDALONE = frozenset({"code", "pre"})


class Refusal(Exception):
    """The server's answer is an error; ``parameters`` go with it."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


def units(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_text(text: str) -> None:
    """Refuse a text that no message can have."""
    _check_content(text, MAX_TEXT_UNITS, "message is too long")
    if not text.strip():
        raise Refusal(400, "Bad Request: message text is empty")


def check_caption(text: str) -> None:
    """Refuse a caption that is too long."""
    _check_content(text, MAX_CAPTION_UNITS, "message caption is too long")


def check_photo(data: bytes) -> None:
    """Refuse what the public server takes as no photo: by size, by what it is, and by its sides."""
    if len(data) > MAX_PHOTO_BYTES:
        raise Refusal(
            400, f"Bad Request: file of size {len(data)} bytes is too big for a photo; the maximum is 10485760"
        )
    size = _pixels(data)
    if size is None:
        raise Refusal(400, "Bad Request: IMAGE_PROCESS_FAILED")
    if sum(size) > MAX_PHOTO_SIDES or max(size) > MAX_PHOTO_RATIO * min(size):
        raise Refusal(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")


def check_document(data: bytes) -> None:
    """Refuse a file that no bot may send."""
    if not data:
        raise Refusal(400, "Bad Request: file must be non-empty")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise Refusal(413, "Request Entity Too Large")


def _pixels(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG or GIF; of another format that is a picture, some legal ones."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data.startswith(b"GIF8"):
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return (1, 1) if data.startswith(b"\xff\xd8\xff") or data[8:12] == b"WEBP" else None


def _check_content(text: str, limit: int, complaint: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Refusal(400, "Bad Request: strings must be encoded in UTF-8")
    if units(text) > limit:
        raise Refusal(400, f"Bad Request: {complaint}")


def check_entities(text: str, entities: object) -> list[dict[str, Any]]:
    """Return the entities if they fit the text.

    The public server ignores those after the hundredth in silence; this one refuses, so that a test notices.
    """
    if entities is None:
        return []
    if not isinstance(entities, list):
        raise Refusal(400, "Bad Request: expected an Array of MessageEntity")
    found = [cast("dict[str, Any]", entity) for entity in cast("list[object]", entities)]
    if len(found) > MAX_ENTITIES:
        raise Refusal(400, f"Bad Request: {len(found)} entities, and only {MAX_ENTITIES} are kept")
    borders = _borders(text)
    for entity in found:
        _check_entity(entity, borders)
    _check_nesting(found)
    return found


def _check_entity(entity: dict[str, Any], borders: frozenset[int]) -> None:
    start, length = entity.get("offset"), entity.get("length")
    if not isinstance(start, int) or not isinstance(length, int) or start < 0 or length <= 0:
        raise Refusal(400, "Bad Request: entity has a wrong offset or length")
    if entity.get("type") not in ENTITY_TYPES:
        raise Refusal(400, f"Bad Request: unsupported entity type {entity.get('type')!r}")
    for offset, word in ((start, "begins"), (start + length, "ends")):
        if offset > max(borders):
            raise Refusal(400, f"Bad Request: entity beginning at UTF-16 offset {start} ends after the end of the text")
        if offset not in borders:
            raise Refusal(400, f"Bad Request: entity {word} in a middle of a UTF-16 symbol at offset {offset}")
    if entity["type"] == "text_link" and not entity.get("url"):
        raise Refusal(400, "Bad Request: text_link entity without url")


def _check_nesting(entities: list[dict[str, Any]]) -> None:
    """Refuse entities that cross, and ones inside code."""
    for one in entities:
        for other in entities:
            (a, b), (c, d) = _span(one), _span(other)
            if a < c < b < d:
                raise Refusal(400, f"Bad Request: entities {one['type']} and {other['type']} cross")
            inside = one is not other and a <= c and d <= b and (a, b) != (c, d)
            if inside and one["type"] in _STANDALONE and other["type"] != "blockquote":
                raise Refusal(400, f"Bad Request: a {other['type']} entity inside {one['type']}")


def _span(entity: dict[str, Any]) -> tuple[int, int]:
    return entity["offset"], entity["offset"] + entity["length"]


def _borders(text: str) -> frozenset[int]:
    offsets, at = [0], 0
    for character in text:
        at += 2 if ord(character) > 0xFFFF else 1
        offsets.append(at)
    return frozenset(offsets)


def check_markup(markup: object) -> dict[str, Any] | None:
    """Return the buttons if they can be shown."""
    if markup is None:
        return None
    if not isinstance(markup, dict):
        raise Refusal(400, "Bad Request: object expected as reply markup")
    found = cast("dict[str, Any]", markup)
    for row in found.get("inline_keyboard", []):
        for button in row:
            if not button.get("text"):
                raise Refusal(400, "Bad Request: inline keyboard button has no text")
            data = button.get("callback_data")
            if data is not None and not 1 <= len(data.encode()) <= MAX_CALLBACK_BYTES:
                raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return found


def previewed(text: str, entities: list[dict[str, Any]], options: object) -> list[str]:
    """Return the address that Telegram would fetch to show a preview of it: the first one, unless it is told not to."""
    if options is not None and not isinstance(options, dict):
        raise Refusal(400, "Bad Request: can't parse link preview options: object expected")
    if cast("dict[str, object]", options or {}).get("is_disabled") is True:
        return []
    links = [str(one["url"]) for one in entities if one.get("url")]
    return [*links, *re.findall(r"https?://\S+", text)][:1]
