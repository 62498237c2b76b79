"""Whatever is said, edited, repeated and taken up in whatever order, the inbox holds each message once, as it is meant now."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from nanobot.bus.events import InboundMessage
from nanobot.messages import user_text
from nanobot.session.entries import Entry, Started
from nanobot.session.log import SessionLog

KEY = "tg:1"


def message(number: int, version: int) -> InboundMessage:
    """Return a message as it was said (version 0) or edited later."""
    root = f"tg:1:{number}"
    return InboundMessage(
        id=f"{root}:{version}" if version else root,
        session_key=KEY,
        sender="1",
        text=f"{number}.{version}",
        at=datetime(2026, 11, 30, tzinfo=UTC),
        replaces=root if version else "",
    )


@dataclass
class World:
    """A log, and what a person would expect of it: ``waiting`` is number -> version, in the order of their first words."""

    log: SessionLog = field(default_factory=lambda: SessionLog(KEY))
    entries: list[Entry] = field(default_factory=list[Entry])
    said: set[str] = field(default_factory=set[str])
    waiting: dict[int, int] = field(default_factory=dict[int, int])
    taken: list[tuple[int, int, bool]] = field(default_factory=list[tuple[int, int, bool]])

    def say(self, number: int, version: int) -> None:
        """Accept a message, as a store does: a known id is a duplicate."""
        new = message(number, version)
        if new.id in self.log.seen:
            assert new.id in self.said
            return
        self._append(new)
        self.said |= {new.id, new.replaces or new.id}
        self.waiting[number] = version

    def take(self, count: int) -> None:
        """Begin a Turn with the oldest messages that wait."""
        chosen = list(self.log.pending.values())[:count]
        ids = tuple(one.id for one in chosen)
        turn = self.log.new_turn()
        self._append(Started(id=self.log.new_id(), turn=turn, inbound=ids, message=user_text("x")))
        self.log.open = None
        for one, number in zip(chosen, list(self.waiting)[:count], strict=False):
            self.taken.append((number, self.waiting.pop(number), bool(one.replaces)))

    def _append(self, entry: Entry) -> None:
        self.log.apply(entry)
        self.entries.append(entry)

    def shown(self) -> list[str]:
        return [one.text for one in self.log.pending.values()]

    def expected(self) -> list[str]:
        return [f"{number}.{version}" for number, version in self.waiting.items()]


numbers = st.integers(1, 3)
steps = st.one_of(
    st.tuples(st.just("say"), numbers, st.integers(0, 2)),
    st.tuples(st.just("take"), st.integers(0, 2), st.just(0)),
)


@given(st.lists(steps, max_size=25))
def test_d28_the_newest_version_stands_once_in_the_first_ones_place(script: list[tuple[str, int, int]]) -> None:
    """Edits in any order, repeats, and edits that come before what they edit; an edit of what was taken up says so."""
    world = World()
    for what, number, version in script:
        if what == "say":
            world.say(number, version)
        else:
            world.take(number)

        assert world.shown() == world.expected()
    marks: dict[int, list[bool]] = {}
    for number, _, is_edit in world.taken:
        marks.setdefault(number, []).append(is_edit)
    assert all(all(seen[1:]) for seen in marks.values())
    assert len({one[:2] for one in world.taken}) == len(world.taken)


@given(st.lists(steps, max_size=25))
def test_a_reader_from_the_floor_sees_the_same(script: list[tuple[str, int, int]]) -> None:
    """What is before the oldest entry still needed changes nothing of what waits, nor how it is told."""
    world = World()
    for what, number, version in script:
        world.say(number, version) if what == "say" else world.take(number)
    floor = world.log.floor(None)
    tail = SessionLog(KEY)
    ids = [entry.id for entry in world.entries]
    tail.extend(world.entries[ids.index(floor) :] if floor else [])

    assert list(tail.pending.values()) == list(world.log.pending.values())
