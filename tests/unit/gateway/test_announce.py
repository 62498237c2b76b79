"""Chats that are told of starts and ends."""

import asyncio

import pytest

from nanobot.channels.base import Accept, Capabilities, OutboundPart
from nanobot.channels.supervisor import ChannelBoard
from nanobot.errors import ConfigError, SendFailed
from nanobot.gateway.announce import ENDING, UP, Announcer


class Fickle:
    """A channel that takes messages for one chat only."""

    name = "one"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def listen(self, accept: Accept) -> None:
        return

    async def send(self, part: OutboundPart) -> str | None:
        if part.route.chat != "7":
            raise SendFailed("blocked")
        self.sent.append((part.route.chat, part.text))
        return "1"


async def test_f07_nobody_is_told_before_the_channel_is_up() -> None:
    """Up is said when the platform is reached, not when the process begins; a chat that cannot be told spoils nothing."""
    channel, board = Fickle(), ChannelBoard()
    announcer = Announcer(["one:8", "one:7"], {"one": channel})
    telling = asyncio.create_task(announcer.up(board))
    await asyncio.sleep(0.01)
    early = list(channel.sent)
    board.progress_of("one")()
    await telling
    await announcer.ending()

    assert early == []
    assert channel.sent == [("7", UP), ("7", ENDING)]


@pytest.mark.parametrize("chat", ["two:7", "one", "one:", ""])
def test_a_chat_that_is_none_is_a_mistake(chat: str) -> None:
    """What names no chat of a channel is refused, with the channels there are."""
    with pytest.raises(ConfigError, match="enabled channels: one"):
        Announcer([chat], {"one": Fickle()})
