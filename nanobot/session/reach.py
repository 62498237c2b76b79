"""Which of a log's older results a conversation may still look at: those since its beginning that were not taken back.  Pure.

Summaries and cuts leave results within reach.  ``/new`` and ``/undo`` do not: what they end is not the conversation's any more, and
neither are the marks that say what stood in it.
"""

from nanobot.session.entries import Entry, EntryId, Finished, Reset, Started, Step, Undo
from nanobot.session.log import number


class Reach:
    """Look for one message, given entries newest first; ``over`` once it is clear that there is nothing more to see."""

    def __init__(self, wanted: EntryId) -> None:
        self.over = False
        self._wanted = wanted
        self._until = ""  # the Turn with which what was taken back begins, while within that

    def look(self, entry: Entry) -> Step | None:
        """Take the next older entry; return it if it is the one that is wanted and within reach."""
        match entry:
            case Reset():
                self.over = True
            case Undo(target=target):
                self._until = self._until or target
            case Finished(effect={"type": "reset"}):
                self.over = True
            case Finished(effect={"type": "undo", "target": str() as target}):
                self._until = self._until or target
            case Started(turn=turn, undoes=undoes):
                self._until = "" if turn == self._until else self._until
                self._until = self._until or undoes or ""
            case Step(id=self._wanted):
                self.over = True
                return None if self._until else entry
            case _:
                pass
        self.over = self.over or 0 < number(entry.id) < number(self._wanted)
        return None
