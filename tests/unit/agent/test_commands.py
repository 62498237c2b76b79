"""What people type with a slash."""

import pytest

from nanobot.agent.commands import COMMANDS, is_command, parse, unknown
from tests.fakes.agent import Agent, Echo
from tests.fakes.provider import calls, says

TYPED = [
    ("/new", True, ("new", "")),
    ("/NEW", True, ("new", "")),
    ("/new@some_bot", True, ("new", "")),
    ("/model  fast ", True, ("model", "fast")),
    ("/model\tfast", True, ("model", "fast")),
    ("/new\nand hello", True, ("new", "and hello")),
    ("/compact keep the\nplan", True, ("compact", "keep the\nplan")),
    ("/neu", True, ("neu", "")),
    ("/", False, None),
    ("/ new", False, None),
    (" /new", False, None),
    ("//new", False, None),
    ("/1", False, None),
    ("/etc/hosts is wrong", False, None),
    ("/usr", True, ("usr", "")),
    ("new", False, None),
    ("", False, None),
    ("\n/new", False, None),
]


@pytest.mark.parametrize(("text", "is_one", "parsed"), TYPED)
def test_what_is_a_command(text: str, is_one: bool, parsed: tuple[str, str] | None) -> None:
    """A slash and a letter at the very beginning; a path is none."""
    assert is_command(text) is is_one
    assert parsed is None or parse(text) == parsed


def test_every_command_is_listed_and_named_as_it_is_typed() -> None:
    """The table is the only place that names them."""
    assert {"help", "new", "stop", "status", "model", "retry", "undo", "compact"} <= set(COMMANDS)
    assert all(command.name == name and command.help for name, command in COMMANDS.items())
    assert all(parse(f"/{name}")[0] == name for name in COMMANDS)


def test_an_unknown_one_names_the_closest_if_one_is_close() -> None:
    """A typing mistake is answered with what was meant, nonsense without a guess."""
    assert "Did you mean /status?" in unknown("staus").text
    assert "Did you mean" not in unknown("xqzw").text


async def test_model_shows_changes_and_resets() -> None:
    """By name or full reference; an unknown one lists what there is and changes nothing."""
    async with Agent([says("1"), says("2"), says("3")]) as agent:
        shown = await agent.ask("/model")
        wrong = await agent.ask("/model fake/othr-model-x extra")
        await agent.ask("one")
        changed = await agent.ask("/model other")
        await agent.ask("two")
        await agent.ask("/model default")
        await agent.ask("three")

        assert "fake/model" in shown.content
        assert "fake/other" in shown.content
        assert changed.content.startswith("This conversation uses fake/other")
        assert wrong.stop_reason == "command"
    assert [request.model for request in agent.provider.requests][1:] == ["other", "model"]


async def test_status_says_what_is_used() -> None:
    """Model, size and tokens, a fact a line."""
    async with Agent([says("hello")]) as agent:
        await agent.ask("hi")
        status = (await agent.ask("/status")).content

        assert "Model: fake/model" in status
        assert "10 in" in status
        assert "5 out" in status
        assert "Running: nothing" in status


async def test_help_lists_every_command() -> None:
    """One line each."""
    async with Agent() as agent:
        lines = (await agent.ask("/help")).content.splitlines()

    assert [line.split()[0] for line in lines] == [f"/{name}" for name in COMMANDS]


async def test_retry_and_undo_go_back_turn_by_turn() -> None:
    """/retry sends the same words without the old answer; /undo takes back one Turn each time, with its calls."""
    steps = [says("first"), calls(("echo", {"text": "x"})), says("second"), says("second again"), says("new")]
    async with Agent(steps, tools=[Echo()]) as agent:
        await agent.ask("one")
        await agent.ask("two")
        retried = await agent.ask("/retry")
        undone = [(await agent.ask("/undo")).content for _ in range(3)]
        await agent.ask("three")

        assert retried.content == "second again"
        assert [m.text.split("\n")[0] for m in agent.provider.requests[3].messages] == ["one", "first", "two"]
        assert [text.split(".")[0].split("\n")[0] for text in undone] == [
            "Took back: two",
            "Took back: one",
            "There is nothing to undo",
        ]
        assert [m.text.split("\n")[0] for m in agent.provider.requests[4].messages] == ["three"]


async def test_commands_cost_no_model_call_and_leave_no_row() -> None:
    """They are not part of the conversation."""
    async with Agent([says("hello")]) as agent:
        for text in ("/help", "/status", "/model", "/stop", "/nwe", "/undo", "/retry"):
            await agent.ask(text)
        await agent.ask("hi")

        assert len(agent.provider.requests) == 1
        assert len(agent.provider.requests[0].messages) == 1
