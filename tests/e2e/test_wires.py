"""Whole Turns over both wires and real sockets: every request is accepted, every log is legal and goes on after a restart."""

from enum import Enum
from pathlib import Path
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.turn import TurnResult
from tests.e2e.bots import KEY, WIRES, Wire, bot_on, impatient, log_faults
from tests.fakes.llm_server import Call, LLMServer, Oddity, Reply, Tokens

BOTH = pytest.mark.parametrize("wire", WIRES)


async def talk(server: LLMServer, wire: Wire, home: Path, *texts: str, **agent: Any) -> list[TurnResult]:
    """Say these, one after the other, to a bot of one process; ``agent`` are the agent's settings."""
    (home / "workspace").mkdir(exist_ok=True)
    for number in range(40):
        (home / "workspace" / f"{number}.txt").write_text(f"number {number}\n")
    async with bot_on(server, wire, home, **agent) as bot:
        return [await bot.process_direct(text, session_key=KEY) for text in texts]


async def goes_on(server: LLMServer, wire: Wire, home: Path) -> None:
    """Check the log, restart, say one thing more, and check that the server took everything."""
    assert await log_faults(home) == []

    server.queue(Reply("still here"))
    (result,) = await talk(server, wire, home, "are you there?")

    assert server.refusals == []
    assert (result.content, result.error) == ("still here", None)
    assert await log_faults(home) == []


def read(*numbers: int) -> list[Call]:
    """Return calls that read these files."""
    return [Call("read_file", {"path": f"{number}.txt"}) for number in numbers]


@BOTH
async def test_a_turn_of_text(wire: Wire, tmp_path: Path) -> None:
    """One request, one answer, its usage, and the conversation goes on after a restart."""
    async with LLMServer([Reply("Hello!", usage=Tokens(100, 7))]) as server:
        (result,) = await talk(server, wire, tmp_path, "hi")

        assert (result.content, result.stop_reason, result.error) == ("Hello!", "completed", None)
        assert (result.usage.input_tokens, result.usage.output_tokens, result.iterations) == (100, 7, 1)
        await goes_on(server, wire, tmp_path)


@BOTH
async def test_a_turn_with_one_call(wire: Wire, tmp_path: Path) -> None:
    """The tool runs for real and the model gets what it read."""
    async with LLMServer([Reply("Let me look.", read(3)), Reply("It says 3.")]) as server:
        (result,) = await talk(server, wire, tmp_path, "what is in 3.txt?")

        assert (result.content, result.tools_used, result.iterations) == ("It says 3.", ("read_file",), 2)
        assert "number 3" in server.chats[1].raw.decode()
        await goes_on(server, wire, tmp_path)


@BOTH
async def test_a_turn_with_five_parallel_calls(wire: Wire, tmp_path: Path) -> None:
    """Five calls of one answer get five results, in the order of the calls."""
    async with LLMServer([Reply(tool_calls=read(1, 2, 3, 4, 5)), Reply("Read all.")]) as server:
        (result,) = await talk(server, wire, tmp_path, "read five")

        sent = server.chats[1].raw.decode()
        places = [sent.index(f"number {number}") for number in (1, 2, 3, 4, 5)]
        assert places == sorted(places)
        assert (result.content, len(result.tools_used)) == ("Read all.", 5)
        await goes_on(server, wire, tmp_path)


@BOTH
async def test_a_turn_of_thirty_iterations(wire: Wire, tmp_path: Path) -> None:
    """A long Turn stays legal to its end, and each request repeats the one before it byte for byte."""
    replies = [Reply(tool_calls=read(number)) for number in range(29)]
    async with LLMServer([*replies, Reply("Done.")]) as server:
        (result,) = await talk(server, wire, tmp_path, "read them one by one")

        assert (result.content, result.iterations, len(result.tools_used)) == ("Done.", 30, 29)
        for earlier, later in zip(server.chats, server.chats[1:], strict=False):
            assert later.elements[: len(earlier.elements)] == earlier.elements
        await goes_on(server, wire, tmp_path)


@BOTH
async def test_the_last_iteration_sums_up(wire: Wire, tmp_path: Path) -> None:
    """At the limit the model is asked once more, without calls, and its summary is the answer."""
    replies = [Reply(tool_calls=read(number)) for number in range(4)]
    async with LLMServer([*replies, Reply("Read three; one is open.")]) as server:
        (result,) = await talk(server, wire, tmp_path, "go", max_iterations=4)

        assert (result.content, result.stop_reason) == ("Read three; one is open.", "max_iterations")
        assert server.chats[-1].body["tool_choice"] in ("none", {"type": "none"})
        await goes_on(server, wire, tmp_path)


CALL_ODDITIES: list[tuple[Wire, Oddity]] = [
    *(
        ("openai", odd)
        for odd in (
            "missing_ids",
            "empty_ids",
            "duplicate_ids",
            "no_index",
            "interleaved",
            "null_continuation",
            "empty_continuation",
            "repeat_id_name",
            "fragmented_names",
            "empty_name_first",
            "args_before_name",
            "args_object",
            "split_escapes",
            "stop_with_calls",
            "null_content",
            "usage_in_finish",
            "usage_every_chunk",
        )
    ),
    ("anthropic", "duplicate_ids"),
    ("anthropic", "pings"),
    ("anthropic", "input_in_start"),
]


@pytest.mark.parametrize(("wire", "odd"), CALL_ODDITIES)
async def test_calls_written_oddly_are_run_once_each(wire: Wire, odd: Oddity, tmp_path: Path) -> None:
    """However a server writes its calls, each runs once with its own arguments, and its result goes back legally."""
    server_replies = [Reply(tool_calls=read(1, 2), oddities=[odd]), Reply("Read.", oddities=[odd])]
    async with LLMServer(server_replies) as server:
        (result,) = await talk(server, wire, tmp_path, "read")

        assert (result.content, result.tools_used) == ("Read.", ("read_file", "read_file"))
        assert [f"number {number}" in server.chats[1].raw.decode() for number in (1, 2)] == [True, True]
        await goes_on(server, wire, tmp_path)


@pytest.mark.parametrize("wire", WIRES)
async def test_e04_broken_json_is_told_and_nothing_runs(wire: Wire, tmp_path: Path) -> None:
    """Arguments cut in the middle never become a call; the model hears what was wrong and tries again."""
    broken = Reply(tool_calls=[Call("write_file", {"path": "x.txt", "content": "all of it"})], oddities=["broken_json"])
    async with LLMServer([broken, Reply("I could not write it.")]) as server:
        (result,) = await talk(server, wire, tmp_path, "write")

        assert result.content == "I could not write it."
        assert not (tmp_path / "workspace" / "x.txt").exists()
        assert "JSON" in server.chats[1].raw.decode()
        await goes_on(server, wire, tmp_path)


REASONING: list[tuple[Wire, Oddity]] = [
    ("openai", "think_tags"),
    ("openai", "reasoning_field"),
    ("anthropic", "redacted_thinking"),
    ("anthropic", "empty_thinking"),
]


@pytest.mark.parametrize(("wire", "odd"), REASONING)
async def test_reasoning_written_oddly_is_no_answer(wire: Wire, odd: Oddity, tmp_path: Path) -> None:
    """Reasoning is never shown as the answer, and goes back in a form that the server takes."""
    replies = [
        Reply("Looking.", read(1), reasoning="hidden thought", oddities=[odd]),
        Reply("Read.", reasoning="another thought", oddities=[odd]),
    ]
    async with LLMServer(replies, strict_thinking=True, lenient_fields=["reasoning", "reasoning_content"]) as server:
        (result,) = await talk(server, wire, tmp_path, "read", reasoning_effort="low")

        assert result.content == "Read."
        await goes_on(server, wire, tmp_path)


@pytest.mark.parametrize("odd", ["null_choices", "empty_choices"])
async def test_e08_answers_without_choices_end_in_one_sentence(odd: Oddity, tmp_path: Path) -> None:
    """A server that answers nothing at all is asked again, then named; nothing of it enters the conversation."""
    async with LLMServer([Reply("lost", oddities=[odd])] * 6) as server:
        async with bot_on(server, "openai", tmp_path, provider=impatient(server, "openai")) as bot:
            result = await bot.process_direct("hi", session_key=KEY)

        assert result.stop_reason in ("error", "empty")
        assert result.error
        assert "lost" not in result.content
        assert len(server.chats) <= 6
        assert await log_faults(tmp_path) == []


@BOTH
async def test_a_stream_without_its_last_event(wire: Wire, tmp_path: Path) -> None:
    """Servers leave out the very last event; an answer that named its end before is whole all the same."""
    async with LLMServer([Reply("whole", oddities=["no_done"])]) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            result = await bot.process_direct("hi", session_key=KEY)

        assert (result.content, result.error) == ("whole", None)
        assert await log_faults(tmp_path) == []


class Size(Enum):
    """How large."""

    SMALL = "s"
    LARGE = "l"


class Topping(BaseModel):
    """What goes on it."""

    name: str
    grams: int = 20


@BOTH
async def test_own_tools_of_any_types_are_taken(wire: Wire, tmp_path: Path) -> None:
    """A decorated function with enums, nested models, unions and options is offered, called and answered on both wires."""
    arguments = {"size": "l", "toppings": [{"name": "basil"}], "note": None, "wish": {"name": "oil", "grams": 5}}
    async with LLMServer([Reply("", [Call("bake", arguments)]), Reply("done")]) as server:
        (tmp_path / "workspace").mkdir()
        async with bot_on(server, wire, tmp_path) as bot:

            @bot.tool(effect="pure")
            async def bake(
                context: ToolContext,
                size: Size,
                toppings: list[Topping],
                wish: Topping | str,
                note: Optional[Literal["crisp", "soft"]] = None,  # noqa: UP045  # as people write it
                side: Size | None = None,
            ) -> dict[str, object]:
                """Bake a pizza.

                Args:
                    size: how large
                """
                assert isinstance(wish, Topping)
                return {"size": size.name, "first": toppings[0].grams, "wish": wish.grams, "in": context.session_key}

            result = await bot.process_direct("pizza", session_key=KEY)

        assert (result.content, result.tools_used, result.error) == ("done", ("bake",), None)
        assert server.refusals == []
        seen = server.chats[1].raw.decode()
        assert '\\"size\\": \\"LARGE\\", \\"first\\": 20, \\"wish\\": 5' in seen
        assert "how large" in seen
        assert "$ref" not in seen
        await goes_on(server, wire, tmp_path)
