"""What counts as dead, what as trouble, and what is told of either."""

from dataclasses import replace

import pytest

from nanobot.channels.supervisor import ChannelFacts
from nanobot.gateway.facts import LoopLag
from nanobot.gateway.health import Facts, Limits, OutboxFacts, judge

UP = ChannelFacts(state="up", progress_at=990.0)
WELL = Facts(now=1_000.0, channels={"telegram": UP})


def test_all_is_well() -> None:
    """A channel that had a round a moment ago, and nothing owed for long, is well."""
    facts = replace(WELL, outboxes={"telegram": OutboxFacts(owed=3, oldest_s=20.0, sending_s=1.0)}, pending=2)

    assert judge(facts).alive
    assert judge(facts).summary == "well"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (replace(WELL, lag_s=31.0, lag_share=0.6), "the event loop was held up for 31 s, 60% of the last minute"),
        (replace(WELL, now=2_000.0), "telegram made no progress for 1010 s"),
        (
            replace(WELL, outboxes={"telegram": OutboxFacts(owed=2, oldest_s=4_000, sending_s=3_000)}),
            "a send to telegram hangs for 3000 s",
        ),
    ],
)
def test_what_a_new_process_would_mend_is_fatal(facts: Facts, text: str) -> None:
    """A hung loop, a deaf channel and a send that never ends are no signs of life."""
    health = judge(facts)

    assert not health.alive
    assert health.summary == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (replace(WELL, lag_s=12.0, lag_share=0.2), "the event loop was held up for 12 s"),
        (
            replace(WELL, channels={"telegram": replace(UP, state="down", since=900.0, detail="no route")}),
            "telegram is down for 100 s: no route",
        ),
        (
            replace(WELL, outboxes={"telegram": OutboxFacts(owed=1, oldest_s=4_000, sending_s=30)}),
            "1 answers are owed to telegram",
        ),
        (replace(WELL, refusing="No space left on device"), "the disk refuses writes: No space left"),
        (replace(WELL, pending=1, oldest_pending_s=4_000.0), "a message waits for 4000 s"),
        (replace(WELL, channels={"telegram": replace(UP, state="stopped")}), "telegram has ended"),
    ],
)
def test_what_a_new_process_would_not_mend_is_told_and_not_fatal(facts: Facts, text: str) -> None:
    """A platform that is away, a full disk (our memory holds its messages), a limited chat: restarting helps nobody."""
    health = judge(facts)

    assert health.alive
    assert health.summary.startswith(text)


def test_the_fatal_comes_first() -> None:
    """Of several problems the one that kills is named first."""
    facts = replace(WELL, now=2_000.0, refusing="full")

    assert [problem.is_fatal for problem in judge(facts, Limits()).problems] == [True, False]


def test_lag_is_of_the_last_minute() -> None:
    """A hold-up is remembered for a minute, with its share of it, and then forgotten."""
    now = 0.0
    lag = LoopLag(clock=lambda: now)
    lag.note(15.0)
    lag.note(-0.1)
    worst, share = lag.worst_s, lag.share
    now = 61.0
    lag.note(0.001)

    assert (worst, share) == (15.0, 0.25)
    assert lag.worst_s == 0.001
