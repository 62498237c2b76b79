"""Updates as Telegram sends them, and the queue they wait in until they are acknowledged."""

import re
import time
from collections.abc import Callable
from typing import Any

from tests.fakes.telegram.chats import ChatRoom
from tests.fakes.telegram.rules import units

_COMMAND = re.compile(r"(?<!\S)/\w+(@\w+)?")
_MENTION = re.compile(r"(?<!\w)@\w{3,}")


def message_update(
    room: ChatRoom, message_id: int, *, text: str | None, sender: dict[str, Any], extras: dict[str, Any]
) -> dict[str, Any]:
    """Return a message of a person; ``extras`` are further fields, as the Bot API names them."""
    message: dict[str, Any] = {
        "message_id": message_id,
        "from": sender,
        "chat": room.as_json(),
        "date": int(time.time()),
    }
    if text is not None:
        entities = text_entities(text)
        message |= {"text": text} | ({"entities": entities} if entities else {})
    return message | extras


def text_entities(text: str) -> list[dict[str, Any]]:
    """Return the commands and mentions that Telegram's server finds in a text."""
    found: list[dict[str, Any]] = []
    for kind, pattern in (("bot_command", _COMMAND), ("mention", _MENTION)):
        for match in pattern.finditer(text):
            before = text[: match.start()]
            found.append({"type": kind, "offset": units(before), "length": units(match.group())})
    return sorted(found, key=lambda entity: entity["offset"])


class UpdateQueue:
    """Updates that nobody has acknowledged; an offset acknowledges everything before it."""

    def __init__(self) -> None:
        self.waiting: list[dict[str, Any]] = []
        self.disorder: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list  # how an answer is ordered
        self._next_id = 1_000

    def add(self, update: dict[str, Any]) -> dict[str, Any]:
        """Queue an update; one without an id gets the next."""
        if "update_id" not in update:
            update = {"update_id": self._next_id, **update}
        self._next_id = max(self._next_id, update["update_id"]) + 1
        self.waiting.append(update)
        return update

    def take(self, offset: int, limit: int, allowed: list[str] | None) -> list[dict[str, Any]]:
        """Forget what the offset acknowledges and return what is next, without forgetting it."""
        if offset < 0:
            self.waiting = self.waiting[offset:]
        else:
            self.waiting = [update for update in self.waiting if update["update_id"] >= offset]
        if allowed:
            self.waiting = [update for update in self.waiting if any(kind in update for kind in allowed)]
        return self.disorder(self.waiting[:limit])
