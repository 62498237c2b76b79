"""8. Cost follows the new work: what a Turn writes, encodes and counts depends on what is new, not on the session's length.

Counted, not timed, so that it cannot flicker; ``make bench`` has the times.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from nanobot.messages import Message
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.files import Layout
from tests.e2e.bots import KEY, WIRES, Wire, bot_on
from tests.fakes.agent import Agent, Echo
from tests.fakes.llm_server import LLMServer, Reply
from tests.fakes.provider import calls, says


@dataclass
class Newcomers:
    """A model that counts how many messages of a request it had not been sent before, as objects."""

    def __post_init__(self) -> None:
        self.known: dict[int, Message] = {}
        self.counts: list[int] = []

    def __call__(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        new = [message for message in request.messages if self.known.get(id(message)) is not message]
        self.known |= {id(message): message for message in new}
        self.counts.append(len(new))
        return says("ok") if len(self.counts) % 2 == 0 else calls(("echo", {"text": "x"}))


async def test_messages_are_the_same_objects_from_request_to_request() -> None:
    """Encodings and token counts are kept with a message, so they are made once: for what is new."""
    model = Newcomers()
    async with Agent([model] * 200, tools=[Echo()]) as agent:
        for n in range(100):
            await agent.ask(f"question {n}")

    assert model.counts[:2] == [1, 2]
    assert set(model.counts[2:]) == {2}


async def test_a_turn_appends_the_same_lines_however_long_the_session_is() -> None:
    """The log only grows by what happened."""
    async with Agent([says("ok")] * 101) as agent:
        grown: list[int] = []
        for n in range(101):
            before = len(agent.store.appended)
            await agent.ask(f"question {n}")
            grown.append(len(agent.store.appended) - before)

    assert set(grown[1:]) == {grown[1]}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_writes_the_same_bytes_however_long_the_session_is(wire: Wire, tmp_path: Path) -> None:
    """The file of a long session grows by a Turn's own lines, and earlier bytes are never written again."""
    path = Layout(tmp_path / "data").log(KEY)
    async with LLMServer() as server, bot_on(server, wire, tmp_path) as bot:
        server.responder = lambda _: Reply("ok")
        sizes: list[int] = []
        for n in range(100, 150):
            await bot.process_direct(f"question {n}", session_key=KEY)
            sizes.append(path.stat().st_size)
        first = path.read_bytes()[: sizes[0]]

        growth = [after - before for before, after in pairwise(sizes)]
        assert max(growth[5:]) - min(growth[5:]) < 100
        assert path.read_bytes().startswith(first)
