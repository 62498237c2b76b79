"""A group that becomes a supergroup, with the real daemon: one conversation, one answer each, wherever the chat is by now."""

import asyncio
import json
from pathlib import Path

from tests.e2e.test_telegram import world
from tests.fakes.llm_server import Reply


def lines_of(data: Path, kind: str) -> list[dict[str, object]]:
    """Return the log lines of a type, over all sessions."""
    found = [json.loads(line) for path in data.rglob("*.jsonl") for line in path.read_bytes().splitlines()]
    return [line for line in found if line["type"] == kind]


async def test_d22_a_group_that_moves_while_a_turn_runs_is_answered_at_its_new_id(tmp_path: Path) -> None:
    """The update comes first; the daemon is killed before the answer; the next process answers at the new id, once."""
    gate = asyncio.Event()
    replies = [Reply("never", gate=gate), Reply("moved along"), Reply("still here")]
    async with world(tmp_path, *replies, group_policy="all", stream_drafts=False) as (home, telegram, model):
        async with home.gateway() as process:
            telegram.push_text(-5, "work", from_id=1)
            await home.until(lambda: model.chats, "a request")
            telegram.push_text(-5, None, from_id=1, migrate_to_chat_id=-1005)
            telegram.chat(-5).migrated_to = -1005
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            process.kill()
            await process.wait()
        gate.set()
        async with home.gateway():
            await home.answered(-1005, "moved along")
            telegram.push_text(-1005, "are you there?", from_id=1)
            await home.answered(-1005, "moved along", "still here")

    assert [(line["from"], line["to"]) for line in lines_of(home.path / "data", "moved")] == [("tg:-5", "tg:-1005")]
    assert len(list((home.path / "data" / "sessions").glob("*.jsonl"))) == 1
    assert telegram.chat(-5).answers == []
    assert "work" in json.dumps(model.chats[-1].body["messages"])
    assert not [call for call in telegram.sent("sendMessage") if call.error]


async def test_d22_a_send_that_hears_of_the_move_first_notes_it(tmp_path: Path) -> None:
    """Nobody told us: the refusal names the new id; the answer arrives there, and the log knows from then on."""
    async with world(tmp_path, Reply("one"), Reply("two"), group_policy="all", stream_drafts=False) as world_:
        home, telegram, _ = world_
        async with home.gateway():
            telegram.chat(-5).migrated_to = -1005
            telegram.push_text(-5, "work", from_id=1)
            await home.answered(-1005, "one")
            await home.until(lambda: lines_of(home.path / "data", "moved"), "a line in the log")
        async with home.gateway():
            telegram.push_text(-1005, "again", from_id=1)
            await home.answered(-1005, "one", "two")

    assert len(lines_of(home.path / "data", "moved")) == 1
    assert len([call for call in telegram.sent("sendMessage") if call.error]) == 1
    assert len(list((home.path / "data" / "sessions").glob("*.jsonl"))) == 1
