"""Results of an ended conversation are out of reach, as its words and its marks are."""

import pytest

from nanobot.agent.tools.read_result import ReadResult
from nanobot.messages import ToolMessage
from tests.fakes.agent import KEY, Agent, Echo
from tests.fakes.provider import calls, says


def last_result(agent: Agent) -> ToolMessage:
    """Return the newest result that the model was shown."""
    requests = reversed(agent.provider.requests)
    return next(m for request in requests for m in reversed(request.messages) if isinstance(m, ToolMessage))


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("ending", ["/new", "/undo"])
async def test_what_was_ended_cannot_be_read_by_its_number(ending: str, restart: bool) -> None:
    """The log keeps it; the model of the next conversation, and what a stranger's page makes it do, do not get it back."""
    steps = [says("hi"), calls(("echo", {"text": "the key is kept"})), says("done")]
    agent = later = Agent(steps, tools=[Echo(), ReadResult()])
    async with agent:
        await agent.ask("hello")
        await agent.ask("echo it")
        shown = last_result(agent)
        await agent.ask(ending)
        if not restart:
            agent.provider.queue(calls(("read_result", {"id": shown.entry})), says("no"))
            await agent.ask("again")
    if restart:
        later = agent.after_restart([calls(("read_result", {"id": shown.entry})), says("no")])
        async with later:
            await later.ask("again")

    assert shown.text == "the key is kept"
    assert f"there is no kept result '{shown.entry}' in this conversation" in last_result(later).text


async def test_taking_a_turn_back_takes_back_nothing_before_it() -> None:
    """What an undone Turn and a repeated one stood after is found in the log, also where no row holds it any more."""
    steps = [calls(("echo", {"text": "kept"})), says("done"), says("more"), says("and more"), says("once more")]
    async with Agent(steps, tools=[Echo(), ReadResult()]) as agent:
        await agent.ask("echo it")
        for text in ("and more", "/undo", "and yet more", "/retry"):
            await agent.ask(text)
        async with agent.sessions.open(KEY) as session:
            session.log.rows.clear()  # as after a cut

            assert await session.full_result(last_result(agent).entry) == "kept"
