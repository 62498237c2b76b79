"""One conversation over several wires: what one vendor said is legal at the other, and nothing said is lost."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.bots import KEY, QUICK, Wire, bot_on, chain, impatient, log_faults
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.pictures import png

ROUND_TRIPS = pytest.mark.parametrize(
    "wires", [("openai", "anthropic", "openai"), ("anthropic", "openai", "anthropic")]
)


def strict(replies: Sequence[Reply], *, strict_roles: bool = False) -> LLMServer:
    """Return a server that is strict about thinking and takes the reasoning fields of compatible vendors."""
    fields = ["reasoning", "reasoning_content"]
    return LLMServer(replies, strict_thinking=True, strict_roles=strict_roles, lenient_fields=fields)


def look(word: str) -> str:
    """Look a word up.

    Args:
        word: the word.
    """
    return f"meaning of {word}"


def round_of(word: str) -> list[Reply]:
    """Return two answers: thinking, text and two calls; then thinking and text."""
    wanted = [Call("look", {"word": word}), Call("look", {"word": f"{word}s"})]
    return [
        Reply(f"I look {word} up.", wanted, reasoning=f"They want {word}."),
        Reply(f"That is {word}.", reasoning=f"I know {word} now."),
    ]


@pytest.mark.parametrize("strict_roles", [False, True])
@ROUND_TRIPS
async def test_a_conversation_goes_from_one_wire_to_the_other_and_back(
    wires: tuple[Wire, ...], strict_roles: bool, tmp_path: Path
) -> None:
    """Text, calls, results and pictures reach the other vendor, reasoning is kept for its own, and all is legal."""
    picture = tmp_path / "dot.png"
    picture.write_bytes(png())
    words = ("ant", "bee", "cat")
    replies = [reply for word in words for reply in round_of(word)]
    async with strict(replies, strict_roles=strict_roles) as server:
        for wire, word in zip(wires, words, strict=True):
            async with bot_on(server, wire, tmp_path, tools=[look], reasoning_effort="low") as bot:
                result = await bot.process_direct(f"what is {word}?", session_key=KEY, media=[picture])

            assert (result.content, result.error) == (f"That is {word}.", None)
            assert await log_faults(tmp_path) == []

        assert server.refusals == []
        last = server.chats[-1].raw.decode()
        said = [f"{what} {word}" for word in words for what in ("what is", "meaning of")]
        assert [text for text in said if text not in last] == []
        assert last.count("image/png") == 3


async def test_own_reasoning_comes_back_after_a_detour(tmp_path: Path) -> None:
    """What a vendor signed is sent back to it verbatim although another vendor answered in between."""
    replies = [*round_of("ant"), Reply("Between."), Reply("Back.")]
    async with strict(replies) as server:
        for wire in ("anthropic", "openai", "anthropic"):
            async with bot_on(server, wire, tmp_path, tools=[look], reasoning_effort="low") as bot:
                await bot.process_direct(f"to {wire}", session_key=KEY)

        assert server.refusals == []
        assert "They want ant." not in server.chats[2].raw.decode()
        assert "They want ant." in server.chats[3].raw.decode()


async def test_the_model_command_crosses_wires_within_one_process(tmp_path: Path) -> None:
    """/model moves a running conversation to another vendor and back."""
    replies = [reply for word in ("ant", "bee", "cat") for reply in round_of(word)]
    async with strict(replies) as server, bot_on(server, "openai", tmp_path, tools=[look]) as bot:
        for model, word in (("openai", "ant"), ("anthropic", "bee"), ("openai", "cat")):
            told = await bot.process_direct(f"/model {model}/test-model", session_key=KEY)
            result = await bot.process_direct(f"what is {word}?", session_key=KEY)

            assert told.stop_reason == "command"
            assert result.content == f"That is {word}."
        assert [request.wire for request in server.chats] == ["openai"] * 2 + ["anthropic"] * 2 + ["openai"] * 2
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@pytest.mark.parametrize(("first", "second"), [("openai", "anthropic"), ("anthropic", "openai")])
async def test_e16_another_vendor_takes_over_in_the_middle_of_a_turn(first: Wire, second: Wire, tmp_path: Path) -> None:
    """A vendor that goes down between two tool rounds is replaced; the calls it made are not made again."""
    seen: list[str] = []

    def note(word: str) -> str:
        """Note a word."""
        seen.append(word)
        return "noted"

    call = Reply("First.", [Call("note", {"word": "one"})], reasoning="I note one.")
    more = Reply("Then.", [Call("note", {"word": "two"})], reasoning="I note two.")
    down = Reply(status=503)
    replies = [call, *[down] * QUICK.attempts, more, Reply("Both noted.", reasoning="Done.")]
    async with strict(replies) as server:
        both = chain(impatient(server, first), impatient(server, second))
        bot = bot_on(
            server, first, tmp_path, tools=[note], provider=both, reasoning_effort="low", model=f"{first}/test-model"
        )
        async with bot:
            result = await bot.process_direct("note both", session_key=KEY)

        assert (result.content, result.error, seen) == ("Both noted.", None, ["one", "two"])
        assert [request.wire for request in server.chats if request.status == 200] == [first, second, first]
        assert server.refusals == []
        assert await log_faults(tmp_path) == []
