"""A fork has the past of its session, and none of its debts."""

import pytest

from nanobot.errors import MisuseError
from nanobot.session.fork import fork
from tests.fakes.agent import KEY, Agent
from tests.fakes.provider import says


async def test_a_fork_goes_on_from_the_turn_it_was_made_at() -> None:
    """What was said later is not in it, and the original is as it was."""
    async with Agent([says("one"), says("two"), says("other")]) as agent:
        await agent.ask("first")
        await agent.ask("second")
        await fork(agent.store, KEY, "test:fork", at="t1", owner="test")
        await agent.ask("third", key="test:fork")

        assert [m.text.split("\n")[0] for m in agent.provider.requests[2].messages] == ["first", "one", "third"]
        assert len((await agent.log()).rows) == 4


async def test_a_fork_owes_nothing() -> None:
    """An answer that the original still owes is not sent twice."""
    async with Agent([says("one")]) as agent:
        await agent.send("first")
        await agent.quiet()
        await fork(agent.store, KEY, "test:fork", at="t1", owner="test")

        assert (await agent.log(KEY)).owed
        assert not (await agent.log("test:fork")).owed


@pytest.mark.parametrize(("key", "at", "new"), [(KEY, "t9", "n"), ("nobody", "t1", "n"), (KEY, "t1", KEY)])
async def test_a_fork_that_cannot_be_made_says_why(key: str, at: str, new: str) -> None:
    """Nothing is written then."""
    async with Agent([says("one")]) as agent:
        await agent.ask("first")

        with pytest.raises(MisuseError):
            await fork(agent.store, key, new, at=at, owner="test")


async def test_a_message_that_still_waits_stays_with_the_original() -> None:
    """What nobody had taken up when the Turn ended is answered by the original, never by the copy."""
    async with Agent([says("one"), says("two"), says("other")]) as agent:
        await agent.send("first")
        await agent.send("second", role="user")  # another role: it gets a Turn of its own
        await agent.quiet()
        await fork(agent.store, KEY, "test:fork", at="t1", owner="test")

        assert not (await agent.log("test:fork")).pending
