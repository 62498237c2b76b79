"""Who may decide, and where they can be asked: a chat that holds no owner has nobody who could press a button.

A person's private chat has that person's id.  Whether an owner is in a group is heard when they write there, and asked of Telegram
otherwise; where Telegram does not tell, they are asked in private, where they are for sure.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from nanobot.bus.events import Route
from nanobot.channels.access import Origin
from nanobot.errors import ChannelError

MOST_GROUPS = 1_000  # remembered; the others are asked about
MOST_OWNERS = 5  # looked for in a group


class People(Protocol):
    """What the platform knows of people and groups."""

    async def is_in(self, chat: str, person: str) -> bool: ...
    async def name_of(self, chat: str) -> str: ...


class Owners:
    """The owners of one channel.

    Args:
        people: calls to the platform.
        ids: the owners, the first one first.
        platform_chat: a session's chat as the platform knows it by now.
    """

    def __init__(
        self, people: People, ids: Callable[[], Sequence[str]], platform_chat: Callable[[str], str] = str
    ) -> None:
        self._people = people
        self._ids = ids
        self._platform_chat = platform_chat
        self._heard_in: set[tuple[str, str]] = set()

    def note(self, origin: Origin) -> None:
        """Remember that somebody is in a group."""
        if origin.is_group and len(self._heard_in) < MOST_GROUPS and origin.sender in self._ids():
            self._heard_in.add((origin.chat, origin.sender))

    async def instead_of(self, chat: str) -> str:
        """Return the chat to ask in when this one holds no owner; empty when it does, and when there is none.

        Raises:
            SendFailed: Telegram cannot be asked now.
        """
        owners = self._ids()[:MOST_OWNERS]
        now = self._platform_chat(chat)
        if not owners or now in owners:
            return ""
        if now.startswith("-"):
            for owner in owners:
                if (now, owner) in self._heard_in or await self._people.is_in(now, owner):
                    return ""
        return owners[0]

    async def describe(self, route: Route, sender: str, name: str) -> str:
        """Return who asks, and where, for an owner who does not see that chat."""
        who = _named(name or await self._name_of(sender), sender) if sender else "Somebody"
        if route.chat == sender:
            return f"{who} asks in their own chat with me"
        topic = f", topic {route.topic}" if route.topic else ""
        return f"{who} asks in {_named(await self._name_of(self._platform_chat(route.chat)), route.chat)}{topic}"

    async def _name_of(self, chat: str) -> str:
        try:
            return await self._people.name_of(chat)
        except (ChannelError, ValueError):  # the id says enough; a sender need not be a number
            return ""


def _named(name: str, number: str) -> str:
    """Return a name in quotes that it cannot end: people choose their names, and could write the rest of a question into one."""
    inside = name.replace("“", "").replace("”", "")
    return f"“{inside}” ({number})" if inside and inside != number else number
