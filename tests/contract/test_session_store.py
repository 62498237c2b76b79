"""What every session store promises: one suite, run on files and on the fake in memory."""

import asyncio
import errno
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest

from nanobot.bus.events import Accepted, Duplicate, InboundMessage
from nanobot.errors import DiskRefused, SessionBusy, StaleClaim
from nanobot.messages import user_text
from nanobot.session.entries import Cut, Finished, Reset, Started
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from nanobot.session.store import SessionStore
from tests.fakes.disk import FaultyDisk
from tests.fakes.store import MemoryStore, World

Open = Callable[[str], "Store"]
KEY = "telegram:42"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Store(SessionStore, Protocol):
    """A store that can be closed, as the ending process does."""

    async def close(self) -> None: ...


@pytest.fixture(params=["always", "turn", "off", "memory"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Yield a function that opens a store on the same data as often as asked: each call is another process."""
    world, opened = World(), list[Store]()

    def open_one(owner: str) -> Store:
        if request.param == "memory":
            opened.append(MemoryStore(world=world, owner=owner))
        else:
            settings = SessionSettings.model_validate({"sync": request.param})
            opened.append(JsonlStore(tmp_path, settings=settings, owner=owner))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


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


async def test_concurrent_accepts_of_one_message_make_one_of_it(open_store: Open) -> None:
    """Of any number of deliveries at once, one is accepted, the others are duplicates, and the log holds it once."""
    store = open_store("one")
    outcomes = await asyncio.gather(*(store.accept(KEY, inbound(1)) for _ in range(5)))
    claim = await store.claim(KEY, "loop")

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Accepted"] + ["Duplicate"] * 4
    assert list(claim.entries) == [inbound(1)]


async def test_a_message_is_known_after_it_was_taken_up_and_after_a_restart(open_store: Open) -> None:
    """A delivery that comes again is recognised at any time."""
    store = open_store("one")
    await store.accept(KEY, inbound(1))
    claim = await store.claim(KEY, "loop")
    await store.append(claim, started("e1", 1), sync=False)
    at_once = await store.accept(KEY, inbound(1))
    await store.close()
    later = await open_store("two").accept(KEY, inbound(1))

    assert (at_once, later) == (Duplicate(), Duplicate())


async def test_a_floor_entry_carries_the_ids_it_cuts_off(open_store: Open) -> None:
    """A delivery is recognised although its line lies before the floor, and the claim does not read so far."""
    store = open_store("one")
    await store.accept(KEY, inbound(1))
    claim = await store.claim(KEY, "loop")
    await store.append(claim, started("e1", 1), sync=False)
    reset = Reset(id="e2", floor="e2", carry={"seen": [inbound(1).id]})
    await store.append(claim, reset, sync=False)
    await store.append(claim, Finished(id="e3", turn="t2"), sync=False)
    await store.release(claim)
    outcome = await store.accept(KEY, inbound(1))
    again = await store.claim(KEY, "loop")

    assert outcome == Duplicate()
    assert list(again.entries) == [reset, Finished(id="e3", turn="t2")]


async def test_the_floor_reaches_back_to_the_entry_it_names(open_store: Open) -> None:
    """The tail begins with the floor's own entry, also when that is an inbound message."""
    store = open_store("one")
    for number in (1, 2):
        await store.accept(KEY, inbound(number))
    claim = await store.claim(KEY, "loop")
    cut = Cut(id="e1", pass_name="snip", at="e1", floor=inbound(2).id)
    await store.append(claim, cut, sync=False)
    await store.release(claim)

    assert list((await store.claim(KEY, "loop")).entries) == [inbound(2), cut]


async def test_a_message_that_comes_during_a_claim_is_pending(open_store: Open) -> None:
    """The claim's holder sees messages that arrive while it works, in order."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")
    for number in (1, 2, 3):
        await store.accept(KEY, inbound(number))
    await store.append(claim, started("e1", 1, 3), sync=False)

    assert [message.id for message in await store.arrivals(claim)] == [inbound(2).id]


async def test_entries_keep_the_order_of_the_calls(open_store: Open) -> None:
    """Entries that nobody waits for lie in the log in the order they were appended, between messages that arrive."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")
    waits = [store.append(claim, Finished(id=f"e{n}"), sync=n % 7 == 0) for n in range(200)]
    await store.accept(KEY, inbound(1))
    store.append(claim, Finished(id="e200"), sync=False)
    await asyncio.gather(*waits)
    await store.release(claim)
    entries = (await store.claim(KEY, "loop")).entries

    assert [entry.id for entry in entries] == [*(f"e{n}" for n in range(200)), inbound(1).id, "e200"]


async def test_a_cancelled_waiter_changes_nothing(open_store: Open) -> None:
    """Who stops waiting for an append does not take it back."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")

    async def wait() -> None:
        await store.append(claim, Finished(id="e1"), sync=True)

    waiter = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    await store.append(claim, Finished(id="e2"), sync=True)
    await store.release(claim)

    assert [entry.id for entry in (await store.claim(KEY, "loop")).entries] == ["e1", "e2"]


async def test_an_append_may_be_awaited_twice_or_late(open_store: Open) -> None:
    """What an append returns says the same whenever it is asked."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")
    outcome = store.append(claim, Finished(id="e1"), sync=True)
    await outcome
    await outcome
    await store.append(claim, Finished(id="e2"), sync=True)

    await outcome


async def test_a_second_claim_is_refused_and_names_the_holder(open_store: Open) -> None:
    """One process, one claim: another one, here or elsewhere, learns who holds the session."""
    here, elsewhere = open_store("gateway"), open_store("terminal")
    await here.claim(KEY, "the loop")

    with pytest.raises(SessionBusy) as same:
        await here.claim(KEY, "another")
    with pytest.raises(SessionBusy) as other:
        await elsewhere.claim(KEY, "terminal")
    with pytest.raises(SessionBusy):
        await elsewhere.accept(KEY, inbound(1))
    assert "the loop" in same.value.owner
    assert other.value.owner in str(other.value)


async def test_another_process_may_claim_other_keys_and_released_ones(open_store: Open) -> None:
    """Processes share the data, one session each at a time."""
    here, elsewhere = open_store("gateway"), open_store("terminal")
    claim = await here.claim(KEY, "gateway")
    await elsewhere.claim("cli:direct", "terminal")
    await here.append(claim, Finished(id="e1"), sync=True)
    await here.release(claim)
    taken = await elsewhere.claim(KEY, "terminal")

    assert [entry.id for entry in taken.entries] == ["e1"]
    assert taken.epoch > claim.epoch


async def test_a_released_claim_writes_nothing_more(open_store: Open) -> None:
    """What comes under an old claim is refused, also when the session is held again."""
    store = open_store("one")
    old = await store.claim(KEY, "loop")
    await store.release(old)
    await store.release(old)
    new = await store.claim(KEY, "loop")
    ignored = store.append(old, Finished(id="e9"), sync=False)  # not awaited: nobody complains

    with pytest.raises(StaleClaim):
        await store.append(old, Finished(id="e1"), sync=True)
    with pytest.raises(StaleClaim):
        await store.renew(old)
    with pytest.raises(StaleClaim):
        await store.put_blob(old, b"x")
    del ignored
    await store.renew(new)
    assert list(await store.read(KEY, before=None, limit=10)) == []


async def test_unfinished_lists_what_was_accepted_until_it_is_settled(open_store: Open) -> None:
    """After a crash the sessions with work left are known without opening every log."""
    store = open_store("one")
    await store.accept(KEY, inbound(1))
    await store.accept("cli:direct", inbound(1))
    claim = await store.claim(KEY, "loop")
    await store.release(claim, settled=True)  # too early: a message is pending
    early = set(await store.unfinished())
    claim = await store.claim(KEY, "loop")
    await store.append(claim, started("e1", 1), sync=False)
    await store.append(claim, Finished(id="e2"), sync=True)
    await store.release(claim, settled=True)
    later = set(await store.unfinished())
    await store.accept(KEY, inbound(2))

    assert early == {KEY, "cli:direct"}
    assert later == {"cli:direct"}
    assert set(await store.unfinished()) == {KEY, "cli:direct"}


async def test_a_release_settles_only_when_told_so(open_store: Open) -> None:
    """Only the caller knows whether answers are still owed."""
    store = open_store("one")
    await store.accept(KEY, inbound(1))
    claim = await store.claim(KEY, "loop")
    store.append(claim, started("e1", 1), sync=False)
    await store.release(claim)
    kept = list(await store.unfinished())
    await store.release(await store.claim(KEY, "loop"), settled=True)

    assert kept == [KEY]
    assert list(await store.unfinished()) == []


async def test_read_gives_the_newest_first_and_pages_back(open_store: Open) -> None:
    """Anyone may read a log from its end, page by page, without a claim; what is queued is there already."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")
    for n in range(10):
        store.append(claim, Finished(id=f"e{n}"), sync=False)
    first = await store.read(KEY, before=None, limit=4)
    second = await store.read(KEY, before=first[-1].id, limit=100)
    await store.append(claim, Finished(id="e10"), sync=False)
    elsewhere = await open_store("two").read(KEY, before=None, limit=1)

    assert [entry.id for entry in first] == ["e9", "e8", "e7", "e6"]
    assert [entry.id for entry in second] == ["e5", "e4", "e3", "e2", "e1", "e0"]
    assert [entry.id for entry in elsewhere] == ["e10"]
    assert list(await store.read("nobody", before=None, limit=5)) == []
    assert list(await store.read(KEY, before="e0", limit=5)) == []
    assert list(await store.read(KEY, before=None, limit=0)) == []


HARD_KEYS = [
    "", ".", "..", "/", "a/b", "a:b", "a_b", "A_B", "a b", "../../etc/passwd", "\0", "x\0y", "日本語:🦀", "-rf", "x" * 10_000,
    "x" * 9_999 + "y", "line\nbreak", "tab\t", "\udc80", "CON", "*", "a" * 41, "a" * 42,
]  # fmt: skip


async def test_a13_every_key_has_its_own_log(open_store: Open) -> None:
    """No two keys share a log, whatever characters they have, however long they are, and each is found again."""
    store = open_store("one")
    for n, key in enumerate(HARD_KEYS):
        claim = await store.claim(key, "loop")
        await store.append(claim, Finished(id=f"e{n}"), sync=False)
        await store.put_blob(claim, str(n).encode())
    await store.close()
    second = open_store("two")
    found = [[entry.id for entry in (await second.claim(key, "loop")).entries] for key in HARD_KEYS]

    assert found == [[f"e{n}"] for n in range(len(HARD_KEYS))]
    assert set(await second.keys()) == set(HARD_KEYS)


async def test_keys_lists_sessions_that_have_entries(open_store: Open) -> None:
    """A claim alone makes no session that anybody sees."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")
    before = list(await store.keys())
    store.append(claim, Finished(id="e1"), sync=False)

    assert (before, list(await store.keys())) == ([], [KEY])


async def test_a_deleted_session_is_gone_and_its_claim_over(open_store: Open) -> None:
    """Deleting removes entries, blobs and the mark; the key may be used anew."""
    store = open_store("one")
    await store.accept(KEY, inbound(1))
    claim = await store.claim(KEY, "loop")
    blob = await store.put_blob(claim, b"secret")
    await store.delete(claim)

    with pytest.raises(StaleClaim):
        await store.append(claim, Finished(id="e1"), sync=True)
    with pytest.raises(KeyError):
        await store.get_blob(KEY, blob)
    assert (list(await store.keys()), list(await store.unfinished())) == ([], [])
    again = await store.claim(KEY, "loop")
    assert list(again.entries) == []
    assert again.epoch > claim.epoch
    assert await store.accept(KEY, inbound(1)) == Accepted()


async def test_blobs_are_kept_by_content_and_private_to_their_session(open_store: Open) -> None:
    """The same bytes have one id, and no session reads another's."""
    store = open_store("one")
    claim, other = await store.claim(KEY, "loop"), await store.claim("cli:other", "loop")
    data = bytes(range(256)) * 1000
    blob = await store.put_blob(claim, data)
    again = await store.put_blob(claim, data)
    await store.put_blob(other, b"theirs")

    assert blob == again == hashlib.sha256(data).hexdigest()
    assert await store.get_blob(KEY, blob) == data
    for wrong in (hashlib.sha256(b"theirs").hexdigest(), "", "..", "../x", blob + "\n", blob.upper(), "0" * 64):
        with pytest.raises(KeyError):
            await store.get_blob(KEY, wrong)


async def test_entries_of_any_text_come_back(open_store: Open) -> None:
    """Line separators, NULs, emoji and a text of megabytes are nothing special."""
    store = open_store("one")
    text = "\0\u2028\u2029\r\n🦀" + "x" * 3_000_000
    await store.accept(KEY, inbound(1, text))
    await store.close()
    claim = await open_store("two").claim(KEY, "loop")

    assert list(claim.entries) == [inbound(1, text)]


async def test_a_hundred_sessions_at_once_keep_to_themselves(open_store: Open) -> None:
    """Sessions written at the same time never see each other's lines (K05)."""
    store = open_store("one")

    async def chat(n: int) -> list[str]:
        key = f"telegram:{n}"
        claim = await store.claim(key, "loop")
        for i in range(5):
            await store.append(claim, Finished(id=f"e{n}-{i}"), sync=i == 4)
        await store.release(claim)
        return [entry.id for entry in (await store.claim(key, "loop")).entries]

    found = await asyncio.gather(*(chat(n) for n in range(100)))

    assert found == [[f"e{n}-{i}" for i in range(5)] for n in range(100)]


async def test_after_close_nothing_is_taken(open_store: Open) -> None:
    """Closing gives all claims up; twice is harmless."""
    store = open_store("one")
    claim = await store.claim(KEY, "loop")
    store.append(claim, Finished(id="e1"), sync=False)
    await store.close()
    await store.close()

    with pytest.raises(StaleClaim):
        await store.append(claim, Finished(id="e2"), sync=False)
    assert [entry.id for entry in (await open_store("two").claim(KEY, "loop")).entries] == ["e1"]


# -- while the disk refuses ---------------------------------------------------------------------------------------------------


@dataclass
class Refusing:
    """A store on a disk that can be told to refuse, and another process that looks at what was kept."""

    store: Store
    refuse: Callable[[], None]
    heal: Callable[[], None]
    elsewhere: Callable[[], Store]

    async def kept(self) -> list[str]:
        return [entry.id for entry in reversed(await self.elsewhere().read(KEY, before=None, limit=1000))]


@pytest.fixture(params=["files", "memory"])
async def refusing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Refusing]:
    if request.param == "memory":
        world = World()
        store = MemoryStore(world=world)

        def say(why: str | None) -> None:
            world.refuses = why

        yield Refusing(
            store, lambda: say("The disk is full."), lambda: say(None), lambda: MemoryStore(world=_on_disk(world))
        )
    else:
        disk = FaultyDisk()
        settings = SessionSettings(retry_s=0.02, close_timeout_s=0.5)
        store = JsonlStore(tmp_path, settings=settings, owner="one", disk=disk)
        yield Refusing(
            store,
            lambda: disk.refuse(errno.ENOSPC, "write", "open", "mkdir", "fsync"),
            disk.heal,
            lambda: JsonlStore(tmp_path, settings=settings, owner="other"),
        )
    await store.close()


def _on_disk(world: World) -> World:
    return World(logs={key: replace(log, unsaved=[], holder=None) for key, log in world.logs.items()})


async def test_a_refused_append_says_so_and_is_written_later_in_order(refusing: Refusing) -> None:
    """While the disk refuses, entries stay in memory; when it recovers, they are written as if nothing had been."""
    store = refusing.store
    claim = await store.claim(KEY, "loop")
    await store.append(claim, Finished(id="e1"), sync=True)
    refusing.refuse()
    with pytest.raises(DiskRefused):
        await store.append(claim, Finished(id="e2"), sync=True)
    store.append(claim, Finished(id="e3"), sync=False)
    with pytest.raises(DiskRefused):
        await store.append(claim, Finished(id="e4"), sync=False)
    why, read = store.refusing(KEY), await store.read(KEY, before=None, limit=9)
    refusing.heal()
    await store.append(claim, Finished(id="e5"), sync=True)

    assert why
    assert [entry.id for entry in read] == ["e4", "e3", "e2", "e1"]
    assert await refusing.kept() == ["e1", "e2", "e3", "e4", "e5"]
    assert store.refusing(KEY) is None


async def test_a_refused_message_may_come_again(refusing: Refusing) -> None:
    """A message that was refused is no duplicate when it comes again, and lies in the log once."""
    store = refusing.store
    refusing.refuse()
    for _ in range(3):
        with pytest.raises(DiskRefused):
            await store.accept(KEY, inbound(1))
    refusing.heal()
    outcomes = [await store.accept(KEY, inbound(1)), await store.accept(KEY, inbound(1))]

    assert outcomes == [Accepted(), Duplicate()]
    assert await refusing.kept() == [inbound(1).id]


async def test_a_refused_message_that_ran_from_memory_is_a_duplicate(refusing: Refusing) -> None:
    """When a Turn took the message up although the disk refused, its coming again must not make another Turn."""
    store = refusing.store
    claim = await store.claim(KEY, "loop")
    refusing.refuse()
    with pytest.raises(DiskRefused):
        await store.accept(KEY, inbound(1))
    pending = await store.arrivals(claim)
    store.append(claim, started("e1", 1), sync=False)
    refusing.heal()

    assert list(pending) == [inbound(1)]
    assert await store.accept(KEY, inbound(1)) == Duplicate()
    assert await refusing.kept() == [inbound(1).id, "e1"]


async def test_a_release_that_the_disk_refuses_loses_nothing(refusing: Refusing) -> None:
    """A session with entries in memory is not given up; its claim stands."""
    store = refusing.store
    claim = await store.claim(KEY, "loop")
    refusing.refuse()
    store.append(claim, Finished(id="e1"), sync=False)
    with pytest.raises(DiskRefused):
        await store.release(claim)
    store.append(claim, Finished(id="e2"), sync=False)
    refusing.heal()
    await store.release(claim)

    assert await refusing.kept() == ["e1", "e2"]


async def test_a_refused_blob_says_so(refusing: Refusing) -> None:
    """A blob is durable or refused; it does not wait in memory."""
    store = refusing.store
    claim = await store.claim(KEY, "loop")
    refusing.refuse()
    with pytest.raises(DiskRefused):
        await store.put_blob(claim, b"data")
    refusing.heal()

    assert await store.get_blob(KEY, await store.put_blob(claim, b"data")) == b"data"
