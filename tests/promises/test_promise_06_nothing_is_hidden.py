"""6. Nothing is hidden: text taken away from the model leaves a marker that says how much, why, and how to read the rest.

More: tests/property/test_results.py, tests/property/test_fit.py, tests/unit/agent/tools/test_read_result.py.
"""

import re
from pathlib import Path

from nanobot.agent.settings import AgentSettings, CompactionSettings
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.read_result import ReadResult
from nanobot.messages import ToolMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from tests.fakes.agent import Agent
from tests.fakes.provider import calls, says

LINES = [f"line {n} of the log" for n in range(3_000)]


def read_log() -> str:
    """Read the log."""
    return "\n".join(LINES)


def _results(request: LLMRequest) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, ToolMessage)]


async def test_a_cut_result_names_its_size_and_leads_to_the_rest(tmp_path: Path) -> None:
    """The marker's own id, given to read_result, shows what was left out."""

    def read_on(request: LLMRequest, emit: Emit) -> LLMResponse:
        found = re.search(r'read_result\("(e\d+)"', _results(request)[-1])
        assert found is not None
        return calls(("read_result", {"id": found[1], "pattern": "line 1500 "}))

    steps = [calls(("read_log", {})), read_on, says("found")]
    tools = [function_tool(read_log), ReadResult()]
    async with Agent(
        steps, tools=tools, settings=AgentSettings(max_tool_result_chars=2_000), workspace=tmp_path
    ) as agent:
        await agent.ask("look")

        (cut,) = _results(agent.provider.requests[1])
        assert len(cut) <= 2_000
        assert "line 1500 " not in cut
        assert re.search(r"\d[\d,]* (of|characters|lines)", cut)
        assert "line 1500 of the log" in _results(agent.provider.requests[2])[-1]


async def test_rows_left_out_to_fit_leave_a_line() -> None:
    """A conversation that no longer fits begins with a line that says so."""
    long = "word " * 2_000
    settings = AgentSettings(max_tokens=2_000, compaction=CompactionSettings(enabled=False))
    async with Agent([says(f"{n} {long}") for n in range(8)], settings=settings, window=12_000) as agent:
        for n in range(8):
            await agent.ask(f"question {n}")

        sent = [message.text for message in agent.provider.requests[-1].messages]
        assert not any("question 0" in text for text in sent)
        assert any("left out here" in text for text in sent)


async def test_results_compacted_to_fit_say_what_they_were_and_how_to_get_them_back() -> None:
    """Field fault A16: the line says that the call worked, so that the model does not run it again."""

    def chatter(number: int) -> str:
        """Say much."""
        return f"{number} " + "lorem ipsum " * 300

    chatty = function_tool(chatter, chatty=True)
    steps = [calls(("chatter", {"number": n})) for n in range(24)]
    settings = AgentSettings(max_tokens=2_000)
    async with Agent([*steps, says("done")], tools=[chatty], settings=settings, window=16_000) as agent:
        await agent.ask("go")

        lines = [text for text in _results(agent.provider.requests[-1]) if "lorem" not in text]
        assert lines
        for line in lines:
            assert "chatter" in line
            assert re.search(r'read_result\("e\d+"\)', line)
            assert re.search(r"\d[\d,]* characters", line)
            assert re.search(r"finished|done|completed", line)
