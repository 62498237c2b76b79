"""3. Nothing accepted is lost: a message is on disk before it is acknowledged, and no answer is silently dropped.

More: tests/crash/ (every byte, every record, kill -9) and tests/property/test_log_recovery.py.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

from nanobot.bus.events import InboundMessage, Route
from nanobot.session.files import Layout
from tests.e2e.bots import bot_on
from tests.fakes.agent import KEY, Agent, Blocker, Echo
from tests.fakes.llm_server import LLMServer
from tests.fakes.provider import calls, says


async def test_what_is_acknowledged_is_on_disk(tmp_path: Path) -> None:
    """When ``accept`` returns, another process reads the message from the file."""
    message = InboundMessage(
        id="test:1:5",
        session_key="test:1",
        sender="42",
        text="do not lose me",
        route=Route("test", "1"),
        at=datetime.now(UTC),
    )
    async with LLMServer() as server, bot_on(server, "openai", tmp_path) as bot:
        await bot.accept(message)

        lines = Layout(tmp_path / "data").log("test:1").read_bytes().splitlines()
        assert [json.loads(line).get("content") for line in lines if b'"inbound"' in line] == ["do not lose me"]


async def test_an_accepted_message_is_answered_by_the_next_process() -> None:
    """The process that accepted it never got to it."""
    agent = Agent()
    message = InboundMessage(
        id="test:1:1", session_key=KEY, sender="42", text="hi", route=Route("test", "1"), at=agent.now
    )
    await agent.loop.accept(message)

    async with agent.after_restart([says("late but here")]) as later:
        await later.loop.recover()
        await later.quiet()

        assert later.answers == ["late but here"]


async def test_a_finished_step_is_kept_and_the_turn_goes_on() -> None:
    """A process that ends in mid-Turn loses neither the Turn nor what its tools found out."""
    block, echo = Blocker("idempotent"), Echo()
    agent = Agent([calls(("echo", {"text": "found"}), ("block", {}))], tools=[block, echo])
    async with agent:
        await agent.send("go")
        await block.entered.wait()

    block.gate.set()
    async with agent.after_restart([says("done")]) as later:
        await later.loop.recover()
        await later.quiet()

        assert later.answers == ["done"]
        assert [m.text for m in later.provider.requests[0].messages][-2:] == ["found", "let go"]
        assert echo.said == ["found"]


async def test_an_answer_nobody_confirmed_is_still_owed() -> None:
    """It is on disk with its route before it is sent, and handed out again until its platform has it."""
    agent = Agent([says("owed")])
    async with agent:
        await agent.send("hi")
        await agent.quiet()

    async with agent.after_restart() as later:
        await later.loop.recover()

        assert [(message.text, message.route) for message in later.outbound] == [("owed", Route("test", "1"))]
