"""Messages in and out: what channels hand to the core, and what the core owes to channels."""

import re
from datetime import datetime
from typing import Literal, TypeAlias

from nanobot.values import frozen

SessionKey: TypeAlias = str
Role = Literal["owner", "user", "member"]
"""Who somebody is: an owner, somebody admitted by name, or anybody in a group that was admitted as a whole."""
Decision = Literal["once", "always", "deny"]
"""What a person says to a call that waits: this time, from now on in this conversation, or not at all."""
MediaKind = Literal["image", "file", "voice", "audio", "video", "sticker"]

_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
_REFUSED = re.compile(f"[{_CONTROLS}]")
_ESCAPED = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")


def is_plain_key(key: SessionKey) -> bool:
    """Whether a session may be called so: lists and stamps hold keys on one line, so no control character is in one."""
    return not _REFUSED.search(key)


def shown_key(key: SessionKey) -> str:
    """Return a key with what no line can hold as escapes; old logs may be called so."""
    return _ESCAPED.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), key)


@frozen
class Route:
    """Where an answer goes: a channel's name, a chat on it, and the thread and message it belongs to."""

    channel: str
    chat: str
    topic: str | None = None
    reply_to: str | None = None


def session_key(route: Route) -> SessionKey:
    """Return the key of the session that a chat talks to: ``<channel>:<chat>[:topic:<n>]``."""
    return f"{route.channel}:{route.chat}" + (f":topic:{route.topic}" if route.topic else "")


def route_of(key: SessionKey) -> Route | None:
    """Return the chat that a session's key names; None for one that names none."""
    match key.split(":"):
        case [channel, chat]:
            return Route(channel, chat)
        case [channel, chat, "topic", topic]:
            return Route(channel, chat, topic)
        case _:
            return None


def moved_route(route: Route, *, old: SessionKey, new: SessionKey) -> Route:
    """Return where a route leads when the chat ``old`` is called ``new`` now: the same place for any other chat."""
    before, after = route_of(old), route_of(new)
    if before is None or after is None or (route.channel, route.chat) != (before.channel, before.chat):
        return route
    return Route(after.channel, after.chat, route.topic)  # the message that it replies to has another number there


@frozen
class Media:
    """A file that came with a message, or goes out with an answer.

    ``ref`` is the platform's name for it, or the path that it was taken from to be sent; ``path`` and ``sha256`` (hex) are known
    once it lies on disk, and ``missing`` says in a few words why it does not, once that is known.  ``caption`` is the text
    (Markdown) under one that goes out.
    """

    kind: MediaKind
    ref: str = ""
    name: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    path: str = ""
    sha256: str = ""
    missing: str = ""
    caption: str = ""


def size_text(count: int) -> str:
    """Return a number of bytes for people, in decimal units: ``12 kB``, ``3.4 MB``."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.0f} kB" if count < 999_500 else f"{count / 1_000_000:.1f} MB"


@frozen(kw_only=True)
class InboundMessage:
    """A message for a session, as it is logged before it is acknowledged.

    ``id`` is the platform's (``<channel>:<chat>:<message>[:<edit date>]``), unique per session: a second one with the same id is a
    duplicate.  ``route`` is None for direct calls: nothing is owed then.  ``at`` carries a zone.  ``replaces`` is the id of the
    message that this is a newer version of: as long as nothing took that one up, this one takes its place.  ``overheard`` says that
    it was not said to us: it waits for nothing, and is told with the next message that was.
    ``origins`` name those whose words are in the text besides the sender's, as when it was forwarded.
    """

    id: str
    session_key: SessionKey
    sender: str
    text: str
    at: datetime
    role: Role = "owner"
    sender_name: str = ""
    route: Route | None = None
    media: tuple[Media, ...] = ()
    replaces: str = ""
    overheard: bool = False
    origins: tuple[str, ...] = ()


SETTLED = frozenset({"sent", "refused", "withdrawn"})  # states of a part with which nothing is to be done any more


@frozen(kw_only=True)
class OutboundMessage:
    """An answer that must arrive: logged as owed, crossed off part by part.

    With ``media``, it is a file whose caption is ``text``: the first part is the file with as much of it as fits.  ``anew`` says
    that files of the same Turn stand before this text, so that it comes below them and into no message that was reserved earlier.

    ``parts`` are ``[start, end)`` offsets into ``text`` in code points; ``states`` is what the log knows of each part (``owed``,
    ``sending``, ``reserving``, ``reserved``, or one that is ``SETTLED``), ``refs`` the platform's message id of each, where one is
    known.  ``surplus`` are messages of a draft that was longer than the answer: an earlier process left them.
    """

    out: str
    session_key: SessionKey
    route: Route
    text: str
    parts: tuple[tuple[int, int], ...]
    states: tuple[str, ...] = ()
    refs: tuple[str | None, ...] = ()
    media: Media | None = None
    anew: bool = False
    surplus: tuple[str, ...] = ()


@frozen
class Accepted:
    """The message is on disk and will be taken up."""


@frozen
class Duplicate:
    """This message id was accepted before; nothing was done."""


@frozen
class Unkept:
    """The disk refuses: the message will be run from memory, and its answer will say so."""

    why: str


Acceptance: TypeAlias = Accepted | Duplicate | Unkept
