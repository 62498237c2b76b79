"""Markdown as Telegram shows it: plain text and entities, so that nothing can fail to parse.  Pure.

Promises: everything that was written is shown; offsets count UTF-16 units, are in bounds and never inside a character; entities
inside code are left out, and at most ``MAX_ENTITIES`` are returned (``splitting`` cuts answers so that none is left out).
"""

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from nanobot.channels.splitting import Parts, split
from nanobot.channels.telegram.protect import protect
from nanobot.messages import clean_text
from nanobot.values import frozen

if TYPE_CHECKING:
    from telegramify_markdown import MessageEntity, RenderConfig

MAX_TEXT_UNITS = 4_096
MAX_CAPTION_UNITS = 1_024
MAX_ENTITIES = 100
MAY_BE_REPEAT = "(may be a repeat)\n"
RESERVE_UNITS = 200  # of each message: for a line before it (a possible repeat) or after it (what a draft is doing)
_CODE = ("pre", "code")
_DISPENSABLE = ("underline", "italic", "strikethrough", "bold", "spoiler")  # left out first, in this order


@frozen
class Entity:
    """A style of a stretch of text; ``offset`` and ``length`` in UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None

    @property
    def end(self) -> int:
        return self.offset + self.length


@frozen
class Button:
    """A button under a message; ``data`` is what comes back when it is pressed, 64 bytes at most."""

    text: str
    data: str


@frozen
class Attachment:
    """A file to send, as a photo or as a document."""

    name: str
    data: bytes
    is_photo: bool = False


@frozen
class Rendered:
    """A message's text, its entities, a row of buttons under it, and the file whose caption it is."""

    text: str
    entities: tuple[Entity, ...] = ()
    buttons: tuple[Button, ...] = ()
    file: Attachment | None = None


@cache
def _config() -> "RenderConfig":
    from telegramify_markdown import RenderConfig  # lazily: 2 MB, for the first answer

    config = RenderConfig.isolated()
    for level in range(1, 7):
        setattr(config.markdown_symbol, f"heading_level_{level}", "")
    config.markdown_symbol.link = ""
    config.markdown_symbol.image = "🖼"
    config.markdown_symbol.unordered_list_item = "•"
    config.markdown_symbol.task_uncompleted = "☐"
    config.markdown_symbol.task_completed = "☑"
    config.cite_expandable = False
    return config


def utf16_units(text: str) -> int:
    """Return the length as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def render(markdown: str) -> Rendered:
    """Return what is sent for a Markdown text; empty only for a text that is nothing but white space."""
    rendered = render_all(markdown)
    return Rendered(rendered.text, _at_most(MAX_ENTITIES, rendered.entities))


def render_all(markdown: str) -> Rendered:
    """Return the same with every entity, however many there are."""
    from telegramify_markdown import convert  # lazily, as above

    source = clean_text(markdown)
    text, entities = convert(protect(source), latex_escape=False, config=_config())
    if not text.strip():
        return Rendered(source if source.strip() else "")
    cut = text.rstrip()
    return Rendered(cut, _legal(entities, utf16_units(cut)))


def fits(markdown: str, *, max_units: int = MAX_TEXT_UNITS, reserve_units: int = 0) -> bool:
    """Say whether the text can be one message (or caption), with ``reserve_units`` left for something else."""
    rendered = render_all(markdown)
    return utf16_units(rendered.text) <= max_units - reserve_units and len(rendered.entities) <= MAX_ENTITIES


def split_answer(text: str, *, start: int = 0) -> Parts:
    """Return the parts of an answer from ``start`` on, each of which is one message (with room for a line of our own).

    Drafts and finished answers are cut alike, and the beginning of a text (nearly always) like the whole of it.
    """
    return split(text, partial(fits, reserve_units=RESERVE_UNITS), start=start)


def split_caption(text: str) -> Parts:
    """Return the parts of a file's caption: what goes with the file, then what follows it as messages."""
    in_caption = partial(fits, max_units=MAX_CAPTION_UNITS, reserve_units=len(MAY_BE_REPEAT))
    if not text.strip():
        return ((0, len(text)),)
    _, end = split(text, in_caption, min_chars=MAX_CAPTION_UNITS // 3)[0]
    return ((0, end), *split_answer(text, start=end))


def plain(text: str) -> Rendered:
    """Return a text as it is, cut to what one message holds."""
    clean = clean_text(text)
    while utf16_units(clean) > MAX_TEXT_UNITS:
        clean = clean[: len(clean) - max(1, (utf16_units(clean) - MAX_TEXT_UNITS) // 2)]
    return Rendered(clean)


def prefixed(prefix: str, rendered: Rendered) -> Rendered:
    """Return the message with a plain text before it."""
    if not rendered.text:
        return replace(rendered, text=prefix.rstrip())
    by = utf16_units(prefix)
    moved = (Entity(e.type, e.offset + by, e.length, e.url, e.language) for e in rendered.entities)
    return replace(rendered, text=prefix + rendered.text, entities=tuple(moved))


def _legal(entities: "list[MessageEntity]", end: int) -> tuple[Entity, ...]:
    found: dict[Entity, None] = {}
    for entity in entities:
        length = min(entity.offset + entity.length, end) - entity.offset
        if entity.offset >= 0 and length > 0:
            language = entity.language if entity.type == "pre" else None
            found[Entity(entity.type, entity.offset, length, entity.url, language or None)] = None
    code = [entity for entity in found if entity.type in _CODE]
    kept = [entity for entity in found if not _is_inside(entity, code)]
    links = [entity for entity in kept if entity.type == "text_link"]
    kept = [entity for entity in kept if entity.type != "text_link" or not _is_inside(entity, links)]
    return tuple(sorted(kept, key=lambda entity: (entity.offset, -entity.length)))


def _is_inside(entity: Entity, others: list[Entity]) -> bool:
    """Say whether the entity lies in another one and is smaller than it."""
    return any(
        other.offset <= entity.offset and entity.end <= other.end and other.length > entity.length for other in others
    )


def _at_most(count: int, entities: tuple[Entity, ...]) -> tuple[Entity, ...]:
    for kind in _DISPENSABLE:
        surplus = len(entities) - count
        if surplus <= 0:
            return entities
        goners = {id(entity) for entity in [one for one in entities if one.type == kind][-surplus:]}
        entities = tuple(entity for entity in entities if id(entity) not in goners)
    return entities[:count]
