"""Every error of a call becomes one of ours, of the right kind."""

import httpx
import pytest
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

from nanobot.channels.telegram import errors
from nanobot.channels.telegram.errors import from_telegram
from nanobot.errors import ChannelError, SendFailed, SendRejected


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("Message is not modified: specified new message content"), errors.NotModified),
        (BadRequest("Message to edit not found"), errors.TargetGone),
        (BadRequest("Message to be replied not found"), errors.ReplyGone),
        (BadRequest("Message to reply not found"), errors.ReplyGone),
        (BadRequest("REPLY_MESSAGE_ID_INVALID"), errors.ReplyGone),
        (BadRequest("MESSAGE_ID_INVALID"), errors.TargetGone),
        (BadRequest("Message thread not found"), errors.TopicGone),
        (BadRequest("TOPIC_CLOSED"), errors.TopicGone),
        (BadRequest("TOPIC_ID_INVALID"), errors.TopicGone),
        (BadRequest("PEER_ID_INVALID"), errors.ChatGone),
        (BadRequest("Group chat was deactivated"), errors.ChatGone),
        (BadRequest("CHAT_RESTRICTED"), errors.ChatGone),
        (BadRequest("Need administrator rights in the channel chat"), errors.ChatGone),
        (BadRequest("Chat not found"), errors.ChatGone),
        (BadRequest("Can't parse entities: x"), errors.StyleRefused),
        (Forbidden("Forbidden: bot was blocked by the user"), errors.ChatGone),
        (ChatMigrated(-100), errors.ChatMoved),
        (InvalidToken("The token `1:SECRET` was rejected"), errors.TokenRefused),
        (Conflict("terminated by other getUpdates request"), errors.SomebodyElsePolls),
        (NetworkError("Request Entity Too Large"), SendRejected),
        (NetworkError("Bad Gateway"), SendFailed),
        (RetryAfter(3), SendFailed),
        (TelegramError("Invalid server response"), SendFailed),
        (KeyError("result"), SendFailed),
        (RuntimeError("whatever"), SendFailed),
    ],
)
def test_errors_have_the_kind_that_says_what_to_do(error: Exception, kind: type[ChannelError]) -> None:
    """A refusal is never tried again, and what may pass is."""
    assert type(from_telegram(error)) is kind
    assert "SECRET" not in str(from_telegram(error))


@pytest.mark.parametrize(
    ("error", "maybe_sent"),
    [
        (caused(NetworkError("x"), httpx.ConnectError("refused")), False),
        (caused(NetworkError("x"), httpx.RemoteProtocolError("cut")), True),
        (caused(NetworkError("x"), httpx.ReadError("cut")), True),
        (caused(TimedOut(), httpx.ConnectTimeout("slow")), False),
        (caused(TimedOut(), httpx.PoolTimeout("full")), False),
        (caused(TimedOut(), httpx.ReadTimeout("slow")), True),
        (NetworkError("Internal Server Error"), False),
        (NetworkError("Bad Gateway (502). Parsing failed"), True),
        (RetryAfter(3), False),
    ],
)
def test_d08_what_may_have_arrived_is_marked(error: Exception, maybe_sent: bool) -> None:
    """Only what surely did not arrive is sent again without a word."""
    found = from_telegram(error)

    assert isinstance(found, SendFailed)
    assert found.maybe_sent is maybe_sent


def test_waits_are_telegrams_own() -> None:
    """A flood says how long; one without a number waits a little."""
    told, untold = from_telegram(RetryAfter(35)), from_telegram(NetworkError("Too Many Requests"))

    assert isinstance(told, SendFailed)
    assert isinstance(untold, SendFailed)
    assert (told.retry_after_s, untold.retry_after_s) == (35.0, 5.0)
