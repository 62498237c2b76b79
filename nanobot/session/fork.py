"""A session's past as the beginning of another one."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from nanobot.bus.events import InboundMessage, SessionKey
from nanobot.errors import MisuseError
from nanobot.session.entries import Delivery, Entry, Finished, Moved, Started, Step, blobs_of
from nanobot.session.store import SessionStore

_PAGE = 1_000


async def fork(store: SessionStore, key: SessionKey, new_key: SessionKey, *, at: str, owner: str) -> int:
    """Copy the session up to and including the Turn ``at`` to a new key; return how many entries that were.

    Nothing is owed twice: answers that the copy holds count as delivered.

    Raises:
        MisuseError: there is no such session or Turn, or the new key is taken.
        SessionBusy: another process holds the new key.
    """
    entries = await _everything(store, key)
    kept = list(up_to(entries, at))
    if not kept:
        turns = [entry.turn for entry in entries if isinstance(entry, Finished) and entry.turn]
        there = f"its Turns are {turns[0]} to {turns[-1]}" if turns else "it has no Turns"
        raise MisuseError(f"session {key!r} has no finished Turn {at!r}; {there}")
    if new_key in await store.keys():
        raise MisuseError(f"there is a session {new_key!r} already; give another name")
    claim = await store.claim(new_key, owner)
    try:
        for blob in dict.fromkeys(blob for entry in kept for blob in blobs_of(entry)):
            with suppress(KeyError):  # too old to be kept
                await store.put_blob(claim, await store.get_blob(key, blob))
        for entry in kept[:-1]:
            store.append(claim, entry, sync=False)
        await store.append(claim, kept[-1], sync=True)
    finally:
        await store.release(claim, settled=True)
    return len(kept)


def up_to(entries: Iterable[Entry], turn: str) -> Iterator[Entry]:
    """Yield what a copy holds: everything up to the end of the Turn, but no debts; nothing if it is not there.

    Deliveries and messages that were still waiting stay with the original: it sends and answers them, and nobody else.
    """
    kept: list[Entry] = []
    taken: set[str] = set()
    for entry in entries:
        if isinstance(entry, Delivery | Moved):
            continue
        if isinstance(entry, Started | Step | Finished):
            taken.update(entry.inbound)
        kept.append(replace(entry, owed=()) if isinstance(entry, Finished) else entry)
        if isinstance(entry, Finished) and entry.turn == turn:
            yield from (one for one in kept if not isinstance(one, InboundMessage) or one.id in taken)
            return


async def _everything(store: SessionStore, key: SessionKey) -> list[Entry]:
    newest_first: list[Entry] = []
    before = None
    while page := await store.read(key, before=before, limit=_PAGE):
        newest_first += page
        before = page[-1].id
    return newest_first[::-1]
