"""Many chats, many messages, a bad network and a bad model: each message is answered once, and nothing grows.

A test runs a little of it; ``python -m tests.e2e.soak`` the whole: two thousand messages over a hundred chats.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nanobot.gateway.status import ask
from tests.e2e.test_telegram import Home
from tests.fakes.llm.play import play
from tests.fakes.llm_server import LLMServer, Recorded, Reply
from tests.fakes.telegram_server import TelegramServer

FIRST_CHAT = 100
SAMPLE_S = 0.5
ANSWER_S = 240.0  # for one answer: an outbox that fails again and again waits for up to a minute each time


@dataclass(frozen=True, slots=True)
class Size:
    """How large the daemon was at one time."""

    resident_kb: int
    descriptors: int
    tasks: int


@dataclass(slots=True)
class Result:
    """What came of it."""

    messages: int = 0
    seconds: float = 0.0
    faults: int = 0
    repeats: int = 0  # updates that came twice
    marked: int = 0  # answers that say that they may be repeats
    sizes: list[Size] = field(default_factory=list[Size])
    wrong: list[str] = field(default_factory=list[str])

    @property
    def quarters(self) -> tuple[Size, Size]:
        """The largest of the first and of the last quarter, once every chat was answered."""
        count = max(1, len(self.sizes) // 4)
        return _largest(self.sizes[:count]), _largest(self.sizes[-count:])

    def __str__(self) -> str:
        first, last = self.quarters
        return (
            f"{self.messages} messages in {self.seconds:.0f} s, {self.faults} faults, {self.repeats} repeated updates; "
            f"{self.marked} answers marked as repeats; {len(self.wrong)} wrong\n"
            f"first quarter {first.resident_kb // 1024} MB, {first.descriptors} descriptors, {first.tasks} tasks; "
            f"last {last.resident_kb // 1024} MB, {last.descriptors} descriptors, {last.tasks} tasks"
        )


def _largest(sizes: Sequence[Size]) -> Size:
    return Size(
        max(size.resident_kb for size in sizes),
        max(size.descriptors for size in sizes),
        max(size.tasks for size in sizes),
    )


class Weather:
    """Breaks calls at both ends now and then; nothing that may leave a message behind unseen."""

    def __init__(self, telegram: TelegramServer, seed: int) -> None:
        self._telegram = telegram
        self._chance = random.Random(seed)
        self.is_bad = True
        self.faults = 0
        self._failed: set[str] = set()
        telegram.observer = lambda call: self._upset() if self.is_bad and self._chance.random() < 0.07 else None
        telegram.updates.disorder = self._disorder

    def model(self, recorded: Recorded) -> Reply:
        """Answer as a simple model does, or fail, stall or break off: once at most, as two stalls end a Turn with an error."""
        reply = play(recorded)
        if not self.is_bad or reply.text in self._failed or self._chance.random() >= 0.06:
            return reply
        self.faults += 1
        self._failed.add(reply.text)
        return self._chance.choice(
            [
                Reply(status=503),
                Reply(status=500),
                Reply(status=429, headers={"retry-after": "1"}),
                Reply("broken off", break_after=2),
                Reply("cut", end_early=True),
                Reply("stalled in the middle", hang="after_delta", after=1),
            ]
        )

    def clear_up(self) -> None:
        """Let everything work from now on."""
        self.is_bad = False
        self._telegram.heal()

    def _disorder(self, updates: list[dict[str, object]]) -> list[dict[str, object]]:
        if self.is_bad and self._chance.random() < 0.3:
            self._chance.shuffle(updates)
        return updates

    def _upset(self) -> None:
        """Ask for one fault that the network or Telegram is known for."""
        method = self._chance.choice(["sendMessage"] * 5 + ["editMessageText"] * 5 + ["getUpdates", "sendChatAction"])
        if self._telegram.has_fault(method):
            return
        self.faults += 1
        match self._chance.randrange(4):
            case 0:
                self._telegram.fail(method, status=429, retry_after=1, description="Too Many Requests: retry after 1")
            case 1:
                self._telegram.fail(method, status=500)
            case 2:
                self._telegram.fail(method, status=502, html=True)
            case _:
                self._telegram.fail(method, cut=True)


async def soak(
    path: Path, *, chats: int, rounds: int, seed: int = 20261130, tell: Callable[[str], None] = lambda line: None
) -> Result:
    """Let so many chats ask so many questions, each after the answer to the one before."""
    result = Result()
    ids = range(FIRST_CHAT, FIRST_CHAT + chats)
    async with LLMServer() as model, TelegramServer("42:SECRET") as telegram:
        weather = Weather(telegram, seed)
        model.responder = weather.model
        home = _home(path, model, telegram, ids)
        async with home.gateway() as process:
            began = time.monotonic()
            chance = random.Random(seed + 1)
            talking = [
                asyncio.create_task(_converse(home, chat, rounds, chance, result), name=f"chat {chat}") for chat in ids
            ]
            while any(not task.done() for task in talking):
                await asyncio.wait(talking, timeout=SAMPLE_S)
                if not all(telegram.chat(chat).answers for chat in ids):
                    continue  # pools and caches fill with each chat's first words: nothing to compare with
                result.sizes.append(await _size_of(process.pid, home))
                if len(result.sizes) % 20 == 0:
                    tell(f"{result.messages} asked, {result.sizes[-1]}")
            await asyncio.gather(*talking)
            result.seconds = time.monotonic() - began
            weather.clear_up()
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            await asyncio.sleep(SAMPLE_S)
    result.faults = weather.faults
    _judge(result, home, telegram, model, dict.fromkeys(ids, rounds))
    return result


def _home(path: Path, model: LLMServer, telegram: TelegramServer, ids: range) -> Home:
    home = Home(path, model, telegram, allow_from=list(ids))
    home.patience_s = ANSWER_S
    settings = json.loads(home.config.read_text())
    settings["gateway"]["health_port"] = 0
    settings["agent"]["retry"] = {"attempts": 6, "base_s": 0.1, "cap_s": 2}
    settings["providers"]["local"]["timeouts"] = {"first_token_s": 5, "idle_s": 1}
    home.config.write_text(json.dumps(settings))
    return home


async def _converse(home: Home, chat: int, rounds: int, chance: random.Random, result: Result) -> None:
    room = home.telegram.chat(chat)
    for number in range(rounds):
        question = f"question {number} of {chat}."
        update = home.telegram.push_text(chat, question)
        result.messages += 1
        await home.until(
            lambda question=question: any(question in text and "⏳" not in text for text in room.answers),
            f"answer {number} in {chat}",
        )
        if chance.random() < 0.1:
            home.telegram.push_update(update if chance.random() < 0.5 else {"message": update["message"]})
            result.repeats += 1


async def _size_of(pid: int, home: Home) -> Size:
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return Size(resident, len(list(Path(f"/proc/{pid}/fd").iterdir())), await asyncio.to_thread(_tasks, home))


def _tasks(home: Home) -> int:
    facts = ask(home.path / "data")
    if not facts:
        return 0
    with urllib.request.urlopen(f"{facts['health_url']}/metrics", timeout=10) as page_file:
        page = page_file.read().decode()
    return next((int(float(line.split()[1])) for line in page.splitlines() if line.startswith("nanobot_tasks ")), 0)


def _judge(result: Result, home: Home, telegram: TelegramServer, model: LLMServer, asked: dict[int, int]) -> None:
    for chat, rounds in asked.items():
        answers = telegram.chat(chat).answers
        result.marked += sum("may be a repeat" in text for text in answers)
        if [f"question {number} of {chat}." in text for number, text in enumerate(answers)] != [True] * rounds:
            result.wrong.append(f"chat {chat}: {answers}")
    result.wrong += [f"refused by the model server: {one}" for one in model.refusals]
    result.wrong += [f"in the log: {word}" for word in ("SECRET", "Traceback") if word in home.log]


def main() -> None:
    """Run it and print what came of it; exit code 1 if something was wrong or grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chats", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20, help="questions a chat")
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        result = asyncio.run(soak(Path(path), chats=options.chats, rounds=options.rounds, seed=options.seed, tell=_say))
    _say(str(result))
    for line in [*result.wrong[:20], *grown(result)]:
        _say(line)
    sys.exit(1 if result.wrong or grown(result) else 0)


def grown(result: Result) -> list[str]:
    """Say what is larger in the last quarter than in the first, beyond what differs anyway."""
    first, last = result.quarters
    found: list[str] = []
    if last.resident_kb > first.resident_kb * 1.15 + 4_096:
        found.append(f"memory grew from {first.resident_kb} to {last.resident_kb} KB")
    if last.descriptors > first.descriptors + 10:
        found.append(f"descriptors grew from {first.descriptors} to {last.descriptors}")
    if last.tasks > first.tasks + 20:
        found.append(f"tasks grew from {first.tasks} to {last.tasks}")
    return found


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
