"""One server's owner: whatever happens to a connection, the next call finds a server or a sentence."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from nanobot.agent.tools.mcp.life import Backoff
from nanobot.agent.tools.mcp.remote import Connection, Declined, Listing, Lost, Reply
from nanobot.agent.tools.mcp.server import NotUp, Server, TimedOut
from nanobot.agent.tools.mcp.settings import McpServerSettings
from tests.fakes.mcp.connection import FakeServer, listing

QUICK = Backoff(least_s=0.0, base_s=0.01, cap_s=0.05)
SLOW = Backoff(least_s=0.0, base_s=60.0)


@asynccontextmanager
async def running(
    fake: FakeServer,
    *,
    backoff: Backoff = QUICK,
    start_timeout_s: float = 2.0,
    listed: Callable[[Listing], None] = lambda listing: None,
) -> AsyncGenerator[Server]:
    settings = McpServerSettings(command="fake", timeout_s=0.2, start_timeout_s=start_timeout_s)
    server = Server("fake", settings, fake.serve, listed=listed, backoff=backoff)
    server.start()
    try:
        yield server
    finally:
        await server.close()


async def call(server: Server, *, repeatable: bool = False, timeout_s: float | None = None) -> str:
    async def ask(connection: Connection) -> Reply:
        return await connection.call("one", {})

    return (await server.request(ask, repeatable=repeatable, timeout_s=timeout_s)).text


async def test_a_call_waits_for_its_server_to_come_up() -> None:
    """A call right after the start needs no luck."""
    async with running(FakeServer()) as server:
        assert await call(server) == "one ran"
        assert server.line() == "mcp fake: up, 1 tools (fake 1)"


async def test_h10_a_server_that_does_not_start_is_told_and_tried_again() -> None:
    """The reason is in the status, and the next try may succeed."""
    fake = FakeServer(refuse=[Lost("no such command", reached=False)])
    async with running(fake, backoff=SLOW) as server:
        await server.settled.wait()
        told = server.line()
        answer = await call(server)

    assert told == "mcp fake: down: no such command; tried again in 60 s"
    assert answer == "one ran"
    assert fake.starts == 2


async def test_a_server_that_stays_down_is_a_sentence_after_one_try() -> None:
    """Nobody waits for the whole backoff, and nothing was run."""
    fake = FakeServer(refuse=[Lost(f"broken {n}") for n in range(9)])
    async with running(fake, backoff=SLOW) as server:
        await server.settled.wait()
        with pytest.raises(NotUp, match="down: broken 1"):
            await call(server)

    assert fake.calls == []


async def test_a_start_that_hangs_is_bounded() -> None:
    """A server that says nothing is given up, and another try begins."""
    fake = FakeServer(hangs=True)
    async with running(fake, start_timeout_s=0.05, backoff=SLOW) as server:
        await server.settled.wait()
        told = server.line()
        fake.hangs = False

        assert "it did not start within 0.05 s" in told
        assert await call(server) == "one ran"


async def test_h11_a_call_that_did_not_arrive_is_sent_again_over_a_new_connection() -> None:
    """A server that was restarted has forgotten us: the call succeeds all the same, whatever it does."""
    fake = FakeServer()
    refusals = [Lost("it has forgotten us", reached=False)]

    def answer(tool: str, arguments: object) -> Reply:
        if refusals:
            raise refusals.pop()
        return Reply("again")

    fake.answer = answer
    async with running(fake) as server:
        assert await call(server) == "again"

    assert fake.starts == 2


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_call_that_may_have_arrived_is_repeated_only_where_that_does_no_harm(repeatable: bool) -> None:
    """An opaque call under which the connection broke is told, and not run twice."""
    fake = FakeServer()

    def answer(tool: str, arguments: object) -> Reply:
        if len(fake.calls) == 1 and fake.running is not None:
            fake.running.breaks("it crashed")
            raise Lost("connection closed")
        return Reply("again")

    fake.answer = answer
    async with running(fake) as server:
        if repeatable:
            assert await call(server, repeatable=True) == "again"
        else:
            with pytest.raises(Lost, match="it crashed"):
                await call(server)

    assert len(fake.calls) == (2 if repeatable else 1)


async def test_a_server_that_hangs_is_started_again_after_a_call_timed_out() -> None:
    """The call ends in time, and so does the hanging server."""
    fake = FakeServer()
    async with running(fake) as server:
        await server.settled.wait()
        assert fake.running is not None
        fake.running.deaf = True
        with pytest.raises(TimedOut):
            await call(server, timeout_s=0.05)
        while fake.starts < 2:  # noqa: ASYNC110  # a fake has no event for it
            await asyncio.sleep(0.005)

        assert await call(server) == "one ran"


async def test_a_slow_call_of_a_healthy_server_restarts_nothing() -> None:
    """A call that takes too long is not the server's end."""
    fake = FakeServer()
    async with running(fake) as server:
        await server.settled.wait()
        with pytest.raises(TimedOut):
            await server.request(lambda connection: asyncio.sleep(5), repeatable=False, timeout_s=0.02)
        await asyncio.sleep(0.02)

        assert fake.starts == 1
        assert await call(server) == "one ran"


async def test_what_the_server_declines_is_not_tried_again() -> None:
    """A refusal is an answer."""
    fake = FakeServer()

    def answer(tool: str, arguments: object) -> Reply:
        raise Declined("no such tool")

    fake.answer = answer
    async with running(fake) as server:
        with pytest.raises(Declined, match="no such tool"):
            await call(server, repeatable=True)

    assert len(fake.calls) == 1


async def test_a_changed_list_is_taken_up() -> None:
    """When the server says that its tools changed, the registry hears of the new ones."""
    seen: list[list[str]] = []
    fake = FakeServer()
    async with running(fake, listed=lambda found: seen.append([tool.name for tool in found.tools])) as server:
        await server.settled.wait()
        assert fake.running is not None
        fake.running.changes(listing("one", "two"))
        async with asyncio.timeout(2):
            while len(seen) < 2:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.01)

    assert seen == [["one"], ["one", "two"]]


async def test_a_cancelled_call_leaves_the_server_as_it_is() -> None:
    """A stopped Turn stops its request, and nothing else."""
    fake = FakeServer()
    async with running(fake) as server:
        await server.settled.wait()
        waiting = asyncio.create_task(server.request(lambda connection: asyncio.sleep(5), repeatable=False))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})

        assert waiting.cancelled()
        assert await call(server) == "one ran"
    assert fake.starts == 1


async def test_a_fault_of_ours_in_a_connection_is_a_reason_and_no_crash() -> None:
    """Even what nobody thought of ends in a status."""
    fake = FakeServer(refuse=[RuntimeError("unheard of")])
    async with running(fake, backoff=SLOW) as server:
        await server.settled.wait()

        assert "RuntimeError: unheard of" in server.line()


@pytest.mark.parametrize(("failures", "delay_s"), [(1, 1), (2, 2), (5, 16), (50, 300)])
def test_the_waits_double_up_to_a_limit(failures: int, delay_s: float) -> None:
    """A server that is down for long is not tried for ever at once."""
    assert Backoff().delay_s(failures) == delay_s
