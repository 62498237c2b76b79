"""Which pending messages are taken up next, and which join a Turn."""

from datetime import UTC, datetime, timedelta
from typing import Any

from nanobot.agent.settings import AgentSettings
from nanobot.agent.taking import can_join, joined, next_message
from nanobot.bus.events import InboundMessage, Route

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
CHAT = Route("test", "1")
NOW_S = 100.0  # after AT


def message(
    name: str, text: str = "hi", *, after_s: float = 0, route: Route | None = CHAT, **more: Any
) -> InboundMessage:
    """Return a message of a chat."""
    return InboundMessage(
        id=name, session_key="test:1", sender="42", text=text, route=route, at=AT + timedelta(seconds=after_s), **more
    )


def pending(*messages: InboundMessage) -> dict[str, InboundMessage]:
    """Return them as the log holds them."""
    return {one.id: one for one in messages}


def taken(first: InboundMessage, *others: InboundMessage, **settings: Any) -> list[str]:
    """Return the ids of the messages that begin a Turn together."""
    now = AT + timedelta(seconds=NOW_S)
    return [one.id for one in joined(first, pending(first, *others), AgentSettings(**settings), now=now)]


def test_the_oldest_is_next_unless_the_conversation_is_ended() -> None:
    """/new voids what was sent before it in the chat, but no direct message: somebody waits for that one."""
    old, direct, new, later = message("1"), message("2", route=None), message("3", "/new"), message("4")

    assert next_message({}) is None
    assert next_message(pending(old, later)) == ((), old)
    assert next_message(pending(old, direct, new, later)) == (("1",), new)
    assert next_message(pending(direct, new)) == ((), new)


def test_messages_that_steer_may_as_well_begin_the_turn_together() -> None:
    """In the default mode all that wait join; else only those sent right after one another."""
    first, soon, late = message("1"), message("2", after_s=0.5), message("3", after_s=60)

    assert taken(first, soon, late) == ["1", "2", "3"]
    assert taken(first, soon, late, busy="queue") == ["1", "2"]
    assert taken(first, soon, late, busy="queue", join_within_s=0) == ["1"]
    chain = [message(str(n), after_s=n * 0.9) for n in range(5)]
    assert taken(*chain, busy="queue") == ["0", "1", "2", "3", "4"]


def test_what_waited_for_long_is_answered_together() -> None:
    """After downtime old messages begin one Turn in every mode; the first fresh one ends that."""
    old, older, fresh = message("1"), message("2", after_s=30), message("3", after_s=70)

    for busy in ("queue", "replace"):
        assert taken(old, older, fresh, busy=busy, join_within_s=0, join_waited_s=50) == ["1", "2"]
        assert taken(old, older, fresh, busy=busy, join_within_s=0, join_waited_s=5) == ["1", "2", "3"]
        assert taken(old, older, fresh, busy=busy, join_within_s=0, join_waited_s=500) == ["1"]


def test_nothing_joins_past_what_cannot() -> None:
    """A command, another chat, another role or a direct message ends the joining, also for what comes after it."""
    for barrier in (
        message("b", "/model x"),
        message("b", route=Route("test", "2")),
        message("b", route=Route("test", "1", topic="7")),
        message("b", role="user"),
        message("b", route=None),
    ):
        assert taken(message("1"), message("2"), barrier, message("3")) == ["1", "2"]


def test_a_reply_to_another_message_still_belongs_to_the_chat() -> None:
    """What a message answers is no other chat."""
    assert can_join(message("2", route=Route("test", "1", reply_to="9")), CHAT, "owner")


def test_direct_messages_are_turns_of_their_own() -> None:
    """Nobody else's message joins one, and it joins nobody's."""
    assert taken(message("1", route=None), message("2", route=None), message("3")) == ["1"]
    assert not can_join(message("2", route=None), CHAT, "owner")
    assert not can_join(message("2"), None, "owner")
