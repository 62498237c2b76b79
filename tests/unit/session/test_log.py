"""The fold of a session log: transcript, inbox and outbox from one stream."""

from datetime import UTC, datetime

import pytest

from nanobot.bus.events import InboundMessage, Route
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, user_text
from nanobot.session.entries import (
    Cut,
    Delivery,
    Entry,
    Finished,
    Head,
    Intent,
    Owed,
    Reset,
    Resumed,
    Started,
    Step,
    Summary,
    Undo,
)
from nanobot.session.log import KEPT_IDS, SessionLog, number

AT = datetime(2026, 11, 30, tzinfo=UTC)
ROUTE = Route("test", "1")


def inbound(message_id: str, text: str = "hi") -> InboundMessage:
    return InboundMessage(id=message_id, session_key="k", sender="42", text=text, at=AT, route=ROUTE)


def turn(n: int, first_id: int, *, owed: bool = False) -> list[Entry]:
    """Return one Turn of three rows: question, answer with a call's result before it."""
    ids = [f"e{first_id + i}" for i in range(5)]
    call = ToolCall(f"{ids[1]}.0", "echo", {})
    return [
        inbound(f"m{n}"),
        Started(id=ids[0], turn=f"t{n}", inbound=(f"m{n}",), message=user_text(f"q{n}", entry=ids[0]), route=ROUTE),
        Step(id=ids[1], turn=f"t{n}", message=AssistantMessage("", (call,), entry=ids[1]), finish="tool_calls"),
        Step(id=ids[2], turn=f"t{n}", message=ToolMessage(call.id, "echo", "r", entry=ids[2])),
        Step(
            id=ids[3],
            turn=f"t{n}",
            message=AssistantMessage(f"a{n}", entry=ids[3]),
            finish="stop",
            usage=Usage(input_tokens=10),
        ),
        Finished(
            id=ids[4],
            turn=f"t{n}",
            answer=ids[3],
            owed=(Owed(out=f"t{n}.0", route=ROUTE, parts=((0, 1), (1, 2))),) if owed else (),
        ),
    ]


def folded(*entries: Entry) -> SessionLog:
    log = SessionLog("k")
    log.extend(entries)
    return log


def texts(log: SessionLog) -> list[str]:
    return [row.message.text for row in log.rows]


def test_a_message_is_pending_until_an_entry_names_it() -> None:
    """Started, steered and command lines take messages up; nothing else does."""
    log = folded(inbound("m1"), inbound("m2"), inbound("m3"))
    assert list(log.pending) == ["m1", "m2", "m3"]

    log.apply(Started(id="e1", turn="t1", inbound=("m1",), message=user_text("q", entry="e1")))
    log.apply(Step(id="e2", turn="t1", message=user_text("more", entry="e2"), inbound=("m2",)))
    log.apply(Finished(id="e3", inbound=("m3",), stop_reason="command", content="ok"))

    assert not log.pending
    assert log.open is not None
    assert log.open.inbound == ["m1", "m2"]


def test_a_repeated_inbound_is_not_pending_again() -> None:
    """A line that was written twice counts once, also after it was taken up."""
    log = folded(*turn(1, 1), inbound("m1"))

    assert not log.pending


def test_an_open_turn_knows_its_unanswered_calls_and_intents() -> None:
    """Resume needs what was asked, what was answered and what was begun."""
    calls = (ToolCall("e2.0", "a", {}), ToolCall("e2.1", "b", {}))
    log = folded(
        Started(id="e1", turn="t1", inbound=(), message=user_text("q", entry="e1")),
        Step(id="e2", turn="t1", message=AssistantMessage("", calls, entry="e2")),
        Intent(id="e3", turn="t1", call="e2.1", effect="opaque"),
        Step(id="e4", turn="t1", message=ToolMessage("e2.0", "a", "done", entry="e4")),
        Resumed(id="e5", turn="t1", n=2),
    )

    assert log.open is not None
    assert list(log.open.calls) == ["e2.1"]
    assert list(log.open.intents) == ["e2.1"]
    assert log.open.resumed == 2


def test_a_finished_line_closes_open_calls_and_owes_its_answer() -> None:
    """What is owed has the answer's text, part by part, until each is settled."""
    log = folded(*turn(1, 1, owed=True))
    assert log.owed["t1.0"].text == "a1"

    log.apply(Delivery(id="e6", out="t1.0", part=0, state="sent", ref="77"))
    assert log.owed["t1.0"].states == ("sent", "owed")
    assert log.owed["t1.0"].refs == ("77", None)

    log.apply(Delivery(id="e7", out="t1.0", part=1, state="refused"))
    assert not log.owed
    assert log.settled()


def test_ids_never_repeat() -> None:
    """The next id is above every id of the log, also those of other kinds of entries."""
    log = folded(*turn(1, 1), Cut(id="e40", pass_name="microcompact", at="e3"))

    assert [log.new_id(), log.new_id()] == ["e41", "e42"]
    assert log.new_turn() == "t2"


def test_undo_takes_back_a_turn_and_all_after_it() -> None:
    """Rows and unsettled answers of undone Turns are gone; the numbering goes on."""
    log = folded(*turn(1, 1), *turn(2, 10, owed=True), Undo(id="e20", target="t2"))

    assert texts(log) == ["q1", "", "r", "a1"]
    assert not log.owed
    assert log.new_turn() == "t3"


def test_an_undo_of_something_unknown_changes_nothing() -> None:
    """It may lie before the floor."""
    log = folded(*turn(1, 1), Undo(id="e20", target="t9"))

    assert len(log.rows) == 4


def test_a_summary_stands_for_what_came_before_its_keep_from() -> None:
    """The tail stays verbatim, and the prompt gets a new head."""
    log = folded(
        Head(id="e1", system="s", tools="t", model="m"),
        *turn(1, 2),
        *turn(2, 10),
        Summary(id="e20", text="sum", covers_to="e5", keep_from="e10", floor="e10"),
    )

    assert texts(log) == ["q2", "", "r", "a2"]
    assert log.summary is not None
    assert log.head is None


def test_a_reset_forgets_the_conversation_but_not_the_inbox() -> None:
    """Pending messages, settings and known ids outlive /new."""
    log = folded(
        *turn(1, 1),
        inbound("m9"),
        Finished(id="e8", stop_reason="command", content="ok", effect={"type": "settings", "model": "x/y"}),
        Reset(id="e9", floor="e9"),
    )

    assert log.rows == []
    assert list(log.pending) == ["m9"]
    assert log.settings == {"model": "x/y"}
    assert {"m1", "m9"} <= set(log.seen)


def test_the_newest_ids_are_the_ones_carried_over_every_floor() -> None:
    """A session that lives through several floors forgets its oldest messages first, never some from the middle."""
    log = SessionLog("k")
    ids = [f"m{n}" for n in range(KEPT_IDS + 100)]
    log.extend(inbound(one) for one in ids)
    log.apply(Reset(id="e1", floor="e1", carry=log.carry()))
    again = folded(Reset(id="e2", floor="e2", carry=log.carry()), inbound("new"))

    assert list(again.seen) == [*ids[-KEPT_IDS:], "new"]


@pytest.mark.parametrize("pass_name", ["trim", "microcompact"])
def test_only_a_trim_drops_rows(pass_name: str) -> None:
    """Other cuts change what the model sees of a row, not whether it is there."""
    log = folded(*turn(1, 1), *turn(2, 10), Cut(id="e20", pass_name=pass_name, at="e10"))

    assert texts(log)[0] == ("q2" if pass_name == "trim" else "q1")


def test_the_floor_keeps_everything_that_is_still_needed() -> None:
    """Pending messages, open Turns and the text of unsettled answers lie at or after the floor."""
    owed = folded(*turn(1, 1, owed=True), *turn(2, 10))
    assert owed.floor("e10") == "e4"  # the row that holds the owed text

    pending = folded(*turn(1, 1), inbound("m9"), *turn(2, 10))
    assert pending.floor("e10") == "m9"
    assert pending.floor("e10", taken=("m9",)) == "e10"

    assert folded(*turn(1, 1)).floor(None) is None


def _floored(live: SessionLog, floor: str | None, entries: list[Entry]) -> SessionLog:
    """Return what a reader finds that stops at the floor."""
    ids = [entry.id for entry in entries]
    return folded(*entries[ids.index(floor) if floor else len(entries) - 1 :])


@pytest.mark.parametrize("kind", ["summary", "trim", "reset"])
def test_a_reader_that_stops_at_the_floor_finds_what_the_writer_has(kind: str) -> None:
    """After a restart everything is as it was, whichever entry ends the reading."""
    entries = [
        *turn(1, 1, owed=True),
        Finished(id="e7", stop_reason="command", content="ok", effect={"type": "settings", "model": "x/y"}),
        Cut(id="e8", pass_name="images", at="e2"),
        inbound("m9"),
        *turn(2, 10),
    ]
    live = folded(*entries)
    floor = live.floor(None if kind == "reset" else "e10", without_summary=kind == "summary")
    carry = live.carry()
    match kind:
        case "summary":
            last: Entry = Summary(
                id="e20", text="s", covers_to="e5", keep_from="e10", floor=floor or "e20", carry=carry
            )
        case "trim":
            last = Cut(id="e20", pass_name="trim", at="e10", floor=floor, carry=carry)
        case _:
            last = Reset(id="e20", floor=floor or "e20", carry=carry)
    live.apply(last)
    entries.append(last)

    read = _floored(live, floor, entries)

    for name in ("pending", "owed", "settings", "usage", "last_turn", "summary", "head"):
        assert getattr(read, name) == getattr(live, name), name
    assert texts(read) == texts(live)
    assert set(read.seen) == set(live.seen)
    assert {n: c.at for n, c in read.cuts.items()} == {n: c.at for n, c in live.cuts.items()}
    assert read.new_id() == live.new_id()
    assert read.new_turn() == live.new_turn()


def test_foreign_ids_have_no_number() -> None:
    """Only ids of ours are ordered by their number."""
    assert [number(i) for i in ("e12", "telegram:1:2", "e", "ex", "")] == [12, -1, -1, -1, -1]


def test_any_entry_may_refer_to_something_that_is_not_there() -> None:
    """A tail begins anywhere; nothing in it can break the fold."""
    rest: list[Message] = [ToolMessage("e1.0", "echo", "r", entry="e2")]
    log = folded(
        Delivery(id="e3", out="t7.0", part=5, state="sent"),
        Intent(id="e4", turn="t7", call="x", effect="opaque"),
        Resumed(id="e5", turn="t7", n=1),
        Finished(id="e6", turn="t7", answer="e1"),
        Step(id="e2", turn="t7", message=rest[0]),
    )

    assert [row.entry for row in log.rows] == ["e2"]
