"""Session logs as files of JSON lines.  A first form: one process, written inline."""

import hashlib
import json
import os
import re
from collections.abc import Awaitable, Generator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from nanobot.bus.events import Accepted, Duplicate, InboundMessage, SessionKey
from nanobot.errors import SessionBusy, SessionError, StaleClaim
from nanobot.session.codec import BadLine, from_line, to_line
from nanobot.session.entries import BlobId, Entry, EntryId, Header
from nanobot.session.files import Layout
from nanobot.session.inbox import Inbox
from nanobot.session.settings import SessionSettings
from nanobot.session.store import Claim


class _Outcome(Awaitable[None]):
    def __init__(self, error: SessionError | None = None) -> None:
        self._error = error

    def __await__(self) -> Generator[None, None, None]:
        if self._error is not None:
            raise self._error
        return
        yield


class JsonlStore:
    """A ``SessionStore`` in ``data_dir``."""

    def __init__(self, data_dir: Path, *, settings: SessionSettings, owner: str) -> None:
        self._at = Layout(data_dir)
        self._settings = settings
        self._owner = owner
        self._inboxes: dict[SessionKey, Inbox] = {}
        self._claims: dict[SessionKey, Claim] = {}
        self._epochs: dict[SessionKey, int] = {}

    async def accept(self, key: SessionKey, inbound: InboundMessage) -> Accepted | Duplicate:
        inbox = self._inbox(key)
        if inbound.id in inbox.seen:
            return Duplicate()
        self._at.markers.mkdir(parents=True, exist_ok=True)
        self._at.marker(key).write_text(json.dumps(key))
        self._write(key, inbound)
        return Accepted()

    async def claim(self, key: SessionKey, owner: str) -> Claim:
        if key in self._claims:
            raise SessionBusy(f"session {key!r} is held by {owner}", owner=owner)
        self._epochs[key] = self._epochs.get(key, 0) + 1
        entries = list(self._entries(key))
        self._inboxes[key] = Inbox(entries)
        self._claims[key] = Claim(key=key, owner=owner, epoch=self._epochs[key], entries=entries)
        return self._claims[key]

    def append(self, claim: Claim, entry: Entry, *, sync: bool) -> Awaitable[None]:
        if self._claims.get(claim.key) is not claim:
            return _Outcome(StaleClaim(f"the claim on {claim.key!r} has ended"))
        self._write(claim.key, entry)
        return _Outcome()

    async def arrivals(self, claim: Claim) -> Sequence[InboundMessage]:
        return self._inbox(claim.key).arrivals()

    async def renew(self, claim: Claim) -> None:
        if self._claims.get(claim.key) is not claim:
            raise StaleClaim(f"the claim on {claim.key!r} has ended")

    async def release(self, claim: Claim, *, settled: bool = False) -> None:
        if self._claims.get(claim.key) is claim:
            if settled:
                await self.settle(claim)
            del self._claims[claim.key]

    async def settle(self, claim: Claim) -> None:
        if not self._inbox(claim.key).pending:
            self._at.marker(claim.key).unlink(missing_ok=True)

    def refusing(self, key: SessionKey) -> str | None:
        return None

    async def read(self, key: SessionKey, *, before: EntryId | None, limit: int) -> Sequence[Entry]:
        entries = list(self._entries(key))[::-1]
        if before is not None:
            entries = entries[next((i for i, e in enumerate(entries) if e.id == before), len(entries)) + 1 :]
        return entries[:limit]

    async def unfinished(self) -> Sequence[SessionKey]:
        return [json.loads(path.read_text()) for path in self._at.markers.glob("*")]

    async def keys(self) -> Sequence[SessionKey]:
        heads = (path.open("rb") for path in self._at.sessions.glob("*.jsonl"))
        return [json.loads(head.readline())["key"] for head in heads]

    async def delete(self, claim: Claim) -> None:
        self._at.log(claim.key).unlink(missing_ok=True)
        self._inboxes.pop(claim.key, None)
        await self.release(claim)

    async def put_blob(self, claim: Claim, data: bytes) -> BlobId:
        blob = hashlib.sha256(data).hexdigest()
        folder = self._at.blob_dir(claim.key)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / blob).write_bytes(data)
        return blob

    async def get_blob(self, key: SessionKey, blob: BlobId) -> bytes:
        path = self._at.blob_dir(key) / blob
        if not re.fullmatch("[0-9a-f]{64}", blob) or not path.exists():
            raise KeyError(blob)
        return path.read_bytes()

    async def close(self) -> None:
        self._claims.clear()

    def _inbox(self, key: SessionKey) -> Inbox:
        if key not in self._inboxes:
            self._inboxes[key] = Inbox(self._entries(key))
        return self._inboxes[key]

    def _write(self, key: SessionKey, entry: Entry) -> None:
        path = self._at.log(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = b"" if path.exists() else to_line(Header(key=key, created_at=datetime.now(UTC)))
        self._inbox(key).note(entry)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, head + to_line(entry))
        finally:
            os.close(fd)

    def _entries(self, key: SessionKey) -> Iterable[Entry]:
        path = self._at.log(key)
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                entry = from_line(line, key=key)
            except BadLine:
                continue
            if not isinstance(entry, Header):
                yield entry
