"""Where a window goes and what Turns cost, for people."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

from nanobot.agent.window import TurnCost, contents, cut_name, history, reuse
from nanobot.bus.runtime_events import Usage
from nanobot.cli.context import Picture, render
from nanobot.cli.plot import bar, columns_of, curve, picture, thousands
from nanobot.errors import MisuseError
from nanobot.messages import AssistantMessage, ToolMessage, user_text
from nanobot.session.entries import Cut, Entry, Finished, Head, Reset, Started, Step, Summary

WORDS = "some words to talk about " * 40


def turn(number: int, *, prompt: int = 500, between: Sequence[Entry] = ()) -> list[Entry]:
    name, base = f"t{number}", number * 10
    usage = Usage(input_tokens=prompt, output_tokens=10, cached_tokens=prompt // 2)
    said = AssistantMessage("yes", entry=f"e{base + 1}")
    return [
        *between,
        Started(id=f"e{base}", turn=name, inbound=(), message=user_text(WORDS, entry=f"e{base}")),
        Step(id=f"e{base + 1}", turn=name, message=said, finish="stop", usage=usage),
        Finished(id=f"e{base + 2}", turn=name, answer=f"e{base + 1}"),
    ]


def test_the_window_is_split_by_what_it_holds() -> None:
    """System, tools, summary, each tool's results, people and the model each have their share, scaled to what was reported."""
    messages = [
        user_text("so far", origin="summary"),
        user_text(WORDS),
        AssistantMessage(WORDS),
        ToolMessage("c", "exec", WORDS),
        ToolMessage("d", "read_file", WORDS),
    ]

    plain = contents(messages, system_tokens=100, tools_tokens=200)
    scaled = contents(messages, system_tokens=100, tools_tokens=200, total=sum(plain.values()) * 2)

    assert set(plain) == {
        "system",
        "tools",
        "summary",
        "people",
        "the model",
        "results of exec",
        "results of read_file",
    }
    assert plain["system"] == 100
    assert scaled == {name: size * 2 for name, size in plain.items()}
    assert contents(messages, system_tokens=100, tools_tokens=200, total=3) == plain  # not to be believed


def test_each_turn_has_its_cost_and_what_it_would_have_cost() -> None:
    """The ungoverned curve only rises; the governed one is what was reported; cuts stand where they were made."""
    summary = Summary(id="e25", text="s", covers_to="e11", keep_from="e20", floor="e20")
    entries = [*turn(1), *turn(2, prompt=900), *turn(3, prompt=300, between=[summary])]

    first, second, third = history(entries, head_tokens=50)

    assert [cost.prompt for cost in (first, second, third)] == [500, 900, 300]
    assert second.ungoverned >= first.ungoverned
    assert third.ungoverned > third.prompt
    assert third.cuts == ("summary",)
    assert third.usage.input_tokens == 300


def test_a_reset_leaves_out_what_was_said_before() -> None:
    """The prompt shrinks at /new; what it would be if nothing were ever left out does not."""
    reset = Finished(id="e19", stop_reason="command", effect={"type": "reset"})
    first, second = history([*turn(1), *turn(2, prompt=400, between=[reset])], head_tokens=0)

    assert first.ungoverned == first.prompt
    assert second.ungoverned > first.ungoverned > second.prompt

    one, two = history([*turn(1, prompt=0), *turn(2, prompt=0, between=[reset])], head_tokens=0)  # nothing is reported
    assert two.prompt == one.prompt
    assert two.ungoverned > one.ungoverned


def test_a_conversation_that_was_never_cut_is_sent_as_it_is() -> None:
    """Both curves are one, whatever the estimate says; the head that it begins with is no cut, a later one is."""
    entries = [head("e5"), *turn(1, prompt=100), *turn(2, prompt=190)]
    first, second = history(entries, head_tokens=5000)
    again = [*entries, Reset(id="e23", floor="e23"), head("e24"), head("e25")]

    assert [first.ungoverned, second.ungoverned] == [100, 190]
    assert (first.cuts, reuse(entries).cuts, reuse(again).cuts) == ((), 0, 1)


def head(name: str) -> Head:
    """Return a head with no text of its own."""
    return Head(id=name, system="s", tools="t", model="fake/model")


def test_the_metric_of_a_sessions_prefix() -> None:
    """Cuts that changed what the model saw are counted, others are not, and cached tokens are added up."""
    entries = [
        *turn(1),
        Cut(id="e15", pass_name="limit:1000", at="e10"),
        Cut(id="e16", pass_name="compaction", at="e10"),
        Cut(id="e17", pass_name="trim", at="e10"),
        *turn(2),
    ]

    assert (reuse(entries).cuts, reuse(entries).input_tokens, reuse(entries).cached_tokens) == (1, 1000, 500)
    assert cut_name(entries[0]) is None


def test_bars_and_curves() -> None:
    """They fill their width and no more, show small values as something, and never divide by zero."""
    assert bar(1, 2, width=4) == "██░░"
    assert bar(9, 2, width=4) == "████"
    assert bar(1, 0, width=2) == "░░"
    assert curve([0, 1, 50, 100], width=10, top=100, height=1) == [" ▁▄█"]
    assert curve([100, 0], width=10, top=100, height=2) == ["█", "█"]
    assert curve([], width=10, top=0, height=1) == [""]
    assert columns_of([1, 5, 2, 3], width=2) == [5, 3]
    assert (thousands(999), thousands(1_250)) == ("999", "1.2k")


def test_the_whole_page() -> None:
    """One line says how full the window is, and lines stay within the width."""
    usage = Usage(input_tokens=500, output_tokens=5)
    turns = [TurnCost(f"t{i}", usage, 500, 500 + i * 50, ("snip",) if i == 40 else ()) for i in range(100)]
    shown = Picture(
        key="cli:direct",
        window=10_000,
        answer=1_000,
        parts={"system": 100, "people": 400},
        turns=turns,
        reuse=reuse([]),
    )

    lines = render(shown, width=60).splitlines()

    assert lines[0] == "cli:direct: 500 of 10.0k tokens (5 %)"
    assert any("room left" in line and "8.5k" in line for line in lines)
    assert any(line.strip() == "^" for line in lines)
    assert max(len(line) for line in lines if set(line) & set("▁█^") and "%" not in line) <= 60


@pytest.mark.skipif(find_spec("leather") is None, reason="needs the extra nanobot[plots]")
@pytest.mark.parametrize(("form", "begins"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_the_curves_as_a_picture(form: str, begins: bytes) -> None:
    """SVG is text, PNG is rendered from it."""
    assert (
        picture({"as sent": [1, 2, 3], "without": [1, 4, 9]}, title="t", form=form)
        .lstrip()
        .startswith((begins, b"<?xml"))
    )


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the person is told which extra to install."""
    monkeypatch.setitem(sys.modules, "leather", None)

    with pytest.raises(MisuseError, match=r"nanobot\[plots\]"):
        picture({"a": [1]}, title="t", form="svg")
