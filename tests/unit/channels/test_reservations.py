"""A draft that was reserved before its answer was owed is found again."""

from nanobot.bus.events import Route
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, TextPart, UserMessage
from nanobot.session.entries import Delivery, Entry, Finished, Owed, Started, Step
from nanobot.session.log import SessionLog

ROUTE = Route("tg", "1")


def draft(state: str, ref: str | None = None, *, entry: str = "e2") -> Delivery:
    return Delivery(id=entry, out="t1.0", part=0, state=state, ref=ref)


def folded(*entries: Entry) -> SessionLog:
    log = SessionLog("tg:1")
    log.apply(Started(id="e1", turn="t1", inbound=("m1",), route=ROUTE, message=UserMessage((TextPart("hi"),))))
    log.extend(entries)
    log.apply(Step(id="e8", turn="t1", message=AssistantMessage("yes"), usage=Usage()))
    log.apply(Finished(id="e9", turn="t1", answer="e8", owed=(Owed(out="t1.0", route=ROUTE, parts=((0, 3),)),)))
    return log


def test_the_reserved_message_belongs_to_the_answer() -> None:
    """After a restart the answer is edited into the draft that people see, not sent beside it."""
    owed = folded(draft("reserving"), draft("reserved", "77", entry="e3")).owed["t1.0"]

    assert (owed.states, owed.refs) == (("reserved",), ("77",))


def test_messages_of_a_draft_longer_than_its_answer_are_known() -> None:
    """They are left over in the chat, and have to go."""
    second = Delivery(id="e3", out="t1.0", part=1, state="reserved", ref="78")
    owed = folded(draft("reserved", "77"), second).owed["t1.0"]

    assert (owed.refs, owed.surplus) == (("77",), ("78",))


def test_a_command_in_between_changes_nothing() -> None:
    """/status during a Turn does not forget its draft."""
    command = Finished(id="e4", inbound=("m2",), stop_reason="command", content="fine")
    owed = folded(draft("reserved", "77"), command).owed["t1.0"]

    assert owed.refs == ("77",)


def test_a_reader_does_not_stop_after_the_draft() -> None:
    """The floor of an owed answer lies before its draft."""
    assert folded(draft("reserved", "77")).floor(None) == "e1"
    assert folded().floor(None) == "e8"


def test_a_draft_of_another_turn_is_not_mixed_in() -> None:
    """What belongs to no open Turn is forgotten, as before."""
    other = Delivery(id="e2", out="t7.0", part=0, state="reserved", ref="5")

    assert folded(other).owed["t1.0"].refs == (None,)
