"""What the model has before its eyes is not said twice."""

from pathlib import Path

import pytest

from nanobot.agent.repeats import unchanged
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.messages import Message, ToolMessage
from tests.fakes.agent import Agent
from tests.fakes.provider import calls, says

LONG = "".join(f"line {number}\n" for number in range(200))


def result(entry: str, text: str, *, name: str = "read_file", is_error: bool = False) -> ToolMessage:
    """Return an earlier result."""
    return ToolMessage(f"{entry}.0", name, text, is_error=is_error, entry=entry)


def test_the_same_text_is_named_by_its_entry() -> None:
    """The newest that says it."""
    sent: list[Message] = [result("e3", LONG), result("e5", LONG)]

    assert unchanged("read_file", LONG, sent) == "[unchanged: the same as result e5 above]"


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [result("e3", '[read_file result omitted from context; read_result("e3")]')],
        [result("e3", LONG[:-1])],
        [result("e3", LONG, name="exec")],
        [result("e3", LONG, is_error=True)],
        [result("e3", LONG), *(result(f"e{number}", "other") for number in range(4, 10))],
    ],
)
def test_a17_what_is_not_in_sight_word_for_word_is_said_again(sent: list[Message]) -> None:
    """Left out, cut, changed, or so far back that the next cut may reach it: then the text itself."""
    assert unchanged("read_file", LONG, sent) is None


def test_a_short_text_is_said_again() -> None:
    """A line that points elsewhere would be no shorter."""
    assert unchanged("read_file", "short", [result("e3", "short")]) is None


async def test_reading_again_costs_one_line_until_the_file_changes(tmp_path: Path) -> None:
    """Through the real runner: the same page is named, another text is shown."""
    path = tmp_path / "ws" / "a.txt"
    path.parent.mkdir()
    path.write_text(LONG)
    read = calls(("read_file", {"path": "a.txt"}))
    steps = [read, read, says("done"), read, says("done")]
    async with Agent(steps, tools=[ReadFile(PathRules())], workspace=path.parent) as agent:
        await agent.ask("read it twice")
        path.write_text(LONG + "new\n")
        await agent.ask("and again")
        rows = [row.message for row in (await agent.log()).rows if isinstance(row.message, ToolMessage)]

        assert rows[0].text.startswith("1\tline 0\n")
        assert rows[1].text == f"[unchanged: the same as result {rows[0].entry} above]"
        assert rows[2].text.endswith("201\tnew")
