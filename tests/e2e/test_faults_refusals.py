"""Refusals that pass: a session is as good after them as it was before."""

import json
from pathlib import Path

import pytest

from tests.e2e.bots import KEY, Wire, bot_on, impatient, log_faults
from tests.fakes.llm_server import Call, LLMServer, Recorded, Reply


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [413, 400])
async def test_b20_a_request_that_is_refused_however_short_costs_one_turn(
    wire: Wire, status: int, tmp_path: Path
) -> None:
    """A "too large" that no shorter request cures is told as it was said, and teaches nothing: the next Turn is answered."""
    no = Reply(status=status, error=_too_long(wire) if status == 400 else None)
    async with LLMServer([no, no, Reply("fine again")]) as server, bot_on(server, wire, tmp_path) as bot:
        refused = await bot.process_direct("hello", session_key=KEY)
        server.responder = lambda _: Reply("fine again")
        result = await bot.process_direct("hello?", session_key=KEY)

    assert refused.stop_reason == "error"
    assert (result.content, result.error) == ("fine again", None)
    assert '"pass":"window' not in next((tmp_path / "data").rglob("*.jsonl")).read_text()
    assert await log_faults(tmp_path) == []


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_thinking_that_the_vendor_no_longer_knows_is_left_out(wire: Wire, tmp_path: Path) -> None:
    """A vendor that refuses the thinking it signed (another key, another gateway) costs the thinking, not the conversation."""

    def forgetful(recorded: Recorded) -> Reply:
        if "a thought" in json.dumps(recorded.body["messages"]):
            return Reply(status=400, error=_unknown_signature(wire))
        return Reply("fine")

    async with LLMServer([Reply("first", reasoning="a thought")]) as server, bot_on(server, wire, tmp_path) as bot:
        await bot.process_direct("hello", session_key=KEY)
        server.responder = forgetful
        second = await bot.process_direct("and?", session_key=KEY)
        asked = len(server.requests)
        third = await bot.process_direct("and?", session_key=KEY)

    assert (second.content, second.error) == ("fine", None)
    assert (third.content, third.error) == ("fine", None)
    assert len(server.requests) == asked + 1  # what was refused once is not sent again
    assert await log_faults(tmp_path) == []


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_number_beside_an_overflow_is_no_window(wire: Wire, tmp_path: Path) -> None:
    """A vendor's error code in its words about the window does not become the window of every later Turn."""
    long = "words " * 1_500

    def short_of(recorded: Recorded) -> Reply:
        if json.dumps(recorded.body["messages"]).count("words ") > 9_000:
            return Reply(status=400, error=_message(wire, "invalid params, context window exceeds limit (2013)"))
        return Reply("fine")

    async with LLMServer() as server, bot_on(server, wire, tmp_path) as bot:
        server.responder = short_of
        for _ in range(9):
            result = await bot.process_direct(long, session_key=KEY)
            assert result.error is None

    assert '"at":"e2013"' not in next((tmp_path / "data").rglob("*.jsonl")).read_text()


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_result_that_the_vendor_cannot_take_does_not_end_the_conversation(wire: Wire, tmp_path: Path) -> None:
    """A result that is refused for reasons we do not know is left out and named, now and in later Turns."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/odd.txt").write_text("poison " * 100)

    def squeamish(recorded: Recorded) -> Reply:
        messages = json.dumps(recorded.body["messages"])
        if "poison" in messages:
            return Reply(status=400, error=_message(wire, "Request contains an invalid argument."))
        return (
            Reply("fine") if "read_result" in messages else Reply(tool_calls=[Call("read_file", {"path": "odd.txt"})])
        )

    async with LLMServer() as server, bot_on(server, wire, tmp_path) as bot:
        server.responder = squeamish
        first = await bot.process_direct("look at it", session_key=KEY)
        asked = len(server.requests)
        second = await bot.process_direct("and?", session_key=KEY)

    assert (first.content, first.error) == ("fine", None)
    assert (second.content, second.error) == ("fine", None)
    assert len(server.requests) == asked + 1
    assert await log_faults(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ],
)
async def test_e10_answers_of_another_model_get_the_reasoning_that_this_one_wants(words: str, tmp_path: Path) -> None:
    """A vendor that wants reasoning with each answer takes a conversation over from one that gave none."""

    def strict(recorded: Recorded) -> Reply:
        rows = [row for row in recorded.body["messages"] if row["role"] == "assistant"]
        if any(not row.get("reasoning_content") for row in rows):
            return Reply(status=400, error=_message("openai", words))
        return Reply("fine", reasoning="hm")

    steps = [Reply(tool_calls=[Call("list_dir", {})]), Reply("seen")]
    async with LLMServer(steps) as server, bot_on(server, "openai", tmp_path) as bot:
        await bot.process_direct("look", session_key=KEY)
        server.responder = strict
        asked = len(server.requests)
        results = [await bot.process_direct("and?", session_key=KEY) for _ in range(2)]

    assert [(result.content, result.error) for result in results] == [("fine", None)] * 2
    assert len(server.requests) == asked + 3
    assert '"type":"cut"' not in next((tmp_path / "data").rglob("*.jsonl")).read_text()


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_refusal_that_lies_elsewhere_cuts_nothing(wire: Wire, tmp_path: Path) -> None:
    """Where leaving out does not help, nothing is left out, and the person hears the vendor's first words."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/a.txt").write_text("text " * 200)
    no = Reply(status=400, error=_message(wire, "temperature must be 1"))
    steps = [Reply(tool_calls=[Call("read_file", {"path": "a.txt"})]), Reply("read"), no, no]
    async with LLMServer(steps) as server, bot_on(server, wire, tmp_path) as bot:
        await bot.process_direct("read it", session_key=KEY)
        refused = await bot.process_direct("and?", session_key=KEY)

    assert refused.error is not None
    assert "temperature must be 1" in refused.error
    assert '"type":"cut"' not in next((tmp_path / "data").rglob("*.jsonl")).read_text()


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_web_page_that_answers_is_named(wire: Wire, tmp_path: Path) -> None:
    """A page in place of an answer, as a wrong base_url or a proxy's login gives it, is called a page."""
    page = Reply(raw_body=b"<html><title>Sign in</title></html>", headers={"content-type": "text/html; charset=utf-8"})
    async with LLMServer([page] * 3) as server, bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
        result = await bot.process_direct("hello", session_key=KEY)

    assert result.error is not None
    assert "a web page answered instead of the model ('Sign in')" in result.error


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [302, 307])
async def test_keys_and_conversations_follow_no_redirect(wire: Wire, status: int, tmp_path: Path) -> None:
    """A server that sends us elsewhere, as a portal in between does, gets nothing sent there: it is told where it points."""
    async with LLMServer([Reply("taken")]) as elsewhere:
        away = Reply(status=status, raw_body=b"", headers={"location": f"{elsewhere.url}/v1/messages"})
        async with LLMServer([away] * 3) as server, bot_on(server, wire, tmp_path) as bot:
            result = await bot.process_direct("hello", session_key=KEY)

    assert elsewhere.requests == []
    assert result.error is not None
    assert "answers with a redirect to http://127.0.0.1" in result.error


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_in_one_piece_is_bounded(wire: Wire, status: int, tmp_path: Path) -> None:
    """A body without end fills no memory: it is given up and named."""
    endless = Reply(status=status, raw_body=b" " * (33 << 20), headers={"content-type": "application/json"})
    async with (
        LLMServer([endless] * 3) as server,
        bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot,
    ):
        result = await bot.process_direct("hello", session_key=KEY)

    assert result.error is not None
    assert "more than 33,554,432 bytes" in result.error


def _unknown_signature(wire: Wire) -> dict[str, object]:
    if wire == "anthropic":
        return _message(wire, "messages.1.content.0: Invalid `signature` in `thinking` block")
    return _message(wire, "property 'messages.1.reasoning_content' is unsupported")


def _message(wire: Wire, text: str) -> dict[str, object]:
    error = {"message": text, "type": "invalid_request_error"}
    return {"type": "error", "error": error} if wire == "anthropic" else {"error": error}


def _too_long(wire: Wire) -> dict[str, object]:
    if wire == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
    return {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
