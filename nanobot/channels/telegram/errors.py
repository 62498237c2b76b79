"""What went wrong with a call, as our own errors: one total function.

``BadRequest`` and ``TimedOut`` are kinds of ``NetworkError`` in this library, so they are looked for first: a refusal must not be
tried again for ever.  What the platform may have carried out although we saw an error is marked ``maybe_sent``.
"""

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from nanobot.errors import ChannelError, SendFailed, SendRejected

_NO_PARAMETERS_WAIT_S = 5.0


class NotModified(ChannelError):
    """The message looks like this already: a success."""


class TargetGone(SendRejected):
    """The message to edit is not there any more, or cannot be edited."""


class ReplyGone(SendRejected):
    """The message to answer is not there any more."""


class StyleRefused(SendRejected):
    """The text's entities are not liked."""


class TopicGone(SendRejected):
    """The topic was deleted or closed."""


class ChatGone(SendRejected):
    """The chat does not exist, or does not want the bot: nothing will arrive there."""


class ChatMoved(SendRejected):
    """The group has a new id."""

    def __init__(self, message: str, *, new_chat: str) -> None:
        super().__init__(message)
        self.new_chat = new_chat


class TokenRefused(SendFailed):
    """The bot's token is not valid (any more)."""


class SomebodyElsePolls(SendFailed):
    """Another program reads this bot's updates."""


_BY_TEXT: tuple[tuple[str, type[ChannelError]], ...] = (
    ("not modified", NotModified),
    ("message to edit not found", TargetGone),
    ("message can't be edited", TargetGone),
    ("message to delete not found", TargetGone),
    ("reply_message_id_invalid", ReplyGone),  # before the ids of messages to edit, which end it
    ("message_id_invalid", TargetGone),
    ("entities", StyleRefused),
    ("replied not found", ReplyGone),
    ("to reply not found", ReplyGone),
    ("reply message not found", ReplyGone),
    ("thread not found", TopicGone),
    ("topic_closed", TopicGone),
    ("topic_deleted", TopicGone),
    ("topic_id_invalid", TopicGone),
    ("thread_id_invalid", TopicGone),
    ("chat not found", ChatGone),
    ("rights to send photos", SendRejected),  # but perhaps text
    ("rights to send documents", SendRejected),
    ("chat_write_forbidden", ChatGone),
    ("have no rights to send", ChatGone),
    ("not enough rights", ChatGone),
    ("user is deactivated", ChatGone),
    ("user_deactivated", ChatGone),
    ("user_is_blocked", ChatGone),
    ("peer_id_invalid", ChatGone),
    ("chat was deactivated", ChatGone),
    ("chat_admin_required", ChatGone),
    ("administrator rights", ChatGone),
    ("chat_restricted", ChatGone),
    ("channel_private", ChatGone),
)


def from_telegram(error: BaseException) -> ChannelError:
    """Return our error for whatever a call raised.  Never shows the token."""
    match error:
        case ChannelError():
            return error
        case RetryAfter():
            return SendFailed("Telegram asks to wait", retry_after_s=_seconds(error))
        case ChatMigrated():
            return ChatMoved("the group has a new id", new_chat=str(error.new_chat_id))
        case Forbidden():
            return ChatGone(f"Telegram forbids it: {error}")
        case InvalidToken():
            return TokenRefused("Telegram refuses the bot's token; @BotFather shows the valid one")
        case Conflict():
            return SomebodyElsePolls(
                "another program reads this bot's updates: a second nanobot, another framework with the same token,"
                " or a webhook; stop it, or get a new token from @BotFather"
            )
        case BadRequest():
            return _refusal(str(error))
        case TimedOut():
            return _timed_out(error)
        case NetworkError():
            return _network(error)
        case TelegramError() | KeyError():
            return SendFailed("Telegram's answer cannot be understood", maybe_sent=True)
        case _:
            return SendFailed(f"the call failed: {type(error).__name__}", maybe_sent=True)


def _refusal(text: str) -> ChannelError:
    lowered = text.lower()
    kind = next((kind for words, kind in _BY_TEXT if words in lowered), SendRejected)
    return kind(f"Telegram refuses: {text}")


def _timed_out(error: TimedOut) -> SendFailed:
    cause = error.__cause__
    unsent = isinstance(cause, httpx.PoolTimeout | httpx.ConnectTimeout)
    what = "no free connection" if isinstance(cause, httpx.PoolTimeout) else "Telegram did not answer in time"
    return SendFailed(what, maybe_sent=not unsent)


def _network(error: NetworkError) -> ChannelError:
    cause, text = error.__cause__, str(error).lower()
    if isinstance(cause, httpx.ConnectError | httpx.ProxyError | httpx.UnsupportedProtocol):
        return SendFailed(f"Telegram cannot be reached: {cause}")
    if cause is not None and isinstance(cause, httpx.HTTPError):
        return SendFailed(f"the connection to Telegram broke: {type(cause).__name__}", maybe_sent=True)
    if "too many requests" in text:
        return SendFailed("Telegram asks to wait", retry_after_s=_NO_PARAMETERS_WAIT_S)
    if "too large" in text:
        return SendRejected("Telegram refuses: the request is too large")
    return SendFailed("Telegram has trouble of its own", maybe_sent="gateway" in text)


def _seconds(error: RetryAfter) -> float:
    after = error.retry_after
    return float(after) if isinstance(after, int) else after.total_seconds()
