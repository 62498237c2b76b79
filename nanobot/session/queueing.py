"""One log's queue, as its writer keeps it.  All of it is touched with the writer's guard held, or by the writer alone."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.errors import DiskRefused, SessionError
from nanobot.session.appending import AppendFile
from nanobot.session.locks import FileLock
from nanobot.session.tickets import Ticket

_BATCH_BYTES = 1024 * 1024


@dataclass(eq=False, slots=True)
class LogWriter:
    """The writer's side of one open log.

    ``tickets`` are the lines that are not safe yet, oldest first; the first ``written`` of them are in the file.  ``lock_late``
    takes the session's lock when it could not be had before.
    """

    key: SessionKey
    file: AppendFile
    lock: FileLock | None
    lock_late: Callable[[], FileLock]
    tickets: deque[Ticket] = field(default_factory=deque[Ticket])
    written: int = 0
    unsynced_bytes: int = 0
    queued: bool = False
    lingers: bool = False  # a timer will queue it
    syncing: bool = False
    sync_wanted: bool = False
    sync_failed: bool = False  # until the writer has reopened the file
    failed_syncs: int = 0  # in a row
    folders: set[Path] = field(default_factory=set[Path])  # with names not synced yet
    marked: bool = False
    refused: DiskRefused | None = None
    dead: SessionError | None = None  # nothing more will be written through this
    gap: bool = False  # a line was dropped, so those behind it are too, until what is kept is written
    after_sync: Callable[[], None] | None = None  # what waits for the descriptor to be free


def next_batch(log: LogWriter) -> list[Ticket]:
    """Return what to write now: all that waits, but no more than a block of many MB at once."""
    batch: list[Ticket] = []
    size = 0
    for ticket in islice(log.tickets, log.written, None):
        batch.append(ticket)
        size += len(ticket.line)
        if size > _BATCH_BYTES:
            break
    return batch


def finish(tickets: Iterable[Ticket]) -> list[asyncio.Future[None]]:
    """Mark them done; return those who wait, to be told once the guard is given back."""
    futures: list[asyncio.Future[None]] = []
    for ticket in tickets:
        ticket.done, ticket.error = True, None
        futures += ticket.waiters()
    return futures


def fail(ticket: Ticket, error: SessionError) -> None:
    """Mark a ticket as lost: nothing will write it."""
    ticket.error, ticket.fatal = error, True
