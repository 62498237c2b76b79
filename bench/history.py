"""Sessions as if they had been talked in, written through the store."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

from nanobot.bus.events import SessionKey
from nanobot.messages import AssistantMessage, user_text
from nanobot.session.entries import Entry, EntryId, Finished, Started, Step
from nanobot.session.jsonl import JsonlStore
from nanobot.session.manager import SessionManager
from nanobot.session.settings import SessionSettings

_AT = "2026-11-30T12:00:00+00:00"


async def seed(data_dir: Path, messages: int, *, key: SessionKey) -> None:
    """Write a session's log: questions and answers of a sentence each, never summarized."""
    store = JsonlStore(data_dir, settings=SessionSettings(sync="off"), owner="benchmark")
    manager = SessionManager(store, owner="benchmark")
    async with manager.open(key) as session:
        await session.restore()
        written: list[Awaitable[None]] = []
        for turn in range(messages // 2):
            asked, said, end = (session.log.new_id() for _ in range(3))
            written = [session.append(entry) for entry in _turn(f"t{turn + 1}", asked, said, end)]
        await asyncio.gather(*written)
    await manager.close()
    await store.close()


def _turn(turn: str, asked: EntryId, said: EntryId, end: EntryId) -> list[Entry]:
    question = user_text(f"Question {turn}: what do you make of it?\n\n[2026-11-30 12:00 +00:00 · bench]", entry=asked)
    answer = AssistantMessage(f"About {turn} I would say that it is what it is, all things considered.", entry=said)
    return [
        Started(id=asked, turn=turn, inbound=(f"direct:{turn}",), message=question, at=_AT),
        Step(id=said, turn=turn, message=answer, finish="stop"),
        Finished(id=end, turn=turn, iterations=1, answer=said),
    ]
