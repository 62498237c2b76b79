"""Write all logs: one thread that writes, a few that sync.

Lines enter a log's queue in the order of the calls.  The writer takes what is queued for a log and writes it at once; syncs run
beside it, so that a slow disk holds up those who wait for it and nobody else.  A line stays in memory until it is safe by the
sync mode, because a failed sync means that nothing since the last good one may be believed.

Lines that nobody waits for linger for a moment, so that a Turn's steps are one write and wake the writer's thread once: a process
that is killed meanwhile loses no more than one that was killed a moment earlier.

While the disk refuses, lines wait in memory, in order, up to a limit; each new line and a timer try again.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue

from nanobot.errors import DiskRefused, SessionError, StaleClaim
from nanobot.session.disk import DirSyncs, Disk, make_dirs, refusal, write_new
from nanobot.session.entries import Entry
from nanobot.session.files import Layout
from nanobot.session.queueing import LogWriter, fail, finish, next_batch
from nanobot.session.settings import SessionSettings
from nanobot.session.threads import Crew, tell
from nanobot.session.tickets import Ticket, answer

_SYNCERS = 8
_LINGER_S = 0.01
_UNSYNCED_MAX_BYTES = 4 * 1024 * 1024  # a log with more than this unsynced is synced although nobody asked
_log = logging.getLogger(__name__)


class Writer:
    """The threads, and what they share."""

    def __init__(self, disk: Disk, at: Layout, settings: SessionSettings) -> None:
        self.guard = threading.Lock()  # every field of LogWriter and Ticket that two threads use
        self._disk = disk
        self._at = at
        self._mode = settings.sync
        self._retry_s = settings.retry_s
        self._max_bytes = settings.unsaved_max_bytes
        self._bytes = 0  # of all lines in memory
        self._jobs: SimpleQueue[LogWriter | Callable[[], None] | None] = SimpleQueue()
        self._syncers = Crew("session-sync", _SYNCERS)
        self._dir_syncs = DirSyncs(disk)
        self._refusing: set[LogWriter] = set()
        self._above = {at.data_dir, at.data_dir.parent}  # not synced by this process yet
        self._thread: threading.Thread | None = None

    @property
    def syncs(self) -> bool:
        """Whether this mode syncs at all."""
        return self._mode != "off"

    # -- called from the event loop: nothing here blocks -----------------------------------------------------------------------

    def ticket(self, line: bytes, *, sync: bool, entry: Entry | None = None, marks: bool | None = None) -> Ticket:
        """Return a ticket for a line, done when the sync mode says so."""
        waits = self._mode == "always" or (sync and self._mode == "turn")
        return Ticket(line, guard=self.guard, entry=entry, sync=waits, marks=marks)

    def put(self, log: LogWriter, ticket: Ticket, *, lingers: bool = False) -> None:
        """Queue a line; one that lingers is written when somebody waits for it, with the next one, or in a moment.

        One for which memory has no room any more is refused for good.
        """
        with self.guard:
            if log.dead is not None:
                fail(ticket, log.dead)
            elif ticket.line and (log.gap or self._is_full(len(ticket.line))):
                log.gap = True
                fail(ticket, DiskRefused(f"Session {log.key!r:.80} cannot keep more in memory while the disk refuses."))
                _log.error(
                    "An entry of session %.80r was dropped: the disk refuses and memory for it is full.", log.key
                )
            else:
                log.tickets.append(ticket)
                self._bytes += len(ticket.line)
                if lingers and not ticket.sync:
                    self._linger(log, ticket)
                else:
                    self._queue(log)

    def _linger(self, log: LogWriter, ticket: Ticket) -> None:
        if log.queued:
            return
        ticket.hurry = partial(self._hurry, log)
        if not log.lingers:
            log.lingers = True
            asyncio.get_running_loop().call_later(_LINGER_S, self._lingered, log)

    def _lingered(self, log: LogWriter) -> None:
        log.lingers = False
        self._hurry(log)

    def _hurry(self, log: LogWriter) -> None:
        with self.guard:
            if log.dead is None and log.written < len(log.tickets):
                self._queue(log)

    def _is_full(self, size: int) -> bool:
        """Say whether memory has no room for so many bytes.  A disk that writes may be given one line of any size."""
        return self._bytes > self._max_bytes or (bool(self._refusing) and self._bytes + size > self._max_bytes)

    def retry(self, log: LogWriter, ticket: Ticket) -> None:
        """Try again to write what was refused; ``ticket`` may be waited for once more."""
        with self.guard:
            if not ticket.fatal:
                ticket.error = None
                self._queue(log)

    def close(self, log: LogWriter, *, then: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Close the log's file, run ``then`` in the writer's thread, and give the lock back.  What is still queued is refused."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def done(error: OSError | None) -> None:
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        def job() -> None:
            self._close(log, then, lambda error: tell(loop, lambda: done(error)))

        self._start()
        self._jobs.put(job)
        return future

    def stop(self) -> None:
        """Let the threads end when they are through.  Does not wait."""
        self._syncers.stop()
        self._jobs.put(None)

    # -- the writer's thread ---------------------------------------------------------------------------------------------------

    def _queue(self, log: LogWriter) -> None:
        if not log.queued:
            log.queued = True
            self._start()
            self._jobs.put(log)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="session-writer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        retry_at = time.monotonic() + self._retry_s
        while True:
            try:
                wait_s = max(0.0, retry_at - time.monotonic()) if self._refusing else None
                job = self._jobs.get(timeout=wait_s)
            except Empty:
                job = self._retry_all
            if job is None:
                return
            if isinstance(job, LogWriter):
                self._flush(job)
            else:
                job()
            if not self._refusing or job == self._retry_all:
                retry_at = time.monotonic() + self._retry_s

    def _retry_all(self) -> None:
        with self.guard:
            refusing = tuple(self._refusing)
        for log in refusing:
            self._flush(log)

    def _flush(self, log: LogWriter) -> None:
        """Write all that is queued for one log."""
        with self.guard:
            log.queued = False
            if log.dead is not None:
                return
            again, log.sync_failed = log.sync_failed, False
            if again:
                log.written = 0
            batch = next_batch(log)
        try:
            if again:
                log.file.doubt()
            self._write(log, batch)
        except OSError as error:
            self._refuse(log, refusal(error, f"Session {log.key!r:.80} is not kept: writing", self._at.log(log.key)))
        except SessionError as error:
            self._give_up(log, StaleClaim(str(error)))
        except Exception as error:  # noqa: BLE001 - a bug that one log meets must not end the writing of all others
            _log.exception("Writing session %.80r failed.", log.key)
            self._refuse(log, DiskRefused(f"Session {log.key!r:.80} is not kept: {error!r:.200}."))
        else:
            self._written(log, batch)

    def _write(self, log: LogWriter, batch: list[Ticket]) -> None:
        marks = [ticket.marks for ticket in batch if ticket.marks is not None]
        lines = b"".join([ticket.line for ticket in batch])
        if lines and log.lock is None:
            log.lock = log.lock_late()
        if log.marked and log.file.is_gone():
            log.marked = False
        if marks and marks[-1] and not log.marked:
            self._mark(log)
        if lines:
            log.file.append(lines)
        if marks and not marks[-1]:
            with suppress(OSError):  # a marker too many costs a look at the log, no more
                self._disk.unlink(self._at.marker(log.key))
                log.marked = False

    def _mark(self, log: LogWriter) -> None:
        """Make the marker's name; its folder is synced together with the line that it announces."""
        path = self._at.marker(log.key)
        make_dirs(self._disk, path.parent, sync=self.syncs)
        with suppress(FileExistsError):
            write_new(self._disk, path, json.dumps(log.key).encode(), sync=False)
        with self.guard:
            log.folders |= {path.parent, *self._above}
        log.marked = True

    def _written(self, log: LogWriter, batch: list[Ticket]) -> None:
        with self.guard:
            log.written += len(batch)
            if log.written < len(log.tickets):
                self._queue(log)
            else:
                log.gap = False
            if log.file.reopened:
                log.file.reopened = False
                log.folders |= {self._at.sessions, *self._above}
            if not self.syncs:
                self._forget(log, log.written)
                log.folders.clear()
            log.unsynced_bytes += sum(len(ticket.line) for ticket in batch)
            wanted = any(ticket.sync and not ticket.done for ticket in batch)
            log.sync_wanted |= self.syncs and (
                wanted or log.failed_syncs > 0 or log.unsynced_bytes > _UNSYNCED_MAX_BYTES
            )
            if not log.failed_syncs:
                self._recovered(log)
            futures = finish(ticket for ticket in batch if not ticket.sync)
            self._start_sync(log)
        answer(futures, None)

    def _close(self, log: LogWriter, then: Callable[[], None] | None, done: Callable[[OSError | None], None]) -> None:
        with self.guard:
            if log.syncing:
                log.after_sync = lambda: self._close(log, then, done)
                return
        self._give_up(log, StaleClaim(f"The claim on session {log.key!r:.80} has ended."))
        log.file.close()
        problem: OSError | None = None
        try:
            if then is not None:
                then()
        except OSError as error:
            problem = error
        if log.lock is not None:
            log.lock.release()
        done(problem)

    # -- syncs: started with the guard held, run by the syncers ----------------------------------------------------------------

    def _start_sync(self, log: LogWriter) -> None:
        if not log.sync_wanted or log.syncing or log.sync_failed or log.dead is not None:
            return
        log.syncing, log.sync_wanted, log.unsynced_bytes = True, False, 0
        folders, log.folders = log.folders, set()
        covered = log.written
        self._syncers.submit(lambda: self._sync(log, covered, folders))

    def _sync(self, log: LogWriter, covered: int, folders: set[Path]) -> None:
        try:
            if log.file.fd is not None:
                self._disk.fsync(log.file.fd)
            for folder in sorted(folders):
                self._dir_syncs.sync(folder)
        except OSError as error:
            self._sync_refused(log, folders, error)
        else:
            self._synced(log, covered, folders)

    def _synced(self, log: LogWriter, covered: int, folders: set[Path]) -> None:
        with self.guard:
            self._sync_ended(log)
            log.failed_syncs = 0
            self._above -= folders
            log.file.trust()
            futures = finish(islice(log.tickets, covered))
            self._forget(log, covered)
            self._recovered(log)
            self._start_sync(log)
        answer(futures, None)

    def _sync_refused(self, log: LogWriter, folders: set[Path], error: OSError) -> None:
        with self.guard:
            self._sync_ended(log)
            log.sync_failed = True
            log.failed_syncs += 1
            log.folders |= folders
            if log.failed_syncs == 1:  # once more, at once, on a file opened anew
                self._queue(log)
                return
        self._refuse(log, refusal(error, f"Session {log.key!r:.80} is not kept: syncing", self._at.log(log.key)))

    def _sync_ended(self, log: LogWriter) -> None:
        log.syncing = False
        if log.after_sync is not None:
            self._jobs.put(log.after_sync)
            log.after_sync = None

    # -- outcomes --------------------------------------------------------------------------------------------------------------

    def _refuse(self, log: LogWriter, error: DiskRefused) -> None:
        """Tell those who wait now; the lines stay, and so does the hope."""
        with self.guard:
            if log.dead is not None:
                return
            if log.refused is None:
                _log.error("%s", error)
            log.refused = error
            self._refusing.add(log)
            futures: list[asyncio.Future[None]] = []
            for ticket in log.tickets:
                if not ticket.done:
                    ticket.error = error
                    futures += ticket.waiters()
            self._jobs.put(_nothing)  # the timer's length may have changed
        answer(futures, error)

    def _recovered(self, log: LogWriter) -> None:
        if log.refused is not None:
            _log.warning("The disk takes session %.80r again.", log.key)
            log.refused = None
            self._refusing.discard(log)

    def _give_up(self, log: LogWriter, error: SessionError) -> None:
        with self.guard:
            log.dead = log.dead or error
            self._refusing.discard(log)
            futures: list[asyncio.Future[None]] = []
            for ticket in log.tickets:
                if not ticket.done:
                    fail(ticket, error)
                    futures += ticket.waiters()
            self._forget(log, len(log.tickets))
        answer(futures, error)

    def _forget(self, log: LogWriter, count: int) -> None:
        for _ in range(count):
            self._bytes -= len(log.tickets.popleft().line)
        log.written = max(0, log.written - count)


def _nothing() -> None:
    return
