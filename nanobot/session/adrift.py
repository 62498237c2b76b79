"""What stands in for the store while a session's log cannot even be read.

Everything is taken in memory and refused to be kept, as on a disk that refuses writes; so whoever uses the session says that it
cannot be kept, and nothing else has to know.  What was said before is not there, and what is said now goes when the log is back.
"""

from collections.abc import Awaitable, Collection, Generator, Sequence

from nanobot.bus.events import Accepted, Duplicate, InboundMessage, SessionKey
from nanobot.errors import DiskRefused
from nanobot.session.entries import BlobId, Entry, EntryId
from nanobot.session.store import Claim


class _Refused(Awaitable[None]):
    """Says why when it is awaited, and nothing when it is not."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __await__(self) -> Generator[object, None, None]:
        raise DiskRefused(self._why)
        yield  # a generator, as awaiting wants one


class Adrift:
    """A ``SessionStore`` of one session that keeps nothing."""

    def __init__(self, why: str) -> None:
        self._why = why

    async def accept(self, key: SessionKey, inbound: InboundMessage) -> Accepted | Duplicate:
        """Refuse: the message is run from memory."""
        raise DiskRefused(self._why)

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        """Return a claim on an empty log."""
        return Claim(key=key, owner=owner, epoch=0, entries=[], reports=[])

    def append(self, claim: Claim, entry: Entry, *, sync: bool) -> Awaitable[None]:
        """Refuse, once it is awaited."""
        return _Refused(self._why)

    async def arrivals(self, claim: Claim) -> Sequence[InboundMessage]:
        """Return nothing: the session's own fold knows."""
        return ()

    async def renew(self, claim: Claim) -> None:
        """Do nothing: nobody else can have it."""

    async def release(self, claim: Claim, *, settled: bool = False) -> None:
        """Do nothing: there is nothing to write."""

    def refusing(self, key: SessionKey) -> str | None:
        """Return why nothing is kept."""
        return self._why

    async def read(self, key: SessionKey, *, before: EntryId | None, limit: int) -> Sequence[Entry]:
        """Return nothing: older entries cannot be read."""
        return ()

    async def unfinished(self) -> Sequence[SessionKey]:
        """Return nothing."""
        return ()

    async def keys(self) -> Sequence[SessionKey]:
        """Return nothing."""
        return ()

    async def delete(self, claim: Claim) -> None:
        """Refuse."""
        raise DiskRefused(self._why)

    async def put_blob(self, claim: Claim, data: bytes) -> BlobId:
        """Refuse."""
        raise DiskRefused(self._why)

    async def get_blob(self, key: SessionKey, blob: BlobId) -> bytes:
        """Raise ``KeyError``: there is none."""
        raise KeyError(blob)

    async def prune_blobs(self, claim: Claim, *, keep: Collection[BlobId]) -> None:
        """Do nothing."""
