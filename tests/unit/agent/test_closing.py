"""What is said when a Turn ends, and what a script gets."""

import pytest

from nanobot.agent.closing import closing_results, content_of, told, unkept
from nanobot.agent.spec import AgentRunResult
from nanobot.errors import AuthFailed
from nanobot.messages import ToolCall
from tests.fakes.agent import Agent, Echo
from tests.fakes.provider import calls, says

ENDS = [
    ("An answer.", "completed", None, "An answer."),
    ("", "error", "It is down.", "⚠ It is down."),
    ("Half of", "error", "It is down.", "Half of\n\n⚠ It is down."),
    ("Half of", "limit", "It took too long.", "Half of\n\n⚠ It took too long."),
    ("", "user_stop", None, ""),
    ("Half of", "user_stop", None, "Half of\n\n[stopped]"),
    ("Half of", "replaced", None, "Half of\n\n[stopped]"),
    ("A sum.", "max_iterations", None, "A sum."),
    ("I decline.", "refusal", None, "I decline."),
    ("  spaced  \n\n", "error", "x", "  spaced  \n\n\n\n⚠ x"),
]


@pytest.mark.parametrize(("content", "reason", "error", "text"), ENDS)
def test_what_is_told_holds_the_content_and_why_it_ended(
    content: str, reason: str, error: str | None, text: str
) -> None:
    """A person reads answer and cause in one text; a script gets them apart, also from the record."""
    run = AgentRunResult(final_content=content, stop_reason=reason, error=error)

    assert told(run) == text
    assert content_of(text, stop_reason=reason, error=error) == content


def test_open_calls_are_answered_by_why_the_turn_ended() -> None:
    """Each open call gets one result, which says that nobody knows its outcome."""
    open_calls = [ToolCall("e2.0", "exec", {}), ToolCall("e2.1", "echo", "{broken")]

    for reason, word in [
        ("user_stop", "by the user"),
        ("replaced", "new message"),
        ("limit", "time"),
        ("error", "interr"),
    ]:
        results = closing_results(open_calls, entry="e9", stop_reason=reason)

        assert [(result.call_id, result.name, result.is_error) for result in results] == [
            ("e2.0", "exec", True),
            ("e2.1", "echo", True),
        ]
        assert all(word in result.text and "outcome unknown" in result.text for result in results)


def test_an_answer_that_was_not_kept_says_why_first() -> None:
    """The disk's own words are in the sentence."""
    assert unkept("No space left on device").endswith("No space left on device")


async def test_j02_a_repeated_message_gets_the_same_result_however_it_ended() -> None:
    """Answer, error, give-up and limit come back from the record as they were, also after a restart."""
    echo = Echo()
    steps = [
        says("fine"),
        AuthFailed("The key is wrong."),
        calls(("echo", {"text": "a"})),
        says(""),
        says(""),
        *[calls(("echo", "{cut"))] * 3,
    ]
    agent = Agent(steps, tools=[echo])
    async with agent:
        first = [await agent.ask("q", message_id=f"m{i}") for i in range(4)]
        again = [await agent.ask("q", message_id=f"m{i}") for i in range(4)]
    async with agent.after_restart() as later:
        recorded = [await later.ask("q", message_id=f"m{i}") for i in range(4)]

    assert [result.stop_reason for result in first] == ["completed", "error", "empty", "malformed"]
    assert [result.content for result in first] == ["fine", "", "", ""]
    assert "echo" in (first[2].error or "")
    assert "echo" not in (first[3].error or "")
    assert again == first
    assert recorded == first
