"""A log read as Turns."""

from datetime import UTC, datetime

from nanobot.bus.events import InboundMessage
from nanobot.bus.runtime_events import Usage
from nanobot.cli.sessions import render
from nanobot.cli.transcript import turns
from nanobot.messages import AssistantMessage, ToolCall, ToolMessage, user_text
from nanobot.session.entries import Entry, Finished, Reset, Started, Step

USAGE = Usage(input_tokens=10, output_tokens=2)


def inbound(name: str, text: str) -> InboundMessage:
    return InboundMessage(
        id=name, session_key="cli:direct", sender="me", text=text, at=datetime(2026, 1, 1, tzinfo=UTC)
    )


def log() -> list[Entry]:
    call = ToolCall("e2.0", "grep", {"pattern": "x"})
    return [
        inbound("i1", "find x"),
        Started(
            id="e1",
            turn="t1",
            inbound=("i1",),
            message=user_text("find x\n\n[2026-01-01]"),
            at="2026-01-01T00:00:00+00:00",
        ),
        Step(id="e2", turn="t1", message=AssistantMessage("", (call,))),
        inbound("i2", "and y"),
        Step(id="e3", turn="t1", message=ToolMessage("e2.0", "grep", "3 hits")),
        Step(id="e4", turn="t1", message=user_text("and y\n\n[…]"), inbound=("i2",)),
        Step(id="e5", turn="t1", message=AssistantMessage("Found it.")),
        Finished(id="e6", turn="t1", usage=USAGE, iterations=2, answer="e5"),
        Finished(id="e7", inbound=("i3",), stop_reason="command", content="help"),
        Reset(id="e8", floor="e8"),
        Started(id="e9", turn="t2", inbound=("gone",), message=user_text("direct")),
        Finished(id="e10", turn="t2", stop_reason="error", content="", error="No key."),
        Started(id="e11", turn="t3", inbound=(), message=user_text("open")),
    ]


def test_a_turn_is_what_was_asked_and_what_came_of_it() -> None:
    """Steered messages belong to the prompt, runtime blocks do not; commands are no Turns; an open Turn is listed."""
    first, second, third = turns(log())

    assert (first.prompt, first.answer, first.tools) == ("find x\nand y", "Found it.", ["grep"])
    assert (first.iterations, first.usage, first.stop_reason, first.error) == (2, USAGE, "completed", None)
    assert (second.prompt, second.answer, second.error) == ("direct", "", "No key.")
    assert third.stop_reason == ""


def test_undoing_marks_the_turn_and_what_followed() -> None:
    """What was taken back is still told, as taken back."""
    undo = Finished(id="e12", stop_reason="command", content="Took back", effect={"type": "undo", "target": "t2"})

    assert [turn.undone for turn in turns([*log(), undo])] == [False, True, True]


def test_each_form_holds_each_turn() -> None:
    """turns is a JSON line a Turn, jsonl a line an entry, markdown is for reading."""
    entries = log()

    assert render(entries, "turns").count("\n") == 3
    assert render(entries, "jsonl").count("\n") == len(entries)
    assert "> find x\n> and y\n\n*grep*\n\nFound it.\n" in render(entries, "markdown")
    assert "*(No key.)*" in render(entries, "markdown")
    assert "*(still open)*" in render(entries, "markdown")
    assert render([], "turns") == ""


def test_a_turn_that_was_run_again_counts_as_taken_back() -> None:
    """/retry leaves one Turn of the two that stands."""
    again = Started(id="e12", turn="t4", inbound=("i4",), message=user_text("open"), undoes="t3")

    assert [turn.undone for turn in turns([*log(), again])] == [False, False, True, False]


def test_what_was_retried_is_shown_by_its_question() -> None:
    """The log has "/retry" as what was said; a reader wants to know what was asked, and which Turn was replaced."""
    again = Started(id="e13", turn="t4", inbound=("i4",), message=user_text("open"), undoes="t3")
    entries = [*log(), inbound("i4", "/retry"), again]
    shown = render(entries, "markdown")

    assert turns(entries)[-1].prompt == "open"
    assert "/retry" not in shown
    assert "## t3 · taken back\n" in shown


def test_a_new_conversation_is_marked() -> None:
    """/new leaves a line before the first Turn that follows, however it was logged."""
    new = Finished(id="e12", inbound=("i5",), stop_reason="command", content="New.", effect={"type": "reset"})
    after = Started(id="e13", turn="t4", inbound=(), message=user_text("fresh"))

    assert [turn.is_first for turn in turns([*log(), new, after])] == [False, True, False, True]
    assert "*(new conversation)*\n\n## t4" in render([*log(), new, after], "markdown")


def test_an_error_is_shown_once() -> None:
    """What people were told holds the error, and so does the line that says how the Turn ended."""
    end = Finished(id="e12", turn="t3", stop_reason="empty", content="⚠ No answer.", error="No answer.")

    assert turns([*log(), end])[-1].answer == ""
    assert render([*log(), end], "markdown").count("No answer.") == 1
