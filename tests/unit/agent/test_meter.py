"""Requests are measured from what the provider reported; only what is new is estimated."""

import pytest

from nanobot.agent.meter import Gauge, Ratios, Reported, believable, known_window, last_reported, prompt_tokens
from nanobot.agent.models import Model
from nanobot.agent.tokens import estimate_message
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, Message, user_text
from nanobot.session.entries import Cut, Finished, Head, Started, Step
from nanobot.session.log import SessionLog
from tests.fakes.provider import ScriptedProvider

WORDS = "some words about this and that " * 50


def gauge(ratios: Ratios | None = None, *, overhead: int = 100, reported: Reported | None = None) -> Gauge:
    return Gauge(model="m", ratios=ratios or Ratios(), overhead=overhead, reported=reported)


def history(count: int) -> list[Message]:
    return [user_text(WORDS, entry=f"e{i + 1}") for i in range(count)]


def test_without_a_report_everything_is_estimated() -> None:
    """System text, tools and messages together."""
    messages = history(3)

    assert gauge().measure(messages) == 100 + sum(map(estimate_message, messages))


def test_after_a_report_only_the_new_part_is_estimated() -> None:
    """The reported size stands, whatever the estimate was; the next message adds its own."""
    meter = gauge()
    sent = history(3)
    real = meter.measure(sent) - 150
    meter.learn(sent, real)

    assert meter.measure(sent) == real
    assert meter.measure(history(4)) == real + estimate_message(history(4)[3])


def test_what_is_new_is_never_made_smaller_by_what_was_learned() -> None:
    """A model that takes fewer tokens for prose may take as many for what comes next."""
    ratios = Ratios()
    for _ in range(10):
        ratios.learn("m", estimated=1_000, reported=650)
    meter = gauge(ratios)
    sent = history(2)
    meter.learn(sent, 500)

    assert meter.measure(history(3)) >= 500 + estimate_message(history(3)[2])


def test_a_model_that_takes_more_tokens_is_learned() -> None:
    """The ratio of one session's reports helps the next session of the same model, and no other model."""
    ratios = Ratios()
    ratios.learn("m", estimated=1_000, reported=1_300)

    assert gauge(ratios, overhead=0).measure(history(1)) == int(estimate_message(history(1)[0]) * 1.3)
    assert ratios.of("other") == 1.0


@pytest.mark.parametrize("reported", [0, 10, 10**9])
def test_reports_that_cannot_be_true_are_not_believed(reported: int) -> None:
    """Servers that report nothing, or leave out what they cached, do not make the meter lie."""
    meter = gauge()
    sent = history(3)
    before = meter.measure(sent)
    meter.learn(sent, reported)

    assert meter.measure(sent) == before
    assert not believable(before, reported)


def test_a_cut_is_measured_from_the_plain_estimate_too() -> None:
    """After most of a request was left out, the old report cannot make the rest look small."""
    meter = gauge(overhead=0)
    sent = history(20)
    meter.learn(sent, int(meter.measure(sent) * 0.7))

    assert meter.measure(sent[:5]) >= 0.6 * sum(map(estimate_message, sent[:5]))


def test_the_anchor_outlives_a_restart() -> None:
    """The log's newest report is found again: the request that its row answered."""
    messages: list[Message] = [*history(3), AssistantMessage("yes", entry="e9"), user_text("more", entry="e10")]
    meter = gauge(reported=Reported("e9", 900))

    new = sum(map(estimate_message, messages[3:]))
    assert meter.measure(messages) == 900 + new


def log_with(*more: Cut | Head | Finished) -> SessionLog:
    log = SessionLog("s")
    log.extend(
        [
            Head(id="e1", system="a", tools="b", model="m"),
            Started(id="e2", turn="t1", inbound=(), message=user_text("q", entry="e2")),
            Step(id="e3", turn="t1", message=AssistantMessage("a", entry="e3"), usage=Usage(input_tokens=77)),
            *more,
        ]
    )
    return log


@pytest.mark.parametrize(("estimated", "shown"), [(5, 77), (60, 77), (300, 300)])
def test_a_short_conversation_is_as_large_as_was_reported(estimated: int, shown: int) -> None:
    """Beside a few words, system text and tools are most of a prompt; what is far too small is still not believed."""
    assert prompt_tokens(log_with(), estimated=estimated) == shown


@pytest.mark.parametrize(
    ("more", "stands"),
    [
        ((), True),
        ((Cut(id="e4", pass_name="compaction", at="e2"),), True),
        ((Cut(id="e4", pass_name="window:m", at="e9000"),), True),
        ((Cut(id="e4", pass_name="microcompact", at="e2"),), False),
        ((Cut(id="e4", pass_name="limit:1000", at="e2"),), False),
        ((Head(id="e4", system="c", tools="d", model="m"),), False),
        ((Finished(id="e4", effect={"type": "settings", "model": "x/y"}),), False),
    ],
)
def test_a_report_is_void_after_a_cut(more: tuple[Cut | Head | Finished, ...], stands: bool) -> None:
    """What the model saw then is not what it sees now."""
    assert (last_reported(log_with(*more)) == Reported("e3", 77)) is stands


def test_a_learned_window_is_the_session_models_own() -> None:
    """It holds for the model it was learned of, and never makes a window larger or absurdly small."""
    model = Model(provider=ScriptedProvider(), model="m", ref="p/m", window=32_000)

    assert known_window(log_with(Cut(id="e4", pass_name="window:m", at="e9000")), model) == 9_000
    assert known_window(log_with(Cut(id="e4", pass_name="window:other", at="e9000")), model) == 32_000
    assert known_window(log_with(Cut(id="e4", pass_name="window:m", at="e90000")), model) == 32_000
    assert known_window(log_with(Cut(id="e4", pass_name="window:m", at="e1")), model) == 2_000
