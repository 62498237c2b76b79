"""A session store in memory that keeps the contract of ``nanobot.session.store``.

Entries go through the codec, so that what cannot be written to a line fails here too.  Several stores over one ``World`` are
several processes on one disk: ``MemoryStore(world=world, owner="second")``.  ``world.refuses = "the disk is full"`` makes every
write fail with that sentence until it is set back to None.
"""

import hashlib
from collections.abc import Awaitable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field

from nanobot.bus.events import Accepted, Duplicate, InboundMessage, SessionKey
from nanobot.errors import DiskRefused, SessionBusy, SessionError, StaleClaim
from nanobot.session.codec import from_line, to_line
from nanobot.session.entries import BlobId, Entry, EntryId, Header, Unknown
from nanobot.session.inbox import Inbox
from nanobot.session.store import Claim


@dataclass
class Log:
    """One session: lines that are kept, and entries that the refusing disk did not take yet."""

    lines: list[bytes] = field(default_factory=list[bytes])
    unsaved: list[tuple[Entry, bytes]] = field(default_factory=list[tuple[Entry, bytes]])
    unconfirmed: set[str] = field(default_factory=set[str])
    blobs: dict[BlobId, bytes] = field(default_factory=dict[BlobId, bytes])
    holder: "MemoryStore | None" = None
    claim: Claim | None = None
    epoch: int = 0
    open: bool = False  # may hold unsettled work
    inbox: Inbox = field(default_factory=Inbox)


@dataclass
class World:
    """What several stores share: a disk."""

    logs: dict[SessionKey, Log] = field(default_factory=dict[SessionKey, Log])
    refuses: str | None = None


class _Outcome(Awaitable[None]):
    """What an append came to; asking for it is free."""

    def __init__(self, error: SessionError | None = None) -> None:
        self._error = error

    def __await__(self) -> Generator[None, None, None]:
        if self._error is not None:
            raise self._error
        return
        yield  # a generator, as an awaitable must be


class MemoryStore:
    """A ``SessionStore`` without a disk."""

    def __init__(self, *, world: World | None = None, owner: str = "test") -> None:
        self.world = world or World()
        self.owner = owner
        self.appended: list[tuple[SessionKey, Entry, bool]] = []  # in order, with the sync wish, for tests to look at

    async def accept(self, key: SessionKey, inbound: InboundMessage) -> Accepted | Duplicate:
        log = self._take(key)
        if inbound.id in log.inbox.seen and inbound.id not in log.unconfirmed:
            return Duplicate()
        log.open = True
        if inbound.id not in log.unconfirmed:
            log.unconfirmed.add(inbound.id)
            self._put(key, log, inbound, sync=True)
        if not self._save(log):
            raise DiskRefused(self.world.refuses or "")
        log.unconfirmed.discard(inbound.id)
        return Accepted() if inbound.overheard or inbound.id in log.inbox.pending else Duplicate()

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        log = self._take(key)
        if log.claim is not None:
            raise SessionBusy(f"session {key!r} is held by {log.claim.owner}", owner=log.claim.owner)
        log.epoch += 1
        self._save(log)
        entries = [*_tail(_entries(log, key))]
        log.inbox = Inbox(entries)
        log.claim = Claim(key=key, owner=owner, epoch=log.epoch, entries=entries)
        return log.claim

    def append(self, claim: Claim, entry: Entry, *, sync: bool) -> Awaitable[None]:
        log = self._held(claim)
        if log is None:
            return _Outcome(_stale(claim))
        self._put(claim.key, log, entry, sync=sync)
        return _Outcome(None if self._save(log) else DiskRefused(self.world.refuses or ""))

    async def arrivals(self, claim: Claim) -> Sequence[InboundMessage]:
        return self._must_hold(claim).inbox.arrivals()

    async def renew(self, claim: Claim) -> None:
        self._must_hold(claim)

    async def release(self, claim: Claim, *, settled: bool = False) -> None:
        log = self._held(claim)
        if log is None:
            return
        if not self._save(log):
            raise DiskRefused(self.world.refuses or "")
        if settled and not log.inbox.pending:
            log.open = False
        log.claim = log.holder = None

    def refusing(self, key: SessionKey) -> str | None:
        log = self.world.logs.get(key)
        return self.world.refuses if log and log.unsaved else None

    async def read(self, key: SessionKey, *, before: EntryId | None, limit: int) -> Sequence[Entry]:
        log = self.world.logs.get(key)
        entries = list(reversed([*_entries(log, key)])) if log else []
        if before is not None:
            at = next((i for i, entry in enumerate(entries) if entry.id == before), len(entries))
            entries = entries[at + 1 :]
        return entries[: max(limit, 0)]

    async def unfinished(self) -> Sequence[SessionKey]:
        return [key for key, log in self.world.logs.items() if log.open]

    async def keys(self) -> Sequence[SessionKey]:
        return [key for key, log in self.world.logs.items() if log.lines or log.unsaved]

    async def delete(self, claim: Claim) -> None:
        self._must_hold(claim)
        epoch = self.world.logs[claim.key].epoch
        self.world.logs[claim.key] = Log(epoch=epoch)

    async def put_blob(self, claim: Claim, data: bytes) -> BlobId:
        log = self._must_hold(claim)
        if self.world.refuses is not None:
            raise DiskRefused(self.world.refuses)
        blob = hashlib.sha256(data).hexdigest()
        log.blobs[blob] = data
        return blob

    async def get_blob(self, key: SessionKey, blob: BlobId) -> bytes:
        log = self.world.logs.get(key)
        if log is None or blob not in log.blobs:
            raise KeyError(blob)
        return log.blobs[blob]

    async def prune_blobs(self, claim: Claim, *, keep: Collection[BlobId]) -> None:
        self._must_hold(claim)  # memory has no limits of age and size

    async def close(self) -> None:
        """Give up all claims, as the end of the process would."""
        for log in self.world.logs.values():
            if log.holder is self:
                self._save(log)
                log.holder = log.claim = None
                log.unsaved.clear()

    def _take(self, key: SessionKey) -> Log:
        log = self.world.logs.setdefault(key, Log())
        if log.holder is None:
            log.holder = self
            log.inbox = Inbox(_tail(_entries(log, key)))
        if log.holder is not self:
            raise SessionBusy(f"session {key!r} is held by {log.holder.owner}", owner=log.holder.owner)
        return log

    def _held(self, claim: Claim) -> Log | None:
        log = self.world.logs.get(claim.key)
        return log if log is not None and log.claim is claim and log.holder is self else None

    def _must_hold(self, claim: Claim) -> Log:
        log = self._held(claim)
        if log is None:
            raise _stale(claim)
        return log

    def _put(self, key: SessionKey, log: Log, entry: Entry, *, sync: bool) -> None:
        log.unsaved.append((entry, to_line(entry)))
        log.inbox.note(entry)
        self.appended.append((key, entry, sync))

    def _save(self, log: Log) -> bool:
        if self.world.refuses is not None and log.unsaved:
            return False
        log.lines.extend(line for _, line in log.unsaved)
        log.unsaved.clear()
        return True


def _stale(claim: Claim) -> StaleClaim:
    return StaleClaim(f"the claim of {claim.owner!r} on session {claim.key!r} has ended")


def _entries(log: Log, key: SessionKey) -> Iterable[Entry]:
    seen: set[tuple[bool, str]] = set()
    for line in [*log.lines, *(line for _, line in log.unsaved)]:
        entry = from_line(line, key=key)
        assert not isinstance(entry, Header)
        mark = (isinstance(entry, InboundMessage), entry.id)
        if mark not in seen or not entry.id:
            yield entry
        seen.add(mark)


def _tail(entries: Iterable[Entry]) -> Sequence[Entry]:
    every = list(entries)
    floors = [found for entry in every if (found := _floor(entry))]
    start = next((i for i, entry in enumerate(every) if floors and entry.id == floors[-1]), 0)
    return every[start:]


def _floor(entry: Entry) -> str | None:
    found = entry.raw.get("floor") if isinstance(entry, Unknown) else getattr(entry, "floor", None)
    return found if isinstance(found, str) else None
