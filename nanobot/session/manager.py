"""Sessions in use: loaded once, kept while they are needed, given back when they are idle.

A ``Session`` is one conversation in memory: the fold of its log, the lock that keeps its Turns apart, and ``append``, the only
way a fact gets in.  ``SessionManager`` hands them out: the same object to everybody who asks while anybody uses it, so its lock is
one lock; idle ones leave in the order of their last use, at once above ``capacity`` and after ``idle_s`` otherwise, and their claim
with them.  A session whose writes the disk refuses is kept, whatever its age: memory is all there is of it.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Self

from nanobot.bus.events import Acceptance, Accepted, Duplicate, InboundMessage, SessionKey, Unkept
from nanobot.errors import DiskRefused, SessionError
from nanobot.messages import Message, ToolMessage, UserMessage, user_text
from nanobot.session.adrift import Adrift
from nanobot.session.entries import BlobId, Entry, EntryId
from nanobot.session.log import SessionLog
from nanobot.session.reach import Reach
from nanobot.session.store import Claim, SessionStore

log = logging.getLogger(__name__)

READ_TRIES = 3  # of a log that cannot be read, before it is done without
READ_AGAIN_S = 0.1


class Session:
    """One conversation.  Use it inside ``SessionManager.open``; ``restore`` it before anything else.

    ``lock`` keeps Turns apart.  Appending does not need it.
    """

    def __init__(self, key: SessionKey, store: SessionStore, owner: str) -> None:
        self.key = key
        self.lock = asyncio.Lock()
        self.log = SessionLog(key)
        self.reports: list[str] = []  # what had to be repaired, not told to anybody yet
        self._kept_in = store
        self._store = store
        self._owner = owner
        self._claim: Claim | None = None
        self._shown_summary: UserMessage | None = None
        self._loading = asyncio.Lock()
        self._accepting = asyncio.Lock()

    async def restore(self, *, or_adrift: bool = False) -> Self:
        """Claim the log and read its live tail, once.

        With ``or_adrift``, a log that the disk does not let us read is done without, in memory, until it can be read again and
        nothing is left to do here.

        Raises:
            SessionBusy: another process holds the session.
            SessionCorrupt: the log cannot be used.
            DiskRefused: the log cannot be read.
        """
        if self._is_to_load:
            async with self._loading:
                if self._is_to_load:
                    await self._load(or_adrift=or_adrift)
        return self

    @property
    def _is_to_load(self) -> bool:
        return self._claim is None or (self.is_adrift and self.log.settled() and not self.lock.locked())

    async def _load(self, *, or_adrift: bool) -> None:
        try:
            claim = await self._claimed(tries=READ_TRIES if or_adrift and not self.is_adrift else 1)
        except DiskRefused as error:
            if self.is_adrift:
                return
            if not or_adrift:
                raise
            log.error("session %r is done without: %s", self.key, error)
            self._store = Adrift(str(error))
            claim = await self._store.claim(self.key, self._owner)
        else:
            if self.is_adrift:
                self._store, self.log = self._kept_in, SessionLog(self.key)
        self.log.extend(claim.entries)
        self.reports += claim.reports
        self._claim = claim

    async def _claimed(self, *, tries: int) -> Claim:
        """Claim the log; a fault of a moment is waited out."""
        for tried in range(1, tries):
            try:
                return await self._kept_in.claim(self.key, self._owner)
            except DiskRefused:
                await asyncio.sleep(READ_AGAIN_S * tried)  # a disk that stutters is often back by then
        return await self._kept_in.claim(self.key, self._owner)

    @property
    def is_adrift(self) -> bool:
        """Whether the log is done without, because it cannot be read."""
        return self._store is not self._kept_in

    @property
    def restored(self) -> bool:
        """Whether ``restore`` was done."""
        return self._claim is not None

    @property
    def claim(self) -> Claim:
        """The right to write; there is one after ``restore``."""
        if self._claim is None:
            raise RuntimeError(f"session {self.key!r} was not restored")
        return self._claim

    @property
    def messages(self) -> list[Message]:
        """The replayable transcript, oldest first: the summary of what came before it, if any, then every row."""
        summary = self._summary()
        return [summary, *self.log.messages] if summary else self.log.messages

    def _summary(self) -> UserMessage | None:
        """Return the summary as a message: the same object as long as it is the same summary."""
        summary = self.log.summary
        if summary is None:
            return None
        if self._shown_summary is None or self._shown_summary.entry != summary.id:
            self._shown_summary = summary_message(summary.text, summary.id)
        return self._shown_summary

    def get_history(self) -> list[Message]:
        """Return the transcript without the open Turn's messages."""
        turn = self.log.open.turn if self.log.open else None
        count = len(self.log.turn_rows(turn)) if turn else 0
        messages = self.messages
        return messages[: len(messages) - count]

    def append(self, entry: Entry, *, sync: bool = False) -> Awaitable[None]:
        """Fold the entry in and queue its line, both before the first await; awaiting it means written (or synced).

        Raises (when awaited):
            DiskRefused: it is kept in memory and written when the disk takes it again.
            StaleClaim: somebody else took the session over.
        """
        self.log.apply(entry)
        return self._store.append(self.claim, entry, sync=sync)

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Make an inbound message durable and pending; on a refusing disk, pending in memory."""
        await self.restore()
        async with self._accepting:  # so that memory has the order of the file
            if message.id in self.log.seen:
                return Duplicate()
            try:
                accepted = await self._store.accept(self.key, message)
            except DiskRefused as error:
                self.log.apply(message)
                return Unkept(str(error))
            if isinstance(accepted, Accepted):
                self.log.apply(message)
            return accepted

    async def put_blob(self, data: bytes) -> BlobId:
        """Keep bytes beside the session; durable before any later entry can name them."""
        return await self._store.put_blob(self.claim, data)

    async def get_blob(self, blob: BlobId) -> bytes:
        """Return a blob of this session; ``KeyError`` if there is none."""
        return await self._store.get_blob(self.key, blob)

    async def read(self, *, before: EntryId | None = None, limit: int = 1_000) -> Sequence[Entry]:
        """Return older entries from the log, newest first."""
        return await self._store.read(self.key, before=before, limit=limit)

    async def full_result(self, entry: EntryId) -> str:
        """Return the full text of an earlier tool result by its entry id; ``KeyError`` if this session has none."""
        text, _ = await self.result(entry)
        return text

    async def result(self, entry: EntryId) -> tuple[str, str]:
        """Return an earlier tool result's full text and its origin; one that was not cut is as the model got it, framed."""
        row = next((row for row in self.log.rows if row.entry == entry), None)
        message, blob = (row.message, row.blob) if row else await self._read_result(entry)
        if not isinstance(message, ToolMessage):
            raise KeyError(entry)
        if blob is None:
            return message.text, message.origin
        try:
            return (await self.get_blob(blob)).decode("utf-8", "replace"), message.origin
        except KeyError:
            note = "[The full text is not kept any more; this is what was shown of it.]"
            return f"{note}\n{message.text}", message.origin

    async def _read_result(self, entry: EntryId) -> tuple[Message | None, BlobId | None]:
        """Look for a row that the live tail no longer holds, as far back as this conversation goes."""
        before: EntryId | None = None
        reach = Reach(entry)
        while not reach.over and (page := await self.read(before=before, limit=500)):
            for older in page:
                if (found := reach.look(older)) is not None:
                    return found.message, found.blob
                if reach.over:
                    break
            before = page[-1].id
        return None, None

    @property
    def refusing(self) -> str | None:
        """Why the disk refuses this session's writes now, or None."""
        return self._store.refusing(self.key)

    async def close(self) -> None:
        """Give the claim back; what the disk still refuses is lost then, and said so in the operator's log."""
        if self._claim is None:
            return
        claim, self._claim = self._claim, None
        head = self.log.head
        try:
            await self._store.prune_blobs(claim, keep={head.system, head.tools} if head else ())
            await self._store.release(claim, settled=self.log.settled())
        except SessionError as error:
            log.error("session %r could not be given back in order: %s", self.key, error)


def summary_message(text: str, entry: EntryId) -> UserMessage:
    """Return a summary as the message that the model sees in the place of what it summarizes."""
    framed = f"[Summary of the conversation so far; the messages it covers were left out]\n{text}"
    return user_text(framed, origin="summary", entry=entry)


class SessionManager:
    """Hands out sessions over one store.

    Args:
        store: where the logs are.
        owner: who claims them, in words that tell a person which process this is.
        capacity: idle sessions kept loaded.
        idle_s: how long an idle session keeps its claim; ``sweep`` gives up those that are due.
    """

    def __init__(self, store: SessionStore, *, owner: str, capacity: int = 64, idle_s: float = 60.0) -> None:
        self.store = store
        self._owner = owner
        self._capacity = capacity
        self._idle_s = idle_s
        self._sessions: dict[SessionKey, Session] = {}
        self._users: dict[SessionKey, int] = {}
        self._idle: OrderedDict[SessionKey, float] = OrderedDict()
        self._closing: dict[SessionKey, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def open(self, key: SessionKey) -> AsyncGenerator[Session]:
        """Pin the session of this key for the block.  It is not restored yet, unless somebody did."""
        while key in self._closing:  # its claim is on the way back to the store
            await asyncio.wait([self._closing[key]])
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(key, self.store, self._owner)
        self._users[key] = self._users.get(key, 0) + 1
        self._idle.pop(key, None)
        try:
            yield session
        finally:
            self._unpin(key)

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Make a message durable and pending in its session.

        Raises:
            SessionBusy: another process holds the session.
            SessionCorrupt: its log cannot be used.
        """
        async with self.open(message.session_key) as session:
            return await session.accept(message)

    def loaded(self, key: SessionKey) -> Session | None:
        """Return the session if it is in memory and restored; without pinning it."""
        session = self._sessions.get(key)
        return session if session is not None and session.restored else None

    @property
    def in_memory(self) -> list[Session]:
        """The sessions that are loaded and restored; not pinned."""
        return [session for session in self._sessions.values() if session.restored]

    def with_pending(self) -> list[SessionKey]:
        """Return the keys of loaded sessions that have pending messages."""
        return [key for key, session in self._sessions.items() if session.log.pending]

    def sweep(self) -> None:
        """Give up the sessions that were idle for too long.  Call it now and then."""
        due = monotonic() - self._idle_s
        for key in [key for key, since in self._idle.items() if since <= due and not self.store.refusing(key)]:
            self._let_go(key)

    async def close(self) -> None:
        """Give up every session; those still in use too."""
        for key in list(self._sessions):
            self._let_go(key)
        while self._closing:
            await asyncio.wait(list(self._closing.values()))

    def _unpin(self, key: SessionKey) -> None:
        self._users[key] -= 1
        if self._users[key]:
            return
        del self._users[key]
        if key not in self._sessions:
            return
        self._idle[key] = monotonic()
        surplus = len(self._idle) - self._capacity
        if surplus <= 0:
            return
        for idle in [idle for idle in self._idle if not self.store.refusing(idle)][:surplus]:
            self._let_go(idle)

    def _let_go(self, key: SessionKey) -> None:
        self._idle.pop(key, None)
        session = self._sessions.pop(key)
        task = asyncio.create_task(session.close(), name=f"release {key}")
        self._closing[key] = task
        task.add_done_callback(lambda _: self._closing.pop(key, None))
