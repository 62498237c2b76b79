"""What a group says to others costs nothing, and is told with the next message that is said to us."""

from nanobot.bus.events import InboundMessage, Route
from nanobot.messages import UserMessage
from nanobot.session.inbox import OVERHEARD_MAX
from tests.fakes.agent import EPOCH, KEY, Agent, Blocker
from tests.fakes.provider import calls, says


async def overhear(agent: Agent, text: str) -> None:
    """Let Ann say something to somebody else."""
    message = InboundMessage(
        id=f"{KEY}:o{text}",
        session_key=KEY,
        sender="7",
        role="member",
        text=f"⟦Ann · 7⟧\n{text}",
        at=EPOCH,
        route=Route("test", "1"),
        overheard=True,
    )
    await agent.loop.accept(message)


async def told(agent: Agent) -> list[str]:
    """Return what the model was told, without the lines that say when."""
    rows = (await agent.log()).rows
    return [row.message.text.rpartition("\n\n[")[0] for row in rows if isinstance(row.message, UserMessage)]


async def test_d38_what_is_overheard_is_told_once_with_the_next_message() -> None:
    """No request for it alone, also after a restart; the next Turn has it, the one after that has not."""
    async with Agent() as agent:
        await overhear(agent, "pizza tonight?")
        await overhear(agent, "/stop it")
        await agent.quiet()
    async with agent.after_restart([says("pizza"), says("bye")]) as later:
        await later.loop.recover()
        await later.quiet()
        asked_before = len(later.provider.requests)
        await later.send("what do they want?")
        await later.quiet()
        await later.send("thanks", after_s=60)
        await later.quiet()
        first, second = await told(later)

    assert asked_before == 0
    head, *lines = first.split("\n\n")[0].splitlines()
    assert "nobody said it to you" in head
    assert lines == ["⟦Ann · 7⟧ pizza tonight?", "⟦Ann · 7⟧ /stop it", "[end of what was overheard]"]
    assert first.endswith("what do they want?")
    assert second == "thanks"


async def test_d38_it_is_bounded() -> None:
    """The newest are kept, long ones are cut and say so, and the whole has a limit."""
    async with Agent([says("ok")]) as agent:
        for number in range(OVERHEARD_MAX + 5):
            await overhear(agent, f"number {number} {'x' * 3_000}")
        await agent.send("well?")
        await agent.quiet()
        (text,) = await told(agent)

    assert len(text) < 7_000
    assert "number 34" in text
    assert "number 4 " not in text
    assert "… [cut]" in text


async def test_d38_a_steered_message_brings_what_was_overheard_meanwhile() -> None:
    """A Turn that runs hears of it when it is spoken to, and not before."""
    blocker = Blocker()
    async with Agent([calls(("block", {})), says("ok")], tools=[blocker]) as agent:
        await agent.send("work")
        await blocker.entered.wait()
        await overhear(agent, "make it blue")
        await agent.send("do as Ann says")
        blocker.gate.set()
        await agent.quiet()
        first, second = await told(agent)

    assert first == "work"
    assert "make it blue" in second
    assert second.endswith("do as Ann says")
