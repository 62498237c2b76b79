"""kill -9 at any moment: what was said on Telegram is answered once, and a possible repeat says that it is one."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.e2e.test_telegram import world

CHATS = (1, 2, 100, 101)
ROUNDS = 4
WARM_S = 1.0  # a Turn that never gets as far as the model is closed after four restarts, as it should be


@pytest.mark.timeout(120)
async def test_each_message_is_answered_once_whenever_the_daemon_dies(tmp_path: Path) -> None:
    """Four kills among twenty-four messages: every question is in one answer that is no marked repeat, or in a marked one."""
    rng = random.Random(20261130)
    asked: list[tuple[int, str]] = []
    async with world(tmp_path) as (home, telegram, model):
        for kills in range(ROUNDS):
            async with home.gateway() as process:
                await home.until(lambda kills=kills: len(telegram.sent("getMe")) > kills, "a start")
                await asyncio.sleep(WARM_S)
                for _ in range(6):
                    chat, question = rng.choice(CHATS), f"question {len(asked)}."
                    asked.append((chat, question))
                    telegram.push_text(chat, question)
                    await asyncio.sleep(rng.random() * 0.08)
                await asyncio.sleep(rng.random() * 0.15)
                process.kill()
                await process.wait()
        async with home.gateway():
            await home.until(lambda: len(telegram.sent("getMe")) > ROUNDS, "the last start")
            await home.until(
                lambda: all(any(question in text for text in telegram.chat(chat).answers) for chat, question in asked),
                "every answer",
            )
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            await asyncio.sleep(1.0)

    for chat, question in asked:
        answers = [text for text in telegram.chat(chat).answers if question in text]
        unmarked = [text for text in answers if "may be a repeat" not in text]
        assert len(unmarked) <= 1, answers
        assert len(answers) <= 2, answers
    assert not model.refusals
