"""What the model saw, for reading."""

import pytest

from nanobot.agent.inspect import View, views
from nanobot.agent.passes import Boundaries
from nanobot.cli.inspection import HeadText, choose, render
from nanobot.errors import MisuseError
from nanobot.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    user_text,
)
from nanobot.session.entries import Head, Reset, Started, Step

USER = user_text("look", entry="e2")
CALL = AssistantMessage("I do.", (ToolCall("e3.0", "grep", {"pattern": "日本"}),), entry="e3")
RESULT = ToolMessage("e3.0", "grep", "3 hits", is_error=True, entry="e4")


def view(turn: str, iteration: int, *model: Message, notes: tuple[str, ...] = ()) -> View:
    return View(
        turn=turn,
        iteration=iteration,
        answer=f"e{iteration}",
        head="e1",
        session=[USER, CALL, RESULT],
        history=[],
        initial=[USER],
        model=model,
        notes=notes,
    )


VIEWS = [view("t1", 1, USER), view("t3", 1, USER), view("t3", 2, USER, CALL, RESULT, notes=("e9: snipped",))]


@pytest.mark.parametrize(("turn", "expected"), [(None, "t3"), ("1", "t1"), ("t1", "t1"), ("3", "t3")])
def test_a_turn_is_chosen_by_its_number(turn: str | None, expected: str) -> None:
    """With or without the letter; the last one when none is named."""
    assert {one.turn for one in choose(VIEWS, turn)} == {expected}


def test_a_turn_that_is_not_there_is_refused() -> None:
    """The sentence names those that are."""
    with pytest.raises(MisuseError, match="there are t1, t3"):
        choose(VIEWS, "2")
    with pytest.raises(MisuseError, match="no model was asked"):
        choose([], None)


def test_each_request_is_shown_whole_with_what_is_missing() -> None:
    """System text, tools, every message, every call and result, and why something is not there."""
    shown = render(choose(VIEWS, "3"), "model", {"e1": HeadText("You are.", ["grep", "exec"])})

    first, second = shown.split("=== ")[1:]
    assert "--- system (e1)\nYou are.\n--- tools: grep, exec\n--- user e2\nlook\n" in first
    assert "--- why it is not the whole session\n    e9: snipped\n" in second
    assert (
        '--- assistant e3\nI do.\n-> e3.0 grep {"pattern": "日本"}\n--- tool e4 grep for e3.0 error\n3 hits\n' in second
    )


def test_the_other_lists_are_shown_once() -> None:
    """They do not change within a Turn."""
    assert render(VIEWS[1:], "initial", {}) == "=== t3 · initial: 1 messages\n\n--- user e2\nlook\n"
    assert render(VIEWS[1:], "history", {}).startswith("=== t3 · history: 0 messages")
    assert render(VIEWS[1:], "session", {}).count("---") == 3


def test_an_image_is_named() -> None:
    """Its bytes are not printed."""
    picture = UserMessage((TextPart("see"), ImagePart("/p/a.png", "image/png", "00")), origin="runtime", entry="e5")

    assert "--- user e5 (runtime)\nsee\n[image image/png /p/a.png]\n" in render([view("t1", 1, picture)], "model", {})


def test_the_head_that_a_conversation_begins_with_needs_no_reason() -> None:
    """Nothing is missing because of it; only a head that replaces another is told of."""
    heads = [Head(id=name, system="s", tools="t", model="fake/model") for name in ("e1", "e5", "e6")]
    asked = [
        Started(id="e2", turn="t1", inbound=(), message=USER),
        Step(id="e3", turn="t1", message=AssistantMessage("yes", entry="e3"), finish="stop"),
    ]
    again = [
        Started(id="e7", turn="t2", inbound=(), message=USER),
        Step(id="e8", turn="t2", message=AssistantMessage("yes", entry="e8"), finish="stop"),
    ]

    first, second = views([heads[0], *asked, Reset(id="e4", floor="e4"), *heads[1:], *again], Boundaries())

    assert first.notes == []
    assert [note.partition(":")[0] for note in second.notes] == ["e4", "e6"]
