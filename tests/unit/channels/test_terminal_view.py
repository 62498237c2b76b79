"""What of a running Turn is printed once and stays, and what is live."""

from collections.abc import Iterable

from nanobot.bus.runtime_events import (
    Lagged,
    ProviderSwitched,
    ReasoningDelta,
    RuntimeEvent,
    TextDelta,
    TextReset,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.terminal.markdown import Ink
from nanobot.channels.terminal.screen import Segments, draw_live, draw_segment
from nanobot.channels.terminal.view import Live, Segment, View, last_lines

START = TurnStarted(turn="t1")


def text(value: str) -> TextDelta:
    return TextDelta(value, turn="t1")


def end(content: str = "", *, reason: str = "completed", error: str | None = None) -> TurnFinished:
    return TurnFinished(reason, content, error, turn="t1")


def taken(view: View, events: Iterable[RuntimeEvent]) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for event in events for one in view.take(event, at=0.0)]


def test_finished_blocks_are_printed_once_and_the_open_one_is_live() -> None:
    """Each line of an answer reaches the scrollback exactly once."""
    view = View()

    assert taken(view, [START, text("one\n\ntw"), text("o")]) == [("markdown", "one")]
    assert view.live(at=1.0).text == "two"
    assert taken(view, [text("\n\nthree"), end("one\n\ntwo\n\nthree")]) == [("markdown", "two"), ("markdown", "three")]
    assert view.live(at=1.0) == Live()


def test_a_streamed_answer_is_not_printed_again_when_it_is_delivered() -> None:
    """Event and delivery bring the same answer; whichever comes first, it stands there once."""
    for delivered_first in (False, True):
        view = View()
        said = taken(view, [START, text("the answer")])
        if delivered_first:
            said += [(one.kind, one.text) for one in view.answer("the answer")]
        said += taken(view, [end("the answer")])
        if not delivered_first:
            said += [(one.kind, one.text) for one in view.answer("the answer")]

        assert said == [("markdown", "the answer")]


def test_an_answer_that_was_not_streamed_is_printed() -> None:
    """What no delta brought comes with the end or the delivery, once."""
    view = View()

    assert taken(view, [START, end("whole")]) == [("markdown", "whole")]
    assert view.answer("whole") == []
    assert view.answer("whole") == [Segment("markdown", "whole")]


def test_the_same_command_answers_twice() -> None:
    """Two equal answers of two commands are two answers."""
    view = View()

    assert [view.answer("help"), view.answer("help")] == [[Segment("markdown", "help")]] * 2


def test_what_was_said_before_a_call_is_settled() -> None:
    """Text, call and text stand in the order in which they happened."""
    events = [
        START,
        text("I look."),
        ToolStarted("a", "grep", "grep x", turn="t1"),
        ToolFinished("a", "grep", False, 100.0, 7, turn="t1"),
        text("Found."),
        end("Found."),
    ]

    assert taken(View(), events) == [
        ("markdown", "I look."),
        ("tool", "grep x · 0.1 s · 7 chars"),
        ("markdown", "Found."),
    ]


def test_running_calls_and_the_elapsed_time_are_live() -> None:
    """While it runs, a person sees what runs, for how long, and how to stop it."""
    view = View()
    taken(view, [START, ToolStarted("a", "exec", "exec make\ntest", turn="t1")])
    live = view.live(at=3.0)

    assert live.tools == ("exec make ⏎ test · 3.0 s",)
    assert live.status == "3.0 s · Ctrl-C stops"


def test_a_failed_call_is_marked() -> None:
    """A failure is not shown as a success."""
    events = [START, ToolStarted("a", "exec", "exec x", turn="t1"), ToolFinished("a", "exec", True, 1.0, 1, turn="t1")]

    assert taken(View(), events) == [("failed tool", "exec x · 0.0 s · failed")]


def test_reasoning_ends_at_the_first_text() -> None:
    """Thoughts are live while they come, and stay, shortened, above the answer."""
    view = View()
    thoughts = "\n".join(f"thought {i}" for i in range(20))

    assert taken(view, [START, ReasoningDelta(thoughts, turn="t1")]) == []
    assert view.live(at=0.0).reasoning == thoughts
    [(kind, shown)] = taken(view, [text("So")])
    assert kind == "reasoning"
    assert shown.startswith("… (12 lines before)\nthought 12\n")
    assert taken(view, [text(" it is")]) == []


def test_c16_an_answer_that_starts_again_says_so_when_lines_had_been_printed() -> None:
    """What stays in the scrollback cannot be taken back, so a line explains the repetition; otherwise nothing is said."""
    view = View()

    assert taken(view, [START, text("one\n\ntwo"), TextReset(turn="t1"), text("One"), end("One")]) == [
        ("markdown", "one"),
        ("notice", "(this did not end well: the answer starts again)"),
        ("markdown", "One"),
    ]
    assert taken(View(), [START, text("Hello wor"), TextReset(turn="t1"), text("Hello world"), end("Hello world")]) == [
        ("markdown", "Hello world")
    ]


def test_a_stopped_turn_keeps_what_was_seen_and_says_so() -> None:
    """Ctrl-C does not make text vanish."""
    assert taken(View(), [START, text("half an"), end("half an", reason="user_stop")]) == [
        ("markdown", "half an"),
        ("notice", "(stopped)"),
    ]
    assert taken(View(), [START, end(reason="user_stop", error="Stopped.")]) == [("notice", "(stopped)")]


def test_a_call_that_the_stop_cut_short_leaves_a_line() -> None:
    """What was running when the Turn ended does not vanish from the screen."""
    events = [START, ToolStarted("a", "exec", "exec sleep", turn="t1"), end(reason="user_stop")]

    assert taken(View(), events) == [("failed tool", "exec sleep · 0.0 s · not finished"), ("notice", "(stopped)")]


def test_a_failed_turn_shows_its_error_once() -> None:
    """The sentence for the person is there, also when it is delivered as the answer too."""
    view = View()

    assert taken(view, [START, end(reason="error", error="No key.")]) == [("error", "No key.")]
    assert view.answer("⚠ No key.") == []


def test_an_answer_that_came_with_an_error_is_shown_once() -> None:
    """Both ways to the screen bring the same: the event in two pieces, the delivery in one."""
    view = View()

    assert taken(view, [START, end("Half.", reason="error", error="No key.")]) == [
        ("markdown", "Half."),
        ("error", "No key."),
    ]
    assert view.answer("Half.\n\n⚠ No key.") == []


def test_what_was_lost_or_switched_is_said() -> None:
    """A switch of models, and events this view missed, leave a line."""
    view = View()

    assert taken(view, [START, ProviderSwitched("a/x", "b/y", "down", turn="t1"), Lagged(3)]) == [
        ("notice", "(b/y takes over from a/x.)"),
        ("notice", "(3 events were not shown)"),
    ]


def test_the_live_part_fits_the_screen() -> None:
    """However much is open, no more rows are drawn than there are, and the newest of them."""
    ink = Ink()
    live = Live(text="```\n" + "x = 1\n" * 500 + "last = 2\n", fence="```\n", tools=("a", "b"), status="3 s")
    drawn = draw_live(ink, live, rows=8, columns=40)

    assert len(drawn.splitlines()) == 8
    assert "last = 2" in drawn
    assert drawn.splitlines()[-1].endswith("3 s\x1b[0m")
    assert draw_live(ink, Live(), rows=8, columns=40) == ""


def test_the_models_text_is_never_markup() -> None:
    """rich's tags and emoji codes, escapes and HTML are shown as text or taken out."""
    for segment in (
        Segment("markdown", "[red]x[/red] :smile: <b>\x1b[31m"),
        Segment("tool", "[red]x[/red] :smile: <b>\x1b[31m"),
    ):
        drawn = draw_segment(Ink(colour=False), segment, 60)

        assert "[red]x[/red] :smile: <b>" in drawn
        assert "\x1b[31m" not in drawn


def test_calls_in_a_row_stand_together() -> None:
    """Other segments are set apart by an empty line."""
    spaced = Segments()

    assert [spaced.spaced(Segment(kind, ""), kind) for kind in ("markdown", "tool", "failed tool", "markdown")] == [
        "\nmarkdown",
        "\ntool",
        "failed tool",
        "\nmarkdown",
    ]


def test_short_thoughts_are_shown_whole() -> None:
    """One line is never replaced by a line that says it is missing."""
    assert last_lines("a\nb\nc", 2) == "a\nb\nc"
    assert last_lines("a\nb\nc\nd", 2) == "… (2 lines before)\nc\nd"
