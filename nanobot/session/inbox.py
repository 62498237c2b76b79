"""Which inbound messages a log has seen, and which of them nothing has taken up yet.  Pure; kept up entry by entry.

A message may be a newer version of an earlier one (``replaces``).  While the earlier one is pending, the newer one stands in its
place and is no longer called a version of it: nobody has seen the other.  Where the earlier one was taken up, the newer one is
pending as a message of its own.  A version that comes before what it replaces makes that one void.

What was overheard is never pending: the last of it is kept until a message is taken up, which tells it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nanobot.bus.events import InboundMessage, moved_route
from nanobot.messages import JsonObject
from nanobot.session.entries import Cut, Entry, Finished, Moved, Reset, Started, Step, Summary

OVERHEARD_MAX = 30  # messages


class Inbox:
    """Fold a log's entries, in order, into the ids it knows and the messages still pending, both oldest first.

    ``seen`` also holds the ids that a floor entry carries over (``carry["seen"]``) and those that a Turn named although their own
    line is out of reach.  ``arrived`` says for each pending message at which place among the entries it came, and the id of that
    entry: an older version's, if there is one.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.seen: dict[str, None] = {}
        self.pending: dict[str, InboundMessage] = {}
        self.arrived: dict[str, tuple[int, str]] = {}
        self.overheard: deque[InboundMessage] = deque(maxlen=OVERHEARD_MAX)
        self._newest: dict[str, str] = {}  # message -> the pending version of it; while it is pending
        self._place = 0
        for entry in entries:
            self.note(entry)

    def note(self, entry: Entry) -> None:
        """Take the next entry into account."""
        self._place += 1
        match entry:
            case InboundMessage():
                self._arrived(entry)
            case Started() | Step() | Finished():
                for taken in entry.inbound:
                    self.seen[taken] = None
                    self._forget(taken)
                if entry.inbound and not isinstance(entry, Finished):
                    self.overheard.clear()
            case Moved(old=old, new=new):
                for name, message in self.pending.items():
                    route = message.route and moved_route(message.route, old=old, new=new)
                    self.pending[name] = replace(message, route=route)
            case _:
                pass
        if isinstance(entry, Finished | Cut | Summary | Reset) and entry.carry:
            older = {one: None for one in _carried(entry.carry) if one not in self.seen}
            self.seen = older | self.seen if older else self.seen

    def arrivals(self) -> tuple[InboundMessage, ...]:
        """Return what is pending, oldest first."""
        return tuple(self.pending.values())

    def newest(self, message_id: str) -> str:
        """Return the id of the pending message that stands where this one did; its own if there is none."""
        return self._newest.get(message_id, message_id)

    def _arrived(self, message: InboundMessage) -> None:
        if message.id in self.seen:
            return
        self.seen[message.id] = None
        if message.overheard:
            self.overheard.append(message)
            return
        older = self.pending.get(self.newest(message.replaces)) if message.replaces else None
        if older is not None:
            self._stand_in(older, message)
            return
        self.pending[message.id] = message
        self.arrived[message.id] = (self._place, message.id)
        if message.replaces:
            self.seen[message.replaces] = None  # should it come after this, it is void
            self._newest[message.replaces] = message.id

    def _stand_in(self, older: InboundMessage, newer: InboundMessage) -> None:
        """Let the newer version stand where the older one does, as what the older one was."""
        newer = replace(newer, replaces=older.replaces)
        places = [(one.id, one) for one in self.pending.values()]
        self.pending = dict((newer.id, newer) if one is older else (name, one) for name, one in places)
        self.arrived[newer.id] = self.arrived.pop(older.id)
        self._newest = {root: newer.id if name == older.id else name for root, name in self._newest.items()}
        self._newest[older.id] = newer.id

    def _forget(self, message_id: str) -> None:
        """Take a message out that was taken up."""
        self.pending.pop(message_id, None)
        if self.arrived.pop(message_id, None) is not None and self._newest:
            self._newest = {root: name for root, name in self._newest.items() if name != message_id}


def _carried(carry: JsonObject) -> Iterator[str]:
    seen = carry.get("seen")
    if isinstance(seen, list):
        yield from (item for item in seen if isinstance(item, str))
