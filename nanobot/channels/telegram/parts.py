"""The parts of a Telegram message: files, and what else there is besides text.  Pure."""

from collections.abc import Callable

from telegram import (
    Message,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginHiddenUser,
    MessageOriginUser,
)

from nanobot.bus.events import Media, MediaKind

MAX_QUOTE_CHARS = 1_500
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BRACKETS = str.maketrans("⟦⟧", "[]")


def typed(text: str) -> str:
    """Return a person's text without the brackets that are ours alone."""
    return text.translate(_BRACKETS)


def attachments(message: Message) -> tuple[Media, ...]:
    """Return the files of a message, by reference."""
    if message.photo:
        best = max(message.photo, key=lambda size: size.width * size.height)
        return (_media("image", best.file_id, f"photo_{message.message_id}.jpg", "image/jpeg", best.file_size),)
    if message.animation is not None:  # comes with a copy of itself as a document
        found = message.animation
        return (_media("video", found.file_id, found.file_name or "animation.mp4", found.mime_type, found.file_size),)
    if message.document is not None:
        found = message.document
        kind: MediaKind = "image" if found.mime_type in _IMAGES else "file"
        return (_media(kind, found.file_id, found.file_name or "document", found.mime_type, found.file_size),)
    if message.voice is not None:
        voice = message.voice
        return (_media("voice", voice.file_id, f"voice_{message.message_id}.ogg", voice.mime_type, voice.file_size),)
    if message.audio is not None:
        audio = message.audio
        name = audio.file_name or f"audio_{message.message_id}.mp3"
        return (_media("audio", audio.file_id, name, audio.mime_type, audio.file_size),)
    if message.video is not None:
        video = message.video
        name = video.file_name or f"video_{message.message_id}.mp4"
        return (_media("video", video.file_id, name, video.mime_type, video.file_size),)
    if message.video_note is not None:
        note = message.video_note
        return (_media("video", note.file_id, f"video_note_{message.message_id}.mp4", "video/mp4", note.file_size),)
    return ()


def described(message: Message) -> list[str]:
    """Return, in brackets, what a message holds that is neither text nor a file."""
    notes: list[str] = []
    if message.sticker is not None:
        sticker = message.sticker
        notes.append(f"⟦sticker {typed(sticker.emoji or '')}{_of_set(sticker.set_name)}⟧")
    if message.venue is not None:
        notes.append(f"⟦venue {typed(message.venue.title)}, {typed(message.venue.address)}⟧")
    if message.location is not None:
        notes.append(f"⟦location {message.location.latitude}, {message.location.longitude}⟧")
    if message.contact is not None:
        contact = message.contact
        name = " ".join(filter(None, [contact.first_name, contact.last_name]))
        notes.append(f"⟦contact {typed(name)}, {typed(contact.phone_number)}⟧")
    if message.poll is not None:
        options = " / ".join(option.text for option in message.poll.options)
        notes.append(f"⟦poll {typed(message.poll.question)}: {typed(options)}⟧")
    if message.dice is not None:
        notes.append(f"⟦{message.dice.emoji} shows {message.dice.value}⟧")
    return notes + _unopened(message)


def _unopened(message: Message) -> list[str]:
    """Return, in brackets, what bots are told of but cannot open: without a word, whoever sent it would wait for an answer."""
    notes: list[str] = []
    if message.checklist is not None:
        tasks = " / ".join(task.text for task in message.checklist.tasks)
        notes.append(f"⟦checklist {typed(message.checklist.title)}: {typed(tasks)}⟧")
    if message.story is not None:
        notes.append("⟦a story, which bots cannot see⟧")
    if message.paid_media is not None:
        notes.append("⟦paid media, which bots cannot see⟧")
    if message.game is not None:
        notes.append(f"⟦game {typed(message.game.title)}⟧")
    if message.invoice is not None:
        notes.append(f"⟦invoice {typed(message.invoice.title)}⟧")
    return notes


def origin_name(message: Message, clean_name: Callable[[str], str]) -> str:
    """Return, in brackets, where a message was forwarded from; empty if it was not."""
    match message.forward_origin:
        case None:
            return ""
        case MessageOriginUser() as origin:
            name = clean_name(origin.sender_user.full_name)
        case MessageOriginHiddenUser() as origin:
            name = clean_name(origin.sender_user_name)
        case MessageOriginChat() as origin:
            name = clean_name(origin.sender_chat.effective_name or "a chat")
        case MessageOriginChannel() as origin:
            name = clean_name(origin.chat.effective_name or "a channel")
        case _:
            name = "somebody"
    return f"⟦forwarded from {name}⟧"


def made_by_bot(message: Message, clean_name: Callable[[str], str]) -> str:
    """Return, in brackets, which bot somebody had make this message (inline); empty if they wrote it themselves."""
    return f"⟦made by the bot {clean_name(message.via_bot.full_name)}⟧" if message.via_bot is not None else ""


def quoted(message: Message, my_id: int, clean_name: Callable[[str], str]) -> str:
    """Return what a message answers to, as quoted lines under a line in brackets; empty if it answers to nothing."""
    reply = message.reply_to_message
    if reply is not None and reply.forum_topic_created is not None:
        return ""
    selected = message.quote.text if message.quote is not None else ""
    text = selected or (reply.text or reply.caption or "" if reply is not None else "")
    if reply is None and message.external_reply is None and not text:
        return ""
    sender = reply.from_user if reply is not None else None
    whom = "somebody" if sender is None else "you" if sender.id == my_id else clean_name(sender.full_name)
    if not text and reply is not None:
        text = " ".join([*described(reply), *(f"[{media.kind} {media.name}]" for media in attachments(reply))])
    return "\n".join([f"⟦in reply to {whom}⟧", *(f"> {line}" for line in _short(typed(text)).splitlines())])


def _media(kind: MediaKind, ref: str, name: str, media_type: str | None, size: int | None) -> Media:
    return Media(kind, ref=ref, name=typed(name), media_type=media_type or "", size_bytes=size)


def _of_set(name: str | None) -> str:
    return f" from {typed(name)}" if name else ""


def _short(text: str) -> str:
    left = len(text) - MAX_QUOTE_CHARS
    return text if left <= 0 else f"{text[:MAX_QUOTE_CHARS]}\n[{left} more characters were quoted]"
