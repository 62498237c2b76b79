"""Which inbound messages a log has seen, and which of them nothing has taken up yet.  Pure; kept up entry by entry."""

from collections.abc import Iterable, Iterator

from nanobot.bus.events import InboundMessage
from nanobot.messages import JsonObject, JsonValue
from nanobot.session.entries import Cut, Entry, Finished, Reset, Started, Step, Summary


class Inbox:
    """Fold a log's entries, in order, into the ids it knows and the messages still pending.

    ``seen`` also holds the ids that a floor entry carries over (``carry["seen"]``: a list, or a list for each chat) and those that
    a Turn named although their own line is out of reach.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.seen: set[str] = set()
        self.pending: dict[str, InboundMessage] = {}
        for entry in entries:
            self.note(entry)

    def note(self, entry: Entry) -> None:
        """Take the next entry into account."""
        match entry:
            case InboundMessage():
                if entry.id not in self.seen:
                    self.seen.add(entry.id)
                    self.pending[entry.id] = entry
            case Started() | Step() | Finished():
                for taken in entry.inbound:
                    self.seen.add(taken)
                    self.pending.pop(taken, None)
            case _:
                pass
        if isinstance(entry, Finished | Cut | Summary | Reset) and entry.carry:
            self.seen.update(_carried(entry.carry))

    def arrivals(self) -> tuple[InboundMessage, ...]:
        """Return what is pending, oldest first."""
        return tuple(self.pending.values())


def _carried(carry: JsonObject) -> Iterator[str]:
    seen = carry.get("seen")
    if isinstance(seen, dict):
        for ids in seen.values():
            yield from _texts(ids)
    else:
        yield from _texts(seen)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))
