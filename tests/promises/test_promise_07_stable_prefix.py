"""7. The prompt prefix is stable: each request begins, byte for byte, with the one before it, except at recorded cuts.

More: tests/property/test_passes.py and bench/.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nanobot.session.entries import Cut, Summary
from tests.e2e.bots import KEY, WIRES, Wire, bot_on, entries_of
from tests.fakes.llm.prompts import last_user_text
from tests.fakes.llm_server import Call, LLMServer, Recorded, Reply

TURNS = 30


def breaks(requests: Sequence[Recorded]) -> list[int]:
    """Return the places where a request does not begin with the elements of the one before it."""
    return [n for n, (before, after) in enumerate(pairwise(requests)) if not _begins_with(after.elements, before)]


def _begins_with(elements: list[str], before: Recorded) -> bool:
    *all_but_last, last = before.elements
    if elements[: len(all_but_last)] != all_but_last:
        return False
    follow = elements[len(all_but_last)]
    return (
        follow == last or json.dumps(last_user_text(before.body), ensure_ascii=False)[1:-1] in follow
    )  # two user rows in a row are one on the wire


@pytest.mark.parametrize("wire", WIRES)
async def test_turns_restarts_and_edits_leave_the_prefix_as_it_was(wire: Wire, tmp_path: Path) -> None:
    """Neither the time, nor a restart, nor edited workspace files, nor stops and errors move what was sent before.

    A refused request is tried once more with less, and what is refused even so is left as it was.
    """
    (tmp_path / "workspace").mkdir()
    replies: list[Reply] = []
    for n in range(6):
        replies += [Reply("Look.", [Call("list_dir", {"path": "."})] * 2), Reply(f"Answer {n}.")]
        replies += [Reply(status=400), Reply(status=400)]
    async with LLMServer(replies) as server:
        for n in range(6):
            (tmp_path / "workspace" / "AGENTS.md").write_text(f"Version {n} of the rules.")
            async with bot_on(server, wire, tmp_path) as bot:
                await bot.process_direct(f"question {n}", session_key=KEY)
                await bot.process_direct(f"this fails {n}", session_key=KEY)

        assert len(server.chats) == 24
        asked = [chat for n, chat in enumerate(server.chats) if n % 4 < 3]
        assert breaks(asked) == []
        assert asked[-1].cached_tokens > 0.9 * asked[-2].prompt_tokens


async def test_where_the_prefix_breaks_the_log_says_why(tmp_path: Path) -> None:
    """With a small window there must be cuts: each break has its entry, and they come in steps, not with every request."""
    (tmp_path / "workspace").mkdir()
    for n in range(60):
        (tmp_path / "workspace" / f"a-file-with-a-long-name-{n:03}.txt").touch()
    replies = [
        reply
        for n in range(TURNS)
        for reply in (Reply("", [Call("list_dir", {"path": "."})]), Reply(f"{n}. " + "so " * 400))
    ]
    options: dict[str, Any] = {"context_window": 14_000, "max_tokens": 1_000, "compaction": {"enabled": False}}
    async with LLMServer(replies) as server, bot_on(server, "openai", tmp_path, **options) as bot:
        for n in range(TURNS):
            await bot.process_direct(f"question {n}", session_key=KEY)

        cuts = [entry for entry in await entries_of(tmp_path) if isinstance(entry, Cut | Summary)]
        broken = breaks(server.chats)
        assert 0 < len(broken) <= len(cuts)
        assert len(broken) < (len(server.chats) - broken[0]) / 8
