"""5. The model always gets a legal request, inside its window, and the log is never edited to please a provider.

More: tests/property/test_passes.py, tests/property/test_turns.py, tests/e2e/test_conversation_damaged.py.
"""

from nanobot.agent.settings import AgentSettings, CompactionSettings
from nanobot.agent.tokens import estimate_message, estimate_text, estimate_tools
from nanobot.agent.tools.function import function_tool
from nanobot.errors import Unavailable
from nanobot.messages import AssistantMessage, UserMessage
from nanobot.providers.base import LLMRequest
from nanobot.session.entries import Started, Step
from tests.fakes.agent import KEY, Agent, Blocker, Echo
from tests.fakes.legality import illegal
from tests.fakes.provider import calls, says

WINDOW, ROOM = 12_000, 2_000


def _tokens(request: LLMRequest) -> int:
    return estimate_text(request.system) + estimate_tools(request.tools) + sum(map(estimate_message, request.messages))


async def test_every_call_is_answered_once_whatever_ended_the_turn() -> None:
    """Stops, limits, broken calls and silent models leave nothing that the next request could be refused for."""
    block = Blocker()
    steps = [
        calls(("block", {}), ("echo", {"text": "x"}), ("nothing", {}), ("echo", "{cut")),
        Unavailable("down"),
        says(""),
        says(""),
        calls(("echo", {"text": "y"}), ("echo", {"text": "y"})),
        says("fine"),
    ]
    async with Agent(steps, tools=[block, Echo()], settings=AgentSettings(turn_timeout_s=0.05)) as agent:
        for text in ("one", "two", "three", "four"):
            await agent.ask(text)

        assert [illegal(request) for request in agent.provider.requests] == [None] * 6
        assert not isinstance(agent.provider.requests[-1].messages[-1], AssistantMessage)


async def test_a_request_fits_its_window_with_tools_and_room_for_the_answer() -> None:
    """Long results and long conversations are cut until prompt, schemas and answer fit together."""

    def page(number: int) -> str:
        """Read a page."""
        return f"page {number} " + "lorem ipsum dolor " * 400

    steps = [calls(("page", {"number": n})) for n in range(12)]
    settings = AgentSettings(max_tokens=ROOM)
    async with Agent([*steps, says("read")], tools=[function_tool(page)], settings=settings, window=WINDOW) as agent:
        result = await agent.ask("read it all")

        assert result.error is None
        assert max(map(_tokens, agent.provider.requests)) + ROOM <= WINDOW
        assert [illegal(request) for request in agent.provider.requests] == [None] * 13
        assert all("read it all" in _people(request) for request in agent.provider.requests)


async def test_what_is_cut_for_a_request_stays_in_the_log() -> None:
    """Governance happens on a copy: the log holds every row as it came."""
    long = "word " * 2_000
    settings = AgentSettings(max_tokens=ROOM, compaction=CompactionSettings(enabled=False))
    async with Agent([says(f"{n} {long}") for n in range(8)], settings=settings, window=WINDOW) as agent:
        for n in range(8):
            await agent.ask(f"question {n}")

        logged = [entry.message.text for entry in await agent.entries(KEY) if isinstance(entry, Started | Step)]
        assert [text.split("\n")[0] for text in logged[::2]] == [f"question {n}" for n in range(8)]
        assert logged[1::2] == [f"{n} {long}" for n in range(8)]
        assert len(agent.provider.requests[-1].messages) < 15


def _people(request: LLMRequest) -> str:
    return " ".join(message.text for message in request.messages if isinstance(message, UserMessage))
