"""4. Nothing is done twice by accident: a repeated update, a call with a recorded outcome, an answer that was confirmed.

More: tests/crash/test_turn_replay.py goes on after every record of a Turn.
"""

from tests.fakes.agent import Agent, Blocker, Echo
from tests.fakes.provider import calls, says


async def test_a_redelivered_update_is_recognised() -> None:
    """Also while it is being worked on, afterwards, and by the next process."""
    block = Blocker()
    agent = Agent([calls(("block", {})), says("once")], tools=[block])
    async with agent:
        await agent.send("hi", message_id="test:1:7")
        await block.entered.wait()
        await agent.send("hi", message_id="test:1:7")
        block.gate.set()
        await agent.quiet()
        await agent.send("hi", message_id="test:1:7")
        await agent.quiet()

        assert (agent.answers, block.runs) == (["once"], 1)
    async with agent.after_restart() as later:
        await later.send("hi", message_id="test:1:7")
        await later.quiet()

        assert later.provider.requests == []


async def test_a_call_with_a_recorded_outcome_is_not_run_again() -> None:
    """A Turn that goes on after a restart runs only what has no result, and asks for no answer that is on disk."""
    echo, block = Echo(), Blocker("idempotent")
    agent = Agent([calls(("echo", {"text": "a"}), ("block", {}))], tools=[echo, block])
    async with agent:
        await agent.send("go")
        await block.entered.wait()

    block.gate.set()
    async with agent.after_restart([says("done")]) as later:
        await later.loop.recover()
        await later.quiet()

        assert (echo.said, block.runs, len(later.provider.requests)) == (["a"], 2, 1)


async def test_a_confirmed_answer_is_not_sent_again() -> None:
    """What its platform has is settled, for every later process."""
    agent = Agent([says("sent")])
    async with agent:
        await agent.send("hi")
        await agent.quiet()
        await agent.deliver_all()

    async with agent.after_restart() as later:
        await later.loop.recover()

        assert later.outbound == []
