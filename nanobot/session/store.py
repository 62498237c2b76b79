"""Where session logs live: the contract.

Files are one implementation (``nanobot.session.jsonl``); a database for several machines would be another, and must pass the same
contract suite.  No byte offsets, paths or predicted ids appear here.
"""

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nanobot.bus.events import Accepted, Duplicate, InboundMessage, SessionKey
from nanobot.session.entries import BlobId, Entry, EntryId


@dataclass(eq=False)
class Claim:
    """The right to write one session's log, held by one process at a time.

    ``entries`` is the log's live tail at the time of the claim, oldest first: from the newest floor (or the beginning) to the end.
    ``epoch`` grows with each claim of the session; a write under an older epoch is refused.  ``reports`` are plain
    sentences on what had to be repaired or set aside while reading.
    """

    key: SessionKey
    owner: str
    epoch: int
    entries: Sequence[Entry] = ()
    reports: list[str] = field(default_factory=list[str])


class SessionStore(Protocol):
    """Durable, append-only logs, one for each session key."""

    async def accept(self, key: SessionKey, inbound: InboundMessage) -> Accepted | Duplicate:
        """Append an inbound message; on return it is durable.  Unique by id among the ids the log still carries.

        Raises:
            SessionBusy: another process holds the session.
            DiskRefused: it could not be made durable.
        """
        ...

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        """Take the session for this process, create its log if there is none, and read the live tail.

        Raises:
            SessionBusy: another process holds it; names the holder.
            SessionCorrupt: the log belongs to another key or cannot be opened at all.
        """
        ...

    def append(self, claim: Claim, entry: Entry, *, sync: bool) -> Awaitable[None]:
        """Queue one entry, before the first await; all or nothing, in the order of the calls.

        Awaiting the result means "written", or "synced" where ``sync`` is set and the sync policy keeps that barrier.  Not awaiting
        it is fine.  Cancelling the waiter neither cancels nor reorders the write.

        Raises (when awaited):
            StaleClaim: the claim was released or superseded.
            DiskRefused: not written yet; it stays in memory and is written, in order, when the disk recovers.
        """
        ...

    async def arrivals(self, claim: Claim) -> Sequence[InboundMessage]:
        """Return the pending inbound messages, in order: accepted and named by no later entry."""
        ...

    async def renew(self, claim: Claim) -> None:
        """Keep the claim alive, where claims expire.

        Raises:
            StaleClaim: somebody else took it over.
        """
        ...

    async def release(self, claim: Claim, *, settled: bool = False) -> None:
        """Write what is queued, then give the session up.  Releasing twice is harmless.

        ``settled`` says that nothing is left to do: no open Turn, no undelivered answer.  Only the caller can know that; it takes
        the session off ``unfinished()``, unless a message is pending.  The next ``accept`` puts it back.

        Raises:
            DiskRefused: what is queued could not be written; the claim stands, so that nothing is lost.
        """
        ...

    def refusing(self, key: SessionKey) -> str | None:
        """Return why the disk does not take this session's entries now, as one plain sentence; None when it does."""
        ...

    async def read(self, key: SessionKey, *, before: EntryId | None, limit: int) -> Sequence[Entry]:
        """Return up to ``limit`` entries older than ``before`` (None: from the end), newest first.  Needs no claim."""
        ...

    async def unfinished(self) -> Sequence[SessionKey]:
        """Return the sessions that may hold unsettled work, without opening every log."""
        ...

    async def keys(self) -> Sequence[SessionKey]:
        """Return the keys of all sessions."""
        ...

    async def delete(self, claim: Claim) -> None:
        """Remove the session's log and blobs.  The claim ends."""
        ...

    async def put_blob(self, claim: Claim, data: bytes) -> BlobId:
        """Keep bytes beside the session; durable before any later entry can name them.  Same bytes, same id."""
        ...

    async def get_blob(self, key: SessionKey, blob: BlobId) -> bytes:
        """Return a blob of this session.

        Raises:
            KeyError: this session has no such blob.
        """
        ...

    async def prune_blobs(self, claim: Claim, *, keep: Collection[BlobId]) -> None:
        """Remove blobs beyond the store's limits of age and size, but for those in ``keep``."""
        ...
