"""Session logs as files of JSON lines: the ``SessionStore`` of one machine.

::

    <data_dir>/sessions/<name>.jsonl     the logs: the truth
               blobs/<name>/<sha256>     what entries refer to
               open/<name>               markers of sessions that may hold unsettled work: derived
               locks/<name>.lock         who writes a session now
               quarantine/<name>.<n>     bytes that no entry could be made of

This object belongs to one event loop and never blocks it: files are opened, locked, read, written and synced in threads.
Constructing it does nothing.  A session stays open, and locked against other processes, from its first ``accept`` or ``claim``
until its claim is released, or until ``close``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from nanobot.bus.events import Accepted, Duplicate, InboundMessage, SessionKey
from nanobot.errors import DiskRefused, SessionBusy, SessionError, StaleClaim
from nanobot.session.appending import AppendFile
from nanobot.session.blobs import Blobs
from nanobot.session.browse import Browser
from nanobot.session.codec import to_line
from nanobot.session.disk import DirSyncs, Disk, refusal
from nanobot.session.entries import BlobId, Entry, EntryId
from nanobot.session.files import Layout
from nanobot.session.inbox import Inbox
from nanobot.session.locks import FileLock
from nanobot.session.removal import remove_session
from nanobot.session.repair import Opened, Opener, header_line
from nanobot.session.settings import SessionSettings
from nanobot.session.store import Claim
from nanobot.session.threads import Crew
from nanobot.session.tickets import Ticket
from nanobot.session.writer import LogWriter, Writer

_READERS = 4
_CLOSED = "The session store is closed."
_OPEN_TRIES = 100  # each is one close by somebody else
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Session:
    """A session that this process holds.

    ``tail`` is what a claim will be given; once it is claimed the claim's holder keeps it.  ``unconfirmed`` are accepted
    messages of which nobody has been told yet that they are durable.
    """

    key: SessionKey
    writer: LogWriter
    inbox: Inbox
    epoch: int
    tail: list[Entry]
    reports: list[str]
    read_only: str | None
    claim: Claim | None = None
    unconfirmed: dict[str, Ticket] = field(default_factory=dict[str, Ticket])


def _utc_now() -> datetime:
    return datetime.now(UTC)


class JsonlStore:
    """A ``SessionStore`` under ``data_dir``.

    Args:
        data_dir: made when first written to.
        settings: when to sync.
        owner: who this process is, for those who find a session held.
        disk: the system calls; a test's faults go here.
        now: the clock for headers.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: SessionSettings,
        owner: str,
        disk: Disk | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        disk = disk or Disk()
        sync = settings.sync != "off"
        self._disk = disk
        self._at = Layout(data_dir)
        self._settings = settings
        self._now = now
        self._opener = Opener(disk=disk, at=self._at, owner=owner, sync=sync, now=now)
        self._blobs = Blobs(disk=disk, at=self._at, dir_syncs=DirSyncs(disk), sync=sync)
        self._browser = Browser(disk=disk, at=self._at)
        self._writer = Writer(disk, self._at, settings)
        self._readers = Crew("session-read", _READERS)
        self._sessions: dict[SessionKey, asyncio.Future[_Session]] = {}  # open, or being opened
        self._closing: dict[SessionKey, asyncio.Task[None]] = {}
        self._held: dict[Claim, _Session] = {}
        self._closed = False

    # -- writing ---------------------------------------------------------------------------------------------------------------

    async def accept(self, key: SessionKey, inbound: InboundMessage) -> Accepted | Duplicate:
        """See ``SessionStore.accept``.

        After ``DiskRefused`` the message waits in memory like any entry, so that those behind it keep their order.  The same id
        may be accepted again: that tries again, and the first to be told that it is durable is told ``Accepted``, unless
        a Turn has taken it up meanwhile.
        """
        session = await self._open(key)  # and no await between here and the queue
        _check_writable(session)
        ticket = session.unconfirmed.get(inbound.id)
        tried_before = ticket is not None and ticket.error is not None
        if ticket is None or ticket.fatal:
            if ticket is None and inbound.id in session.inbox.seen:
                return Duplicate()
            ticket = self._enter(session, inbound, sync=True, marks=True)
            if not ticket.fatal:
                session.unconfirmed[inbound.id] = ticket
        elif tried_before:
            self._writer.retry(session.writer, ticket)
        await ticket
        first = session.unconfirmed.pop(inbound.id, None) is not None
        taken_up = tried_before and inbound.id not in session.inbox.pending
        return Accepted() if first and not taken_up else Duplicate()

    def append(self, claim: Claim, entry: Entry, *, sync: bool) -> Awaitable[None]:
        """See ``SessionStore.append``.  What it returns may be awaited, once, often or never."""
        session = self._held.get(claim)
        if session is None:
            return self._failed(_ended(claim))
        if session.read_only is not None:
            return self._failed(_read_only(session))
        return self._enter(session, entry, sync=sync)

    async def arrivals(self, claim: Claim) -> Sequence[InboundMessage]:
        """See ``SessionStore.arrivals``."""
        return self._must_hold(claim).inbox.arrivals()

    async def put_blob(self, claim: Claim, data: bytes) -> BlobId:
        """See ``SessionStore.put_blob``."""
        self._must_hold(claim)
        return await self._in_thread(
            lambda: self._blobs.put(claim.key, data), "Keeping a blob in", self._at.blob_dir(claim.key)
        )

    def refusing(self, key: SessionKey) -> str | None:
        """See ``SessionStore.refusing``."""
        slot = self._sessions.get(key)
        if slot is None or not slot.done() or slot.exception() is not None:
            return None
        refused = slot.result().writer.refused
        return None if refused is None else str(refused)

    # -- holding ---------------------------------------------------------------------------------------------------------------

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        """See ``SessionStore.claim``.  The log's file is made by the first append."""
        session = await self._open(key)
        if session.claim is not None:
            holder = session.claim.owner
            raise SessionBusy(f"Session {key!r:.80} is held by {holder} in this process.", owner=holder)
        claim = Claim(key=key, owner=owner, epoch=session.epoch, entries=session.tail, reports=session.reports)
        session.claim, session.tail = claim, []
        self._held[claim] = session
        return claim

    async def renew(self, claim: Claim) -> None:
        """See ``SessionStore.renew``.  A lock between processes of one machine does not run out."""
        self._must_hold(claim)

    async def settle(self, claim: Claim) -> None:
        """See ``SessionStore.settle``.  The marker goes in the order of the appends, and nothing waits for it."""
        session = self._must_hold(claim)
        if not session.inbox.pending:
            ticket = self._writer.ticket(b"", sync=False)
            ticket.marks = False
            self._writer.put(session.writer, ticket)

    async def release(self, claim: Claim, *, settled: bool = False) -> None:
        """See ``SessionStore.release``.  What is queued is synced too, unless the mode is ``off``."""
        session = self._held.get(claim)
        if session is None:
            return
        if settled:
            await self.settle(claim)
        del self._held[claim]
        await asyncio.shield(self._start_closing(session, self._flush_and_close(session)))

    async def delete(self, claim: Claim) -> None:
        """See ``SessionStore.delete``.  What was set aside in quarantine goes too."""
        session = self._must_hold(claim)
        del self._held[claim]
        await asyncio.shield(self._start_closing(session, self._close_and_remove(session)))

    async def close(self) -> None:
        """Write what is queued and give everything up, within ``close_timeout_s``.  Twice is harmless."""
        self._closed = True
        self._held.clear()
        until = asyncio.get_running_loop().time() + self._settings.close_timeout_s
        await _wait([slot for slot in self._sessions.values() if not slot.done()], until)
        sessions = [slot.result() for slot in self._sessions.values() if slot.done() and not slot.exception()]
        for session in sessions:
            if session.key not in self._closing:
                self._start_closing(session, self._flush_and_close(session))
        await _wait(self._closing.values(), until)
        await _wait(self._abandon([session for session in sessions if session.key in self._sessions]), until)
        self._writer.stop()
        self._readers.stop()

    # -- looking ---------------------------------------------------------------------------------------------------------------

    async def read(self, key: SessionKey, *, before: EntryId | None, limit: int) -> Sequence[Entry]:
        """See ``SessionStore.read``.  Includes what this process has queued and not written yet."""
        unwritten = self._unwritten(key)
        return await self._in_thread(
            lambda: self._browser.read(key, before=before, limit=limit, unwritten=unwritten),
            "Reading",
            self._at.log(key),
        )

    async def unfinished(self) -> Sequence[SessionKey]:
        """See ``SessionStore.unfinished``."""
        return await self._in_thread(self._browser.unfinished, "Reading", self._at.markers)

    async def keys(self) -> Sequence[SessionKey]:
        """See ``SessionStore.keys``."""
        unwritten = [key for key in self._sessions if self._unwritten(key)]  # first: it may be written meanwhile
        found = await self._in_thread(self._browser.keys, "Reading", self._at.sessions)
        return list(dict.fromkeys([*found, *unwritten]))

    async def get_blob(self, key: SessionKey, blob: BlobId) -> bytes:
        """See ``SessionStore.get_blob``."""
        return await self._in_thread(lambda: self._blobs.get(key, blob), "Reading a blob of", self._at.blob_dir(key))

    # -- entries ---------------------------------------------------------------------------------------------------------------

    def _enter(self, session: _Session, entry: Entry, *, sync: bool, marks: bool | None = None) -> Ticket:
        ticket = self._writer.ticket(to_line(entry), sync=sync)
        ticket.entry, ticket.marks = entry, marks
        self._writer.put(session.writer, ticket)
        if not ticket.fatal:
            session.inbox.note(entry)
            if session.claim is None:
                session.tail.append(entry)
        return ticket

    def _failed(self, error: SessionError) -> Ticket:
        ticket = self._writer.ticket(b"", sync=False)
        ticket.error, ticket.fatal = error, True
        return ticket

    def _unwritten(self, key: SessionKey) -> list[Entry]:
        """Return what is in memory because it may not be in the file, or not safely, yet."""
        slot = self._sessions.get(key)
        if slot is None or not slot.done() or slot.exception() is not None:
            return []
        with self._writer.guard:
            return [ticket.entry for ticket in slot.result().writer.tickets if ticket.entry is not None]

    def _must_hold(self, claim: Claim) -> _Session:
        session = self._held.get(claim)
        if session is None or session.writer.dead is not None:
            raise _ended(claim)
        return session

    # -- opening and closing ---------------------------------------------------------------------------------------------------

    async def _open(self, key: SessionKey) -> _Session:
        """Return the session, opened if it was not.  The caller may count on it until its next await."""
        for _ in range(_OPEN_TRIES):
            if self._closed:
                raise StaleClaim(_CLOSED)
            closing = self._closing.get(key)
            if closing is not None:
                await asyncio.wait([closing])
                continue
            slot = self._sessions.get(key) or self._start_opening(key)
            session = await asyncio.shield(slot)
            if session.writer.dead is not None and session.claim is None and key not in self._closing:
                self._start_closing(session, self._flush_and_close(session))
                continue
            if self._sessions.get(key) is slot and key not in self._closing:
                return session
        raise SessionBusy(f"Session {key!r:.80} is opened and closed all the time.", owner="this process")

    def _start_opening(self, key: SessionKey) -> asyncio.Future[_Session]:
        slot: asyncio.Future[_Session] = asyncio.get_running_loop().create_future()
        self._sessions[key] = slot

        def opened(found: asyncio.Future[Opened]) -> None:
            error = found.exception()
            if error is None:
                slot.set_result(self._begin(key, found.result()))
                return
            del self._sessions[key]
            slot.set_exception(error)
            slot.exception()  # looked at, should every caller have been cancelled

        self._readers.call(lambda: self._opener.open(key)).add_done_callback(opened)
        return slot

    def _begin(self, key: SessionKey, found: Opened) -> _Session:
        file = AppendFile(
            self._disk,
            self._at.log(key),
            header=lambda: header_line(key, self._now()),
            sync=self._settings.sync != "off",
        )
        writer = LogWriter(key=key, file=file, lock=found.lock, lock_late=lambda: self._lock_late(key, found.size))
        for line in found.repairs:
            self._writer.put(writer, self._writer.ticket(line, sync=False))
        return _Session(
            key=key,
            writer=writer,
            inbox=Inbox(found.entries),
            epoch=found.lock.epoch if found.lock else 1,
            tail=found.entries,
            reports=found.reports,
            read_only=found.read_only,
        )

    def _lock_late(self, key: SessionKey, size: int) -> FileLock:
        """Take the lock that the disk refused when the session was opened, if nobody wrote to the log since."""
        lock = self._opener.lock(key)
        path = self._at.log(key)
        now_bytes = path.stat().st_size if path.exists() else 0
        if now_bytes != size:
            lock.release()
            raise SessionBusy(f"Session {key!r:.80} was changed by another process.", owner="another process")
        return lock

    def _start_closing(self, session: _Session, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run the closing as its own task, which no caller's cancellation ends halfway."""
        task = asyncio.create_task(work, name=f"close session {session.key:.80}")
        self._closing[session.key] = task

        def ended(task: asyncio.Task[None]) -> None:
            del self._closing[session.key]
            if not task.cancelled():
                task.exception()  # looked at, should the caller have been cancelled

        task.add_done_callback(ended)
        return task

    async def _flush_and_close(self, session: _Session) -> None:
        barrier = self._writer.ticket(b"", sync=True)
        self._writer.put(session.writer, barrier)
        try:
            await barrier
        except DiskRefused:
            if session.claim is not None and not self._closed:
                self._held[session.claim] = session
            raise
        except StaleClaim:  # another process took the session: nothing left to write
            pass
        del self._sessions[session.key]
        await self._writer.close(session.writer)

    async def _close_and_remove(self, session: _Session) -> None:
        del self._sessions[session.key]
        remove = lambda: remove_session(self._disk, self._at, session.key)  # noqa: E731 - one line, one caller
        try:
            await self._writer.close(session.writer, then=remove)
        except OSError as error:
            raise refusal(error, "Removing", self._at.log(session.key)) from error

    def _abandon(self, sessions: list[_Session]) -> list[asyncio.Future[None]]:
        for session in sessions:
            _log.error("Session %.80r was closed with entries that the disk did not take.", session.key)
        return [self._writer.close(session.writer) for session in sessions]

    async def _in_thread(self, function: Callable[[], T], doing: str, path: Path) -> T:
        if self._closed:
            raise StaleClaim(_CLOSED)
        try:
            return await self._readers.call(function)
        except OSError as error:
            raise refusal(error, doing, path) from error


async def _wait(futures: Iterable[asyncio.Future[Any]], until: float) -> None:
    """Wait for all of them, but not past ``until`` on the loop's clock."""
    waiting = tuple(futures)
    if waiting:
        await asyncio.wait(waiting, timeout=max(0.0, until - asyncio.get_running_loop().time()))


def _check_writable(session: _Session) -> None:
    if session.read_only is not None:
        raise _read_only(session)
    if session.writer.dead is not None:
        raise StaleClaim(str(session.writer.dead))


def _read_only(session: _Session) -> SessionError:
    return SessionError(f"Session {session.key!r:.80} can be read only: {session.read_only}.")


def _ended(claim: Claim) -> StaleClaim:
    return StaleClaim(f"The claim of {claim.owner} on session {claim.key!r:.80} has ended.")
