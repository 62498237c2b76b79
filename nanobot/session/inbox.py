"""Which inbound messages a log has seen, and which of them nothing has taken up yet.  Pure; kept up entry by entry."""

from collections.abc import Iterable, Iterator

from nanobot.bus.events import InboundMessage
from nanobot.messages import JsonObject
from nanobot.session.entries import Cut, Entry, Finished, Reset, Started, Step, Summary


class Inbox:
    """Fold a log's entries, in order, into the ids it knows and the messages still pending, both oldest first.

    ``seen`` also holds the ids that a floor entry carries over (``carry["seen"]``) and those that a Turn named although their own
    line is out of reach.  ``arrived`` says for each pending message at which place among the entries it came.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.seen: dict[str, None] = {}
        self.pending: dict[str, InboundMessage] = {}
        self.arrived: dict[str, int] = {}
        self._place = 0
        for entry in entries:
            self.note(entry)

    def note(self, entry: Entry) -> None:
        """Take the next entry into account."""
        self._place += 1
        match entry:
            case InboundMessage():
                if entry.id not in self.seen:
                    self.seen[entry.id] = None
                    self.pending[entry.id] = entry
                    self.arrived[entry.id] = self._place
            case Started() | Step() | Finished():
                for taken in entry.inbound:
                    self.seen[taken] = None
                    self.pending.pop(taken, None)
                    self.arrived.pop(taken, None)
            case _:
                pass
        if isinstance(entry, Finished | Cut | Summary | Reset) and entry.carry:
            older = {one: None for one in _carried(entry.carry) if one not in self.seen}
            self.seen = older | self.seen if older else self.seen

    def arrivals(self) -> tuple[InboundMessage, ...]:
        """Return what is pending, oldest first."""
        return tuple(self.pending.values())


def _carried(carry: JsonObject) -> Iterator[str]:
    seen = carry.get("seen")
    if isinstance(seen, list):
        yield from (item for item in seen if isinstance(item, str))
