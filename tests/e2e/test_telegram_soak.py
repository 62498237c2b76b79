"""Many chats, many messages, a bad network: each is answered exactly once, and nothing grows."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.e2e.test_telegram import Home, world
from tests.fakes.telegram_server import TelegramServer

CHATS = range(100, 130)
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "8"))  # 67 makes two thousand messages


def break_something(server: TelegramServer, rng: random.Random) -> None:
    """Ask for one fault that the network or Telegram is known for; none that may leave a message behind unseen."""
    method = rng.choice(["sendMessage"] * 5 + ["editMessageText"] * 5 + ["getUpdates", "sendChatAction"])
    if server.has_fault(method):
        return
    match rng.randrange(4):
        case 0:
            server.fail(method, status=429, retry_after=1, description="Too Many Requests: retry after 1")
        case 1:
            server.fail(method, status=500)
        case 2:
            server.fail(method, status=502, html=True)
        case _:
            server.fail(method, cut=True)


def size_of(pid: int) -> tuple[int, int]:
    """Return resident memory in KB and the number of open descriptors."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return resident, len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def converse(home: Home, chat: int) -> None:
    room = home.telegram.chat(chat)
    for number in range(ROUNDS):
        home.telegram.push_text(chat, f"question {number} of {chat}.")
        await home.until(
            lambda number=number: any(
                f"question {number} of {chat}." in text and "⏳" not in text for text in room.answers[number:]
            ),
            f"answer {number} in {chat}",
        )


@pytest.mark.timeout(60 + ROUNDS * 20)
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at /proc")
async def test_each_message_is_answered_once_whatever_happens(tmp_path: Path) -> None:
    """Faults all the time; afterwards every chat holds as many answers as questions, in order, and the process is no larger."""
    rng = random.Random(20261130)
    async with world(tmp_path) as (home, telegram, model), home.gateway() as process:
        telegram.observer = lambda call: break_something(telegram, rng) if rng.random() < 0.1 else None
        sizes: list[tuple[int, int]] = []
        for chat in CHATS:  # the first conversations fill caches
            telegram.chat(chat)
        talking = [asyncio.create_task(converse(home, chat)) for chat in CHATS]
        while any(not task.done() for task in talking):
            await asyncio.wait(talking, timeout=0.5)
            sizes.append(size_of(process.pid))
        await asyncio.gather(*talking)
        telegram.observer = lambda call: None
        telegram.heal()
        await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
        await asyncio.sleep(0.5)

    for chat in CHATS:
        answers = telegram.chat(chat).answers
        assert [f"question {number} of {chat}." in text for number, text in enumerate(answers)] == [True] * ROUNDS, (
            answers
        )
    assert len(model.chats) == ROUNDS * len(CHATS)
    assert not model.refusals
    assert "SECRET" not in home.log
    assert "Traceback" not in home.log
    first, last = sizes[: len(sizes) // 4 + 1], sizes[-(len(sizes) // 4 + 1) :]
    assert max(count for _, count in last) <= max(count for _, count in first) + 20
    assert max(kb for kb, _ in last) <= max(kb for kb, _ in first) * 1.5
