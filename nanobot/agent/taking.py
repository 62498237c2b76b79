"""Which pending messages are taken up next, and which join a Turn.  Pure.

A Turn's route and role are those of its first message, and its answer goes nowhere else; so only messages of the same chat and role
join it, and never past a command.  Direct messages have no route: each is a Turn of its own.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import takewhile

from nanobot.agent.commands import find, is_command
from nanobot.agent.settings import AgentSettings
from nanobot.bus.events import InboundMessage, Role, Route

LATE_S = 10.0  # a message that is taken up this long after it was sent has waited


def next_message(pending: Mapping[str, InboundMessage]) -> tuple[tuple[str, ...], InboundMessage] | None:
    """Return the message to take up, and the older ones that it makes void; None if nothing is pending.

    A pending ``/new`` comes first: what was sent before it belongs to the conversation it ends.
    """
    messages = list(pending.values())
    for index, message in enumerate(messages):
        if _ends_turn(message):
            return tuple(m.id for m in messages[:index] if m.route is not None), message
    return ((), messages[0]) if messages else None


def is_late(message: InboundMessage, now: datetime) -> bool:
    """Say whether a message waited, as after downtime: what was sent after it may be on its way, too."""
    return message.route is not None and (now - message.at).total_seconds() > LATE_S


def joined(
    first: InboundMessage, pending: Mapping[str, InboundMessage], settings: AgentSettings, *, now: datetime
) -> list[InboundMessage]:
    """Return the messages that begin a Turn together: ``first`` and those after it that belong to it.

    When messages steer a running Turn, all of them may as well begin it; otherwise only those sent right after one another do, and
    those that waited for so long that the later ones may have made the earlier ones pointless.
    """
    taken = [first]
    for message in _after(first, pending.values()):
        gap_s = (message.at - taken[-1].at).total_seconds()
        waited_s = (now - message.at).total_seconds()
        together = settings.busy == "steer" or gap_s <= settings.join_within_s or waited_s > settings.join_waited_s
        if not together or not can_join(message, first.route, first.role):
            break
        taken.append(message)
    return taken


def steering(pending: Mapping[str, InboundMessage], route: Route | None, role: Role) -> list[InboundMessage]:
    """Return the messages that a running Turn of this route and role takes up: up to the first that has to wait."""
    return list(takewhile(lambda message: can_join(message, route, role), pending.values()))


def can_join(message: InboundMessage, route: Route | None, role: Role) -> bool:
    """Say whether a message may join a Turn of this route and role."""
    if message.route is None or route is None or is_command(message.text):
        return False
    return _chat(message.route) == _chat(route) and message.role == role


def _ends_turn(message: InboundMessage) -> bool:
    command = find(message.text)
    return command is not None and command.ends_turn and message.role != "member"  # who may not use it voids nothing


def _after(first: InboundMessage, messages: Iterable[InboundMessage]) -> Iterable[InboundMessage]:
    found = False
    for message in messages:
        if found:
            yield message
        found = found or message.id == first.id


def _chat(route: Route) -> tuple[str, str, str | None]:
    return route.channel, route.chat, route.topic
