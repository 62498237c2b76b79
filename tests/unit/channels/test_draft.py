"""The fold from runtime events to what a person should see."""

from collections.abc import Iterable

import pytest

from nanobot.bus.runtime_events import (
    ProviderSwitched,
    ReasoningDelta,
    Retrying,
    RuntimeEvent,
    StageFinished,
    TextDelta,
    TextReset,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Waiting,
)
from nanobot.channels.draft import Draft, ToolLine, fold, seconds_text, tool_text


def folded(events: Iterable[RuntimeEvent], draft: Draft | None = None) -> Draft:
    draft = draft or Draft()
    for at, event in enumerate(events):
        draft = fold(draft, event, at=float(at))
    return draft


def begin() -> TurnStarted:
    return TurnStarted(turn="t1")


def text(value: str) -> TextDelta:
    return TextDelta(value, turn="t1")


def test_c16_a_reset_takes_back_what_the_broken_request_said() -> None:
    """A stream that breaks and starts again is shown once."""
    draft = folded([begin(), text("Hello wor"), TextReset(turn="t1"), text("Hello world")])

    assert draft.text == "Hello world"


def test_a_reset_keeps_what_was_said_before_a_tool_call() -> None:
    """Only the current model request is void; earlier ones are settled."""
    call = ToolStarted("c", "grep", "grep x", turn="t1")
    draft = folded([begin(), text("I look."), call, text("It"), TextReset(turn="t1"), text("Is")])

    assert (draft.earlier, draft.text) == (("I look.",), "Is")


def test_tools_are_lines_that_end() -> None:
    """A running call shows what and how long; an ended one also the size of its result, or that it failed."""
    draft = folded(
        [
            begin(),
            ToolStarted("a", "grep", "grep x", turn="t1"),
            ToolStarted("b", "exec", "", turn="t1"),
            ToolFinished("a", "grep", False, 1_234.0, 5_678, turn="t1"),
        ]
    )

    assert [tool_text(tool, at=14.0) for tool in draft.tools] == ["grep x · 1.2 s · 5,678 chars", "exec · 12 s"]
    assert [tool.call_id for tool in draft.running_tools] == ["b"]


def test_a_failed_tool_says_so() -> None:
    """An error is no result of some size."""
    tool = ToolLine(call_id="a", summary="grep x", started_at=0.0, duration_ms=10.0, result_chars=9, is_error=True)

    assert tool_text(tool, at=0.0) == "grep x · 0.0 s · failed"


def test_a_second_end_of_a_call_changes_nothing() -> None:
    """What a call's line says is settled once."""
    end = ToolFinished("a", "grep", False, 1.0, 2, turn="t1")
    late = ToolFinished("a", "grep", True, 9.0, 9, turn="t1")
    start = [begin(), ToolStarted("a", "grep", "grep", turn="t1"), end]

    assert folded([*start, late]) == folded(start)


def test_reasoning_belongs_to_the_request_that_follows() -> None:
    """Thoughts after text, or after a call, begin anew."""
    first = folded([begin(), ReasoningDelta("a", turn="t1"), ReasoningDelta("b", turn="t1")])
    after_text = folded([text("x"), ReasoningDelta("c", turn="t1")], first)
    after_call = folded([ToolStarted("a", "grep", "grep", turn="t1")], first)

    assert (first.reasoning, after_text.reasoning, after_call.reasoning) == ("ab", "c", "")


@pytest.mark.parametrize(
    ("event", "note"),
    [
        (Retrying("It is busy.", 1, 2.0, turn="t1"), "It is busy. Trying again in 2 s (try 2)."),
        (ProviderSwitched("a/x", "b/y", "down", turn="t1"), "b/y takes over from a/x."),
        (Waiting("May I?", "e5", "e4.0", turn="t1"), "May I?"),
    ],
)
def test_waiting_is_explained_until_something_comes(event: RuntimeEvent, note: str) -> None:
    """A person reads why nothing moves, and only as long as that is so."""
    waiting = folded([begin(), event])

    assert waiting.note == note
    assert folded([text("x")], waiting).note == ""


def test_the_end_settles_the_draft() -> None:
    """After its last event a Turn's draft changes no more."""
    ended = folded([begin(), text("x"), TurnFinished("completed", "x", turn="t1")])

    assert not ended.is_running
    assert folded([text("y"), TextReset(turn="t1")], ended) == ended


def test_another_turn_does_not_write_into_this_one() -> None:
    """Events of an unknown Turn, and stages, leave the draft as it is."""
    draft = folded([begin(), text("x")])

    assert folded([TextDelta("y", turn="t2"), StageFinished("BUILD", 1.0, turn="t1")], draft) is draft
    assert fold(draft, TurnStarted(turn="t2"), at=7.0) == Draft(turn="t2", started_at=7.0)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-1.0, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min 0 s"), (125.0, "2 min 5 s")],
)
def test_durations_read_well(seconds: float, expected: str) -> None:
    """No unit is wrong at its border."""
    assert seconds_text(seconds) == expected
