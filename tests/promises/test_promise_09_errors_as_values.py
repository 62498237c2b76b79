"""9. Errors are values the right person can act on: the model, the user, the operator; a bad config stops the start.

More: tests/unit/config/ (``test_f01_*``), tests/unit/providers/test_faults.py, tests/unit/agent/tools/test_registry.py.
"""

import logging
from pathlib import Path

import pytest

from nanobot import Nanobot
from nanobot.agent.tools.function import function_tool
from nanobot.errors import AuthFailed, ConfigError
from nanobot.messages import AssistantMessage, JsonObject, ToolMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Finished
from tests.fakes.agent import Agent
from tests.fakes.provider import calls, says


def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


async def test_the_model_is_told_what_it_can_correct() -> None:
    """Whether the name, the arguments or the run was wrong, and what could be tried; the Turn goes on."""
    wanted: list[tuple[str, JsonObject | str]] = [
        ("divdie", {"a": 1, "b": 1}),
        ("divide", {"a": "one", "b": 1}),
        ("divide", '{"a": 1'),
        ("divide", {"a": 1, "b": 0}),
    ]
    async with Agent([*(calls(one) for one in wanted), says("sorry")], tools=[function_tool(divide)]) as agent:
        result = await agent.ask("go")

        told = [m for m in agent.provider.requests[-1].messages if isinstance(m, ToolMessage)]
        assert [m.is_error for m in told] == [True] * 4
        words = ("divide", "a:", "JSON", "ZeroDivisionError")
        assert [word in m.text for word, m in zip(words, told, strict=True)] == [True] * 4
        assert result.content == "sorry"


async def test_the_user_gets_one_sentence_and_the_log_the_cause() -> None:
    """A failed model call is one plain sentence; it is in the record and never among the model's words."""
    async with Agent([AuthFailed("The key of 'main' was refused."), says("back")]) as agent:
        await agent.send("hi")
        await agent.quiet()
        await agent.ask("again")

        assert agent.answers == ["⚠ The key of 'main' was refused."]
        finished = [entry for entry in await agent.entries() if isinstance(entry, Finished)]
        assert (finished[0].stop_reason, finished[0].error) == ("error", "The key of 'main' was refused.")
        assert not [m for m in agent.provider.requests[1].messages if isinstance(m, AssistantMessage)]


async def test_a_fault_of_ours_is_one_sentence_and_a_traceback_for_the_operator(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody sees internals in a chat; the operator's log has them, and the session goes on."""

    def broken(request: LLMRequest, emit: Emit) -> LLMResponse:
        raise KeyError("internal detail")

    async with Agent([broken, says("fine")]) as agent:
        with caplog.at_level(logging.ERROR):
            failed = await agent.ask("hi")
        after = await agent.ask("again")

        assert failed.stop_reason == "error"
        assert "internal detail" not in (failed.error or "")
        assert "internal detail" in caplog.text
        assert after.content == "fine"


def test_a_bad_config_stops_the_start_with_file_key_and_fix(tmp_path: Path) -> None:
    """It never falls back to a default, and never shows a value."""
    config = tmp_path / "config.yaml"
    config.write_text("agent:\n  max_iteratoins: 5\nproviders:\n  openai:\n    api_key: 12345secret\n")

    with pytest.raises(ConfigError) as caught:
        Nanobot.from_config(config)

    told = str(caught.value)
    assert [part for part in (str(config), "max_iteratoins", "max_iterations") if part not in told] == []
    assert "12345secret" not in told
