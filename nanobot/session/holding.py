"""The sessions that this process holds: opening, sharing and closing them, whoever stops waiting halfway."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nanobot.bus.events import SessionKey
from nanobot.errors import DiskRefused, SessionBusy, StaleClaim
from nanobot.session.appending import AppendFile
from nanobot.session.disk import Disk, refusal
from nanobot.session.entries import Entry
from nanobot.session.files import Layout
from nanobot.session.inbox import Inbox
from nanobot.session.locks import FileLock
from nanobot.session.queueing import LogWriter
from nanobot.session.removal import remove_session
from nanobot.session.repair import Opened, Opener, header_line
from nanobot.session.settings import SessionSettings
from nanobot.session.store import Claim
from nanobot.session.threads import Crew
from nanobot.session.tickets import Ticket
from nanobot.session.writer import Writer

CLOSED = "The session store is closed."
_OPEN_TRIES = 100  # each is one close by somebody else
_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class HeldSession:
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


class Holdings:
    """Every session is opened once, shared by all who ask, and closed by a task of its own.

    ``held`` are the valid claims.  Belongs to one event loop.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        at: Layout,
        settings: SessionSettings,
        owner: str,
        writer: Writer,
        readers: Crew,
        now: Callable[[], datetime],
    ) -> None:
        self.held: dict[Claim, HeldSession] = {}
        self.closed = False
        self._disk = disk
        self._at = at
        self._settings = settings
        self._sync = settings.sync != "off"
        self._now = now
        self._writer = writer
        self._readers = readers
        self._opener = Opener(disk=disk, at=at, owner=owner, sync=self._sync, now=now)
        self._sessions: dict[SessionKey, asyncio.Future[HeldSession]] = {}  # open, or being opened
        self._closing: dict[SessionKey, asyncio.Task[None]] = {}

    def all(self) -> list[HeldSession]:
        """Return the sessions that are open now."""
        return [slot.result() for slot in self._sessions.values() if slot.done() and not slot.exception()]

    def find(self, key: SessionKey) -> HeldSession | None:
        """Return the session if it is open now."""
        slot = self._sessions.get(key)
        return slot.result() if slot is not None and slot.done() and not slot.exception() else None

    async def release(self, session: HeldSession) -> None:
        """Write and sync what is queued, then give the session up.  While this runs nothing more is taken.

        Raises:
            DiskRefused: not written; the session's claim is valid again.
        """
        self._end_claim(session)
        await asyncio.shield(self._start_closing(session, self._flush_and_close(session)))

    async def remove(self, session: HeldSession) -> None:
        """Give the session up and remove its files.

        Raises:
            DiskRefused: something is left.
        """
        self._end_claim(session)
        await asyncio.shield(self._start_closing(session, self._close_and_remove(session)))

    async def close_all(self) -> None:
        """Give everything up, within the time of the settings.  What the disk does not take by then is lost, and logged."""
        self.closed = True
        self.held.clear()
        until = asyncio.get_running_loop().time() + self._settings.close_timeout_s
        await _wait([slot for slot in self._sessions.values() if not slot.done()], until)
        for session in self.all():
            if session.key not in self._closing:
                self._start_closing(session, self._flush_and_close(session))
        await _wait(self._closing.values(), until)
        await _wait(self._abandon(self.all()), until)

    def _end_claim(self, session: HeldSession) -> None:
        if session.claim is not None:
            self.held.pop(session.claim, None)

    async def open(self, key: SessionKey) -> HeldSession:
        """Return the session, opened if it was not.  The caller may count on it until its next await."""
        for _ in range(_OPEN_TRIES):
            if self.closed:
                raise StaleClaim(CLOSED)
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

    def _start_opening(self, key: SessionKey) -> asyncio.Future[HeldSession]:
        slot: asyncio.Future[HeldSession] = asyncio.get_running_loop().create_future()
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

    def _begin(self, key: SessionKey, found: Opened) -> HeldSession:
        file = AppendFile(
            self._disk,
            self._at.log(key),
            header=lambda: header_line(key, self._now()),
            sync=self._sync,
        )
        writer = LogWriter(key=key, file=file, lock=found.lock, lock_late=lambda: self._lock_late(key, found.size))
        for line in found.repairs:
            self._writer.put(writer, self._writer.ticket(line, sync=False))
        return HeldSession(
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

    def _start_closing(self, session: HeldSession, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run the closing as its own task, which no caller's cancellation ends halfway."""
        task = asyncio.create_task(work, name=f"close session {session.key:.80}")
        self._closing[session.key] = task

        def ended(task: asyncio.Task[None]) -> None:
            del self._closing[session.key]
            if not task.cancelled():
                task.exception()  # looked at, should the caller have been cancelled

        task.add_done_callback(ended)
        return task

    async def _flush_and_close(self, session: HeldSession) -> None:
        barrier = self._writer.ticket(b"", sync=True)
        self._writer.put(session.writer, barrier)
        try:
            await barrier
        except DiskRefused:
            if session.claim is not None and not self.closed:
                self.held[session.claim] = session
            raise
        except StaleClaim:  # another process took the session: nothing left to write
            pass
        del self._sessions[session.key]
        await self._writer.close(session.writer)

    async def _close_and_remove(self, session: HeldSession) -> None:
        del self._sessions[session.key]
        try:
            await self._writer.close(session.writer, then=lambda: remove_session(self._disk, self._at, session.key))
        except OSError as error:
            raise refusal(error, "Removing", self._at.log(session.key)) from error

    def _abandon(self, sessions: list[HeldSession]) -> list[asyncio.Future[None]]:
        for session in sessions:
            _log.error("Session %.80r was closed with entries that the disk did not take.", session.key)
        return [self._writer.close(session.writer) for session in sessions]


async def _wait(futures: Iterable[asyncio.Future[Any]], until: float) -> None:
    """Wait for all of them, but not past ``until`` on the loop's clock."""
    waiting = tuple(futures)
    if waiting:
        await asyncio.wait(waiting, timeout=max(0.0, until - asyncio.get_running_loop().time()))
