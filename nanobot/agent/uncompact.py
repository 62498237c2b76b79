"""Taking the newest summary back: what it replaced stands again, from the log.

The log never lost it.  A line is written that names the summary and sets the floor back to where its span begins, so that a reader
finds the same after a restart.
"""

from collections.abc import Sequence
from dataclasses import replace

from nanobot.session.entries import Entry, EntryId, Finished, Summary
from nanobot.session.log import SessionLog
from nanobot.session.manager import Session
from nanobot.session.rows import BeforeSummary

_PAGE = 500
_MOST_PAGES = 2_000


async def take_back(session: Session) -> str:
    """Undo the newest summary; return a sentence for the person.  Call it with the session's lock, outside Turns."""
    log = session.log
    if log.summary is None:
        return "There is no summary to take back."
    if log.before_summary is None or log.summary.undo_floor is None:
        return "The summary cannot be taken back any more: messages were taken back after it."
    before = await _before(session, log.summary, log.summary.undo_floor)
    if before is None:
        return "The summary cannot be taken back: the log does not reach back to what it stands for."
    kept = len(log.rows)
    log.before_summary = before
    session.append(
        Finished(
            id=log.new_id(),
            stop_reason="command",
            content="",
            effect={"type": "uncompact", "target": log.summary.id},
            floor=log.summary.undo_floor,
            carry=log.carry(),
        )
    )
    return f"The summary was taken back: {len(log.rows) - kept} messages are shown in full again, as far as they fit."


async def _before(session: Session, summary: Summary, floor: EntryId) -> BeforeSummary | None:
    """Fold the log from the floor up to the summary; None if it does not reach back that far."""
    entries: list[Entry] = []
    before = summary.id
    for _ in range(_MOST_PAGES):
        page = await session.read(before=before, limit=_PAGE)
        if not page:
            return None
        for entry in page:
            entries.append(entry)
            if entry.id == floor:
                return _folded(session, entries)
        before = page[-1].id
    return None


def _folded(session: Session, newest_first: Sequence[Entry]) -> BeforeSummary:
    """Return the state at the end of these entries; its positions continue those of the live fold."""
    fold = SessionLog(session.key)
    fold.extend(reversed(newest_first))
    shift = session.log.summary_position - len(newest_first) - 1
    rows = tuple(replace(row, position=row.position + shift) for row in fold.rows)
    return BeforeSummary(rows, fold.summary, fold.summary_position + shift, fold.cuts)
