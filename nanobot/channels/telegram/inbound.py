"""Telegram's updates as our values.  Pure: no clock, no network, no files.

What people did not type themselves (who speaks in a group, what they quote, where something was forwarded from) stands in double
brackets, which are taken out of everything people type: nobody can forge them.
"""

import unicodedata
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from telegram import Chat, Message, MessageEntity, Update, User
from telegram.constants import ChatType

from nanobot.bus.events import InboundMessage, Media, Role, Route, session_key
from nanobot.channels.access import Origin
from nanobot.channels.telegram.parts import attachments, described, made_by_bot, origin_name, quoted, typed
from nanobot.values import frozen

MAX_NAME_CHARS = 64
_GROUPS = (ChatType.GROUP, ChatType.SUPERGROUP)


@frozen
class Me:
    """The bot itself."""

    id: int
    username: str


@frozen(kw_only=True)
class Said:
    """A message of a person.  ``command`` is set for commands, which go to the core as they are."""

    origin: Origin
    message_id: int
    at: datetime
    text: str = ""
    notes: tuple[str, ...] = ()
    command: str | None = None
    topic: str | None = None
    media: tuple[Media, ...] = ()
    album: str | None = None
    mentions_me: bool = False
    answers_me: bool = False
    edited_at: int | None = None


@frozen(kw_only=True)
class Pressed:
    """A press on a button; ``message_id`` is the message with the button."""

    origin: Origin
    query: str
    data: str
    at: datetime | None = None
    message_id: int | None = None
    topic: str | None = None


@frozen
class Moved:
    """A group got a new id."""

    old: str
    new: str


@frozen
class Ignored:
    """Nothing for the agent; ``why`` is for the log."""

    why: str


Incoming: TypeAlias = Said | Pressed | Moved | Ignored


def read_update(update: Update, me: Me) -> Incoming:
    """Return what an update means."""
    if update.callback_query is not None:
        return _pressed(update)
    if update.message is not None:
        return _message(update.message, me)
    if update.edited_message is not None:
        if update.edited_message.location is not None:
            return Ignored("a place that somebody shares while they move")
        said = _message(update.edited_message, me)
        edited = update.edited_message.edit_date
        return replace(said, edited_at=int(edited.timestamp()) if edited else 0) if isinstance(said, Said) else said
    return Ignored("an update of a kind that is not used")


def to_inbound(channel: str, said: Said, *, role: Role, session_chat: str | None = None) -> InboundMessage:
    """Return the message as the core takes it; ``session_chat`` is the id that its session began with, where it has another now.

    The pieces of an album share one id, so that a piece that is delivered again is recognised.
    """
    own = f"{channel}:{said.origin.chat}:" + (f"album:{said.album}" if said.album else str(said.message_id))
    is_edit = said.edited_at is not None
    route = Route(
        channel, said.origin.chat, topic=said.topic, reply_to=str(said.message_id) if said.origin.is_group else None
    )
    return InboundMessage(
        id=f"{own}:{said.edited_at}" if is_edit else own,
        session_key=session_key(replace(route, chat=session_chat or said.origin.chat)),
        sender=said.origin.sender,
        text=said.command if said.command is not None else _told(said),
        at=said.at,
        role=role,
        route=route,
        media=said.media,
        replaces=own if is_edit and not said.album else "",  # one piece does not stand for all of them
        origins=tuple(filter(None, map(_whose, said.notes))),
    )


def _whose(note: str) -> str:
    """Return whose words a note brings in, besides the sender's and ours."""
    first = note.partition("⟧")[0].removeprefix("⟦")
    brings = first.startswith(("forwarded from ", "in reply to ", "made by the bot ")) and first != "in reply to you"
    return first if brings else ""


def merged(pieces: list[Said]) -> Said:
    """Return the pieces of an album as one message, in the order they were sent."""
    ordered = sorted(pieces, key=lambda piece: piece.message_id)
    return replace(
        ordered[0],
        text="\n".join(piece.text for piece in ordered if piece.text),
        notes=tuple(dict.fromkeys(note for piece in ordered for note in piece.notes)),
        media=tuple(media for piece in ordered for media in piece.media),
        mentions_me=any(piece.mentions_me for piece in ordered),
        answers_me=any(piece.answers_me for piece in ordered),
    )


def clean_name(name: str) -> str:
    """Return a name on one line, without characters that hide or reorder text."""
    seen = "".join(
        " " if c.isspace() else c for c in name if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf")
    )
    return typed(" ".join(seen.split()))[:MAX_NAME_CHARS] or "somebody"


def _told(said: Said) -> str:
    notes = [*(["⟦edited⟧"] if said.edited_at is not None and said.album else []), *said.notes]
    if said.origin.is_group:
        notes.insert(0, f"⟦{said.origin.name} · {said.origin.sender}⟧")
    return "\n".join(filter(None, [*notes, said.text]))


def _message(message: Message, me: Me) -> Incoming:
    moved = _moved(message)
    if moved is not None:
        return moved
    origin = _origin_of(message)
    if origin is None or message.is_automatic_forward:
        return Ignored("a message without a person behind it")
    entities = {**message.parse_entities(), **message.parse_caption_entities()}
    text = message.text or message.caption or ""
    command = _command(message, entities, me)
    if command == "":
        return Ignored("a command for another bot")
    media, notes = attachments(message), described(message)
    if not (text.strip() or media or notes):
        return Ignored("nothing was said")
    reply = message.reply_to_message
    answers_me = reply is not None and reply.from_user is not None and reply.from_user.id == me.id
    return Said(
        origin=origin,
        message_id=message.message_id,
        at=message.date,
        text=typed(_without_my_name(text, me)),
        notes=(*_whence(message, me), *notes),
        command=command,
        topic=_topic(message),
        media=media,
        album=message.media_group_id,
        mentions_me=command is not None or any(_is_me(entity, part, me) for entity, part in entities.items()),
        answers_me=answers_me and not _is_topic_root(message),
    )


def _whence(message: Message, me: Me) -> tuple[str, ...]:
    """Return the notes on whose words a message brings."""
    found = origin_name(message, clean_name), made_by_bot(message, clean_name), quoted(message, me.id, clean_name)
    return tuple(filter(None, found))


def _moved(message: Message) -> Moved | None:
    if message.migrate_to_chat_id is not None:
        return Moved(str(message.chat.id), str(message.migrate_to_chat_id))
    if message.migrate_from_chat_id is not None:
        return Moved(str(message.migrate_from_chat_id), str(message.chat.id))
    return None


def _command(message: Message, entities: dict[MessageEntity, str], me: Me) -> str | None:
    """Return the command's text if this is one for us; empty if it is for another bot, None if it is none.

    What somebody passes on is no command of theirs: they did not write it.
    """
    if message.forward_origin is not None or message.via_bot is not None:
        return None
    text = _without_my_name(message.text or "", me)
    if not text.startswith("/"):
        return None
    name = next(
        (part for entity, part in entities.items() if entity.type == "bot_command" and text.startswith(part)), ""
    )
    rest = text[len(name) :]
    if not name or rest[:1].strip():  # a path begins with a slash too
        return None
    at = name.partition("@")[2].casefold()
    if at and at != me.username.casefold():
        return ""
    word = name.partition("@")[0]
    return "/help" if word == "/start" else word + rest  # what a bot's big button says


def _without_my_name(text: str, me: Me) -> str:
    name = f"@{me.username}"
    begins = text[: len(name)].casefold() == name.casefold() and not text[len(name) : len(name) + 1].isalnum()
    return text[len(name) :].lstrip(" ,:\n") if begins else text


def _is_me(entity: MessageEntity, part: str, me: Me) -> bool:
    if entity.type == "mention":
        return part.casefold() == f"@{me.username}".casefold()
    return entity.type == "text_mention" and entity.user is not None and entity.user.id == me.id


def _topic(message: Message) -> str | None:
    """Return the topic; in ordinary groups, replies carry a thread id too, which means nothing."""
    if message.message_thread_id is None or not (message.is_topic_message or message.chat.is_forum):
        return None
    return str(message.message_thread_id)


def _is_topic_root(message: Message) -> bool:
    """Every message of a topic "replies" to the one that opened it."""
    reply = message.reply_to_message
    return reply is not None and reply.forum_topic_created is not None


def _origin_of(message: Message) -> Origin | None:
    """Return who wrote a message; None if nobody did.

    Anonymous administrators and people who write as a channel come with a bot of Telegram's in their place; they are known by the
    group or the channel they stand for.
    """
    sender, behind = message.from_user, message.sender_chat
    if behind is not None and message.chat.type in _GROUPS:
        name = clean_name(behind.effective_name or "somebody")
        return Origin(sender=str(behind.id), chat=str(message.chat.id), is_group=True, name=name)
    return None if sender is None else _origin(sender, message.chat)


def _origin(sender: User, chat: Chat) -> Origin:
    return Origin(
        sender=str(sender.id),
        chat=str(chat.id),
        is_group=chat.type != ChatType.PRIVATE,
        is_bot=sender.is_bot,
        name=clean_name(sender.full_name),
    )


def _pressed(update: Update) -> Incoming:
    query = update.callback_query
    assert query is not None
    message = query.message
    if query.data is None or message is None:
        return Ignored("a button without data")
    return Pressed(
        origin=_origin(query.from_user, message.chat),
        query=query.id,
        data=query.data,
        message_id=message.message_id,
        topic=_topic(message) if isinstance(message, Message) else None,
    )
