"""Field faults of what models answer: empty, cut off, repeated, as text.  Whole Turns over both wires."""

from pathlib import Path
from typing import Any

import pytest

from nanobot.agent.decide import MAX_MALFORMED
from nanobot.bus.runtime_events import RuntimeEvent, TextDelta
from tests.e2e.bots import KEY, WIRES, Wire, bot_on, impatient, log_faults
from tests.fakes.llm_server import Call, LLMServer, Recorded, Reply
from tests.fakes.pictures import png

BOTH = pytest.mark.parametrize("wire", WIRES)


def forbids_calls(request: Recorded) -> bool:
    """Whether the request keeps its tools and forbids calls."""
    return request.body.get("tool_choice") in ("none", {"type": "none"}) and bool(request.body.get("tools"))


EMPTY = {
    "nothing": Reply(""),
    "blanks": Reply("  \n "),
    "only reasoning": Reply("", reasoning="I am done."),
    "a promise of calls": Reply("", finish="tool_calls"),
}


@BOTH
@pytest.mark.parametrize("what", EMPTY)
async def test_e02_an_empty_answer_after_tools_is_asked_for_once_more(wire: Wire, what: str, tmp_path: Path) -> None:
    """The model is asked to say something, with calls forbidden, and its answer is the answer."""
    replies = [Reply(tool_calls=[Call("list_dir", {"path": "."})]), EMPTY[what], Reply("Nothing is there.")]
    async with (
        LLMServer(replies, lenient_fields=["reasoning", "reasoning_content"]) as server,
        bot_on(server, wire, tmp_path) as bot,
    ):
        result = await bot.process_direct("look", session_key=KEY)

        assert (result.content, result.stop_reason, result.error) == ("Nothing is there.", "completed", None)
        assert [forbids_calls(request) for request in server.chats] == [False, False, True]
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e02_a_model_that_stays_silent_is_reported_with_what_ran(wire: Wire, tmp_path: Path) -> None:
    """After the second empty answer the person hears that there is none, and which tools had run."""
    replies = [Reply(tool_calls=[Call("list_dir", {"path": "."})] * 2), Reply(""), Reply(""), Reply("Hello again.")]
    async with LLMServer(replies) as server, bot_on(server, wire, tmp_path) as bot:
        result = await bot.process_direct("look", session_key=KEY)
        again = await bot.process_direct("hello?", session_key=KEY)

        assert result.stop_reason == "empty"
        assert "no answer" in (result.error or "")
        assert "list_dir" in (result.error or "")
        assert again.content == "Hello again."
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e01_an_answer_of_nothing_and_an_error_are_no_poison(wire: Wire, tmp_path: Path) -> None:
    """Null answers and errors are told, never stored as the model's words, and the next request is legal."""
    broken = Reply(
        status=400, error={"type": "error", "error": {"type": "invalid_request_error", "message": "no luck"}}
    )
    replies = [Reply("", oddities=["null_content"]), Reply("", oddities=["null_content"]), broken, Reply("Fine.")]
    async with LLMServer(replies) as server, bot_on(server, wire, tmp_path) as bot:
        empty = await bot.process_direct("one", session_key=KEY)
        failed = await bot.process_direct("two", session_key=KEY)
        fine = await bot.process_direct("three", session_key=KEY)

        assert (empty.stop_reason, failed.stop_reason, fine.content) == ("empty", "error", "Fine.")
        assert "no luck" in (failed.error or "")
        sent = server.chats[-1].raw.decode()
        assert "no luck" not in sent
        assert [text for text in ("one", "two", "three") if text not in sent] == []
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e04_a_call_that_is_cut_off_never_runs(wire: Wire, tmp_path: Path) -> None:
    """Half a command is no command, and neither is half a path: each is told to the model, which then does better."""
    victim = tmp_path / "workspace" / "a"
    victim.mkdir(parents=True)
    cut = [Call("exec", f'{{"command": "rm -rf {victim}'), Call("write_file", '{"path": "x.txt", "content"')]
    good = Call("write_file", {"path": "x.txt", "content": "C:\\new \\d+"})
    replies = [Reply(tool_calls=cut), Reply(tool_calls=[good]), Reply("Written.")]
    async with LLMServer(replies) as server, bot_on(server, wire, tmp_path) as bot:
        result = await bot.process_direct("go", session_key=KEY)

        assert result.content == "Written."
        assert victim.is_dir()
        assert (tmp_path / "workspace" / "x.txt").read_text() == "C:\\new \\d+"
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
@pytest.mark.parametrize("arguments", ['{"path": "x.txt", "content": "half of', {"path": "x.txt", "content": "half"}])
async def test_e05_calls_cut_off_again_and_again_end_with_an_explanation(
    wire: Wire, arguments: Any, tmp_path: Path
) -> None:
    """A call that the output limit cut never runs, gets more room, and after a few times the person is told why it ends."""
    cut = Reply(tool_calls=[Call("write_file", arguments)], finish="length")
    async with LLMServer([cut] * 10) as server, bot_on(server, wire, tmp_path, max_tokens=1_000) as bot:
        result = await bot.process_direct("write a novel", session_key=KEY)
        server.responder = lambda _: Reply("Sorry.")
        after = await bot.process_direct("why?", session_key=KEY)

        assert (result.stop_reason, result.tools_used) == ("malformed", ("write_file",) * MAX_MALFORMED)
        assert f"{MAX_MALFORMED} tool calls in a row" in (result.error or "")
        assert not (tmp_path / "workspace" / "x.txt").exists()
        room = [next(request.body[name] for name in ROOM if name in request.body) for request in server.chats]
        assert (len(room), room[0] < room[1]) == (MAX_MALFORMED + 1, True)
        assert "smaller parts" in server.chats[1].raw.decode()
        assert after.content == "Sorry."
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


ROOM = ("max_tokens", "max_completion_tokens")


@BOTH
async def test_text_cut_off_by_length_is_continued_and_joined(wire: Wire, tmp_path: Path) -> None:
    """The model goes on where it stopped, and the person gets one text."""
    replies = [Reply("One, ", finish="length"), Reply("two, ", finish="length"), Reply("three.")]
    async with LLMServer(replies, strict_roles=True) as server, bot_on(server, wire, tmp_path) as bot:
        result = await bot.process_direct("count", session_key=KEY)

        assert (result.content, result.stop_reason, result.iterations) == ("One, two, three.", "completed", 3)
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_a_refusal_runs_nothing_and_is_no_poison(wire: Wire, tmp_path: Path) -> None:
    """Calls beside a refusal do not run; the person hears of it, and the conversation goes on."""
    refused = Reply("", [Call("write_file", {"path": "x.txt", "content": "x"})], finish="refusal")
    async with LLMServer([refused, Reply("Yes?")]) as server, bot_on(server, wire, tmp_path) as bot:
        result = await bot.process_direct("do evil", session_key=KEY)
        after = await bot.process_direct("hello", session_key=KEY)

        assert result.stop_reason == "refusal"
        assert "declined" in f"{result.content}{result.error}"
        assert not (tmp_path / "workspace" / "x.txt").exists()
        assert after.content == "Yes?"
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


async def test_e11_a_vendors_signature_beside_a_call_survives_a_restart(tmp_path: Path) -> None:
    """What stood beside the call goes back verbatim with it, also from the log."""
    extra = {"google": {"thought_signature": "c2ln/bmF0dXJl+=="}}
    replies = [Reply(tool_calls=[Call("list_dir", {"path": "."}, extra=extra)]), Reply("Empty."), Reply("Still.")]
    async with LLMServer(replies, lenient_fields=["extra_content"]) as server:
        for text in ("look", "again"):
            async with bot_on(server, "openai", tmp_path) as bot:
                await bot.process_direct(text, session_key=KEY)

        for request in server.chats[1:]:
            rows = [row for row in request.body["messages"] if row.get("tool_calls")]
            assert [row["tool_calls"][0]["extra_content"] for row in rows] == [extra]
        assert server.refusals == []


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "write_file", "arguments": {"path": "x.txt", "content": "written"}}',
        '<tool_call>\n{"name": "write_file", "arguments": {"path": "x.txt", "content": "written"}}\n</tool_call>',
    ],
)
async def test_e23_a_call_written_as_text_is_run_and_not_shown(text: str, tmp_path: Path) -> None:
    """Local models print their calls; the call runs, and nobody sees its markup."""
    seen: list[RuntimeEvent] = []
    async with (
        LLMServer([Reply(text, deltas=9), Reply("Written.")]) as server,
        bot_on(server, "openai", tmp_path) as bot,
    ):
        bot.events.observe(seen.append)
        result = await bot.process_direct("write", session_key=KEY)

        assert result.content == "Written."
        assert (tmp_path / "workspace" / "x.txt").read_text() == "written"
        assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == "Written."
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e32_the_same_call_for_ever_is_noticed_and_ends_with_a_report(wire: Wire, tmp_path: Path) -> None:
    """A loop of one call with one result is pointed out, then stopped; the model's own report is the answer."""

    def stubborn(request: Recorded) -> Reply:
        if "many times in a row" in request.raw.decode():
            return Reply("I kept listing; nothing was there.")
        return Reply(tool_calls=[Call("list_dir", {"path": "."})])

    async with LLMServer() as server, bot_on(server, wire, tmp_path, max_iterations=40) as bot:
        server.responder = stubborn
        result = await bot.process_direct("look", session_key=KEY)

        assert result.content == "I kept listing; nothing was there."
        assert len(server.chats) < 10
        assert "gave the same result each time" in server.chats[-2].raw.decode()
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e32_a_model_that_does_not_stop_is_stopped(wire: Wire, tmp_path: Path) -> None:
    """One that calls on although told to stop ends the Turn with a sentence, and is no poison."""
    async with LLMServer() as server, bot_on(server, wire, tmp_path, max_iterations=40) as bot:
        server.responder = lambda _: Reply(tool_calls=[Call("list_dir", {"path": "."})])
        result = await bot.process_direct("look", session_key=KEY)
        server.responder = lambda _: Reply("Hello.")
        after = await bot.process_direct("hi", session_key=KEY)

        assert "kept calling tools" in (result.error or "")
        assert len(server.chats) < 12
        assert after.content == "Hello."
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e32_the_same_call_with_new_results_may_go_on(wire: Wire, tmp_path: Path) -> None:
    """Polling is allowed as long as something changes."""
    count = 0

    def poll() -> str:
        """Look how far it is."""
        nonlocal count
        count += 1
        return f"{count} %"

    replies = [*[Reply(tool_calls=[Call("poll")])] * 12, Reply("Ready.")]
    async with LLMServer(replies) as server, bot_on(server, wire, tmp_path, tools=[poll]) as bot:
        result = await bot.process_direct("wait for it", session_key=KEY)

        assert (result.content, result.stop_reason, count) == ("Ready.", "completed", 12)


@BOTH
async def test_e14_a_body_that_is_too_large_loses_its_pictures(wire: Wire, tmp_path: Path) -> None:
    """413 although the tokens would fit: the pictures go, and the request is sent once more."""
    pictures: list[Path] = []
    for number in range(4):
        pictures.append(tmp_path / f"{number}.png")
        pictures[-1].write_bytes(png(2 + number, pad_bytes=300_000))
    async with LLMServer([Reply("Seen nothing.")] * 2, max_body_bytes=1_000_000) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            result = await bot.process_direct("what are these?", session_key=KEY, media=pictures)
            after = await bot.process_direct("and?", session_key=KEY)

        assert (result.content, result.error) == ("Seen nothing.", None)
        assert (after.content, after.error) == ("Seen nothing.", None)
    assert await log_faults(tmp_path) == []
