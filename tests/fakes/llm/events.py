"""One event of a stream, and where streams are cut."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Kind = Literal["start", "delta", "end", "done"]


class Event(NamedTuple):
    """Bytes to send and what they are: the opening, a delta of content, the end (finish, usage), or the very last event."""

    data: bytes
    kind: Kind


def up_to_delta(events: Iterable[Event], count: int | None) -> list[Event]:
    """Return the events before the end, and of the deltas only the first ``count`` (None: all)."""
    out: list[Event] = []
    deltas = 0
    for event in events:
        if event.kind in ("end", "done") or (event.kind == "delta" and deltas == count):
            break
        deltas += event.kind == "delta"
        out.append(event)
    return out
