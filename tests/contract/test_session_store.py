"""What every session store promises: one suite, run on files and on the fake in memory."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.bus.events import Accepted, Duplicate, InboundMessage
from nanobot.messages import user_text
from nanobot.session.entries import Finished, Started
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from nanobot.session.store import SessionStore
from tests.fakes.store import MemoryStore, World

Open = Callable[[str], SessionStore]
KEY = "telegram:42"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(params=["jsonl", "memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Return a function that opens a store on the same data as often as asked: each call is another process."""
    world = World()

    def open_one(owner: str) -> SessionStore:
        if request.param == "memory":
            return MemoryStore(world=world, owner=owner)
        return JsonlStore(tmp_path, settings=SessionSettings(), owner=owner)

    return open_one


def inbound(number: int, text: str = "hi") -> InboundMessage:
    return InboundMessage(id=f"{KEY}:{number}", session_key=KEY, sender="42", text=text, at=AT)


def started(entry: str, *taken: int, turn: str = "t1") -> Started:
    return Started(
        id=entry, turn=turn, inbound=tuple(f"{KEY}:{n}" for n in taken), message=user_text("hi", entry=entry)
    )


async def test_an_accepted_message_is_pending_until_a_turn_names_it(open_store: Open) -> None:
    """A message waits in the log until something takes it up."""
    store = open_store("one")
    first = await store.accept(KEY, inbound(1))
    again = await store.accept(KEY, inbound(1))
    claim = await store.claim(KEY, "loop")
    before = await store.arrivals(claim)
    await store.append(claim, started("e1", 1), sync=False)

    assert (first, again) == (Accepted(), Duplicate())
    assert list(before) == [inbound(1)]
    assert list(await store.arrivals(claim)) == []


async def test_a_claim_reads_what_was_written_before(open_store: Open) -> None:
    """After a release, the next claim gets all entries back, equal and in order."""
    store = open_store("one")
    await store.accept(KEY, inbound(1))
    claim = await store.claim(KEY, "loop")
    entries = [inbound(1), started("e1", 1), Finished(id="e2", turn="t1", answer="e1")]
    for entry in entries[1:]:
        await store.append(claim, entry, sync=True)
    await store.release(claim)
    second = await store.claim(KEY, "loop")

    assert list(second.entries) == entries
    assert second.epoch > claim.epoch
