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

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import TypeVar

from nanobot.bus.events import Accepted, Duplicate, InboundMessage, SessionKey
from nanobot.errors import SessionBusy, SessionError, StaleClaim
from nanobot.session.blobs import Blobs
from nanobot.session.browse import Browser
from nanobot.session.codec import to_line
from nanobot.session.disk import DirSyncs, Disk, refusal
from nanobot.session.entries import BlobId, Cut, Entry, EntryId, Started, Step
from nanobot.session.files import Layout
from nanobot.session.holding import CLOSED, HeldSession, Holdings
from nanobot.session.settings import SessionSettings
from nanobot.session.store import Claim
from nanobot.session.threads import Crew
from nanobot.session.tickets import Ticket
from nanobot.session.writer import Writer

_READERS = 4
_REPEATED = (Started, Step, Cut)  # what a Turn that is taken up again does again
T = TypeVar("T")


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
        self._at = Layout(data_dir)
        self._settings = settings
        self._blobs = Blobs(disk=disk, at=self._at, dir_syncs=DirSyncs(disk), sync=sync)
        self._browser = Browser(disk=disk, at=self._at)
        self._writer = Writer(disk, self._at, settings)
        self._readers = Crew("session-read", _READERS)
        self._sessions = Holdings(
            disk=disk,
            at=self._at,
            settings=settings,
            owner=owner,
            writer=self._writer,
            readers=self._readers,
            now=now,
        )

    # -- writing ---------------------------------------------------------------------------------------------------------------

    async def accept(self, key: SessionKey, inbound: InboundMessage) -> Accepted | Duplicate:
        """See ``SessionStore.accept``.

        After ``DiskRefused`` the message waits in memory like any entry, so that those behind it keep their order.  The same id
        may be accepted again: that tries again, and the first to be told that it is durable is told ``Accepted``, unless
        a Turn has taken it up meanwhile.
        """
        session = await self._sessions.open(key)  # and no await between here and the queue
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
        session = self._sessions.held.get(claim)
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

    async def prune_blobs(self, claim: Claim, *, keep: Collection[BlobId]) -> None:
        """See ``SessionStore.prune_blobs``."""
        self._must_hold(claim)
        settings = self._settings
        await self._in_thread(
            lambda: self._blobs.prune(
                claim.key,
                keep=keep,
                max_age_s=settings.result_days * 86_400,
                max_bytes=settings.result_max_bytes,
                now=time(),
            ),
            "Removing old blobs of",
            self._at.blob_dir(claim.key),
        )

    def refusing(self, key: SessionKey) -> str | None:
        """See ``SessionStore.refusing``."""
        session = self._sessions.find(key)
        return str(session.writer.refused) if session is not None and session.writer.refused is not None else None

    # -- holding ---------------------------------------------------------------------------------------------------------------

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        """See ``SessionStore.claim``.  The log's file is made by the first append."""
        session = await self._sessions.open(key)
        if session.claim is not None:
            holder = session.claim.owner
            raise SessionBusy(f"Session {key!r:.80} is held by {holder} in this process.", owner=holder)
        claim = Claim(key=key, owner=owner, epoch=session.epoch, entries=session.tail, reports=session.reports)
        session.claim, session.tail = claim, []
        self._sessions.held[claim] = session
        return claim

    async def renew(self, claim: Claim) -> None:
        """See ``SessionStore.renew``.  A lock between processes of one machine does not run out."""
        self._must_hold(claim)

    async def release(self, claim: Claim, *, settled: bool = False) -> None:
        """See ``SessionStore.release``.  What is queued is synced too, unless the mode is ``off``."""
        session = self._sessions.held.get(claim)
        if session is None:
            return
        if settled and not session.inbox.pending:
            # The marker goes in the order of the appends, and nothing waits for it.
            self._writer.put(session.writer, self._writer.ticket(b"", sync=False, marks=False))
        await self._sessions.release(session)

    async def delete(self, claim: Claim) -> None:
        """See ``SessionStore.delete``.  What was set aside in quarantine goes too."""
        await self._sessions.remove(self._must_hold(claim))

    async def close(self) -> None:
        """Write what is queued and give everything up, within ``close_timeout_s``.  Twice is harmless."""
        await self._sessions.close_all()
        self._writer.stop()
        self._readers.stop()

    # -- looking ---------------------------------------------------------------------------------------------------------------

    async def read(self, key: SessionKey, *, before: EntryId | None, limit: int) -> Sequence[Entry]:
        """See ``SessionStore.read``.  Includes what this process has queued and not written yet."""
        session = self._sessions.find(key)
        unwritten = self._unwritten(session) if session is not None else ()
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
        # First those not written yet: they may be written meanwhile.
        unwritten = [session.key for session in self._sessions.all() if self._unwritten(session)]
        found = await self._in_thread(self._browser.keys, "Reading", self._at.sessions)
        return list(dict.fromkeys([*found, *unwritten]))

    async def get_blob(self, key: SessionKey, blob: BlobId) -> bytes:
        """See ``SessionStore.get_blob``."""
        return await self._in_thread(lambda: self._blobs.get(key, blob), "Reading a blob of", self._at.blob_dir(key))

    # -- entries ---------------------------------------------------------------------------------------------------------------

    def _enter(self, session: HeldSession, entry: Entry, *, sync: bool, marks: bool | None = None) -> Ticket:
        ticket = self._writer.ticket(to_line(entry), sync=sync, entry=entry, marks=marks)
        self._writer.put(session.writer, ticket, lingers=isinstance(entry, _REPEATED))
        if not ticket.fatal:
            session.inbox.note(entry)
            if session.claim is None:
                session.tail.append(entry)
        return ticket

    def _failed(self, error: SessionError) -> Ticket:
        ticket = self._writer.ticket(b"", sync=False)
        ticket.error, ticket.fatal = error, True
        return ticket

    def _unwritten(self, session: HeldSession) -> list[Entry]:
        """Return what is in memory because it may not be in the file, or not safely, yet."""
        with self._writer.guard:
            return [ticket.entry for ticket in session.writer.tickets if ticket.entry is not None]

    def _must_hold(self, claim: Claim) -> HeldSession:
        session = self._sessions.held.get(claim)
        if session is None or session.writer.dead is not None:
            raise _ended(claim)
        return session

    async def _in_thread(self, function: Callable[[], T], doing: str, path: Path) -> T:
        if self._sessions.closed:
            raise StaleClaim(CLOSED)
        try:
            return await self._readers.call(function)
        except OSError as error:
            raise refusal(error, doing, path) from error


def _check_writable(session: HeldSession) -> None:
    if session.read_only is not None:
        raise _read_only(session)
    if session.writer.dead is not None:
        raise StaleClaim(str(session.writer.dead))


def _read_only(session: HeldSession) -> SessionError:
    return SessionError(f"Session {session.key!r:.80} can be read only: {session.read_only}.")


def _ended(claim: Claim) -> StaleClaim:
    return StaleClaim(f"The claim of {claim.owner} on session {claim.key!r:.80} has ended.")
