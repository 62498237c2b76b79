"""A chat that gets a new id keeps its conversation: what waits, runs and is owed follows."""

from dataclasses import replace
from datetime import UTC, datetime

from nanobot.bus.events import InboundMessage, Route, moved_route
from nanobot.messages import user_text
from nanobot.session.codec import from_line, to_line
from nanobot.session.entries import Entry, Finished, Moved, Owed, Started
from nanobot.session.log import SessionLog

KEY = "tg:-5"
OLD, NEW = Route("tg", "-5", reply_to="7"), Route("tg", "-1005")
MOVED = Moved(id="e9", old=KEY, new="tg:-1005")
INBOUND = InboundMessage(
    id="tg:-5:7", session_key=KEY, sender="1", text="hi", at=datetime(2026, 11, 30, tzinfo=UTC), route=OLD
)


def log_of(*entries: Entry) -> SessionLog:
    log = SessionLog(KEY)
    log.extend(from_line(to_line(entry), key=KEY) for entry in entries)  # pyright: ignore[reportArgumentType]  # no header among them
    return log


def test_d22_what_waits_runs_and_is_owed_follows() -> None:
    """Each of them goes to the new id, without a reply to a message that has another number there."""
    started = Started(id="e1", turn="t1", inbound=("tg:-5:7",), message=user_text("hi"), route=OLD)
    owed = Owed(out="t1.0", route=OLD, parts=((0, 2),))
    finished = Finished(id="e2", turn="t1", content="ok", owed=(owed,))
    waiting = log_of(INBOUND, MOVED)
    running = log_of(INBOUND, started, MOVED)
    owing = log_of(INBOUND, started, finished, MOVED)

    assert [message.route for message in waiting.pending.values()] == [NEW]
    assert running.open is not None
    assert running.open.route == NEW
    assert [message.route for message in owing.owed.values()] == [NEW]
    assert {log.chat for log in (waiting, running, owing)} == {"tg:-1005"}


def test_what_belongs_to_another_chat_stays() -> None:
    """Only the chat that moved moves; its topic stays its topic."""
    elsewhere = replace(OLD, chat="-6")

    assert moved_route(elsewhere, old=MOVED.old, new=MOVED.new) == elsewhere
    assert moved_route(replace(OLD, channel="other"), old=MOVED.old, new=MOVED.new).chat == "-5"
    assert moved_route(replace(OLD, topic="3"), old=MOVED.old, new=MOVED.new) == replace(NEW, topic="3")
    assert moved_route(OLD, old="script:x:y:z", new=MOVED.new) == OLD
