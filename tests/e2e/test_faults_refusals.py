"""Refusals that pass: a session is as good after them as it was before."""

from pathlib import Path

import pytest

from tests.e2e.bots import KEY, Wire, bot_on, log_faults
from tests.fakes.llm_server import LLMServer, Reply


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


def _too_long(wire: Wire) -> dict[str, object]:
    if wire == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}
    return {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
