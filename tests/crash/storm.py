"""Kills at random moments, under load, with faults at both servers.  A test runs a few, ``python -m tests.crash.storm`` a thousand.

Many chats talk to one gateway.  Every message has a token; the model repeats the tokens it has not answered yet, and for some of
them runs a command first that writes the token down.  So it can be counted what was answered and done, and how often.
"""

import argparse
import asyncio
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nanobot.bus.events import InboundMessage
from nanobot.messages import AssistantMessage, user_text
from nanobot.session.codec import to_line
from nanobot.session.entries import Finished, Started, Step
from nanobot.session.files import Layout
from nanobot.session.log import SessionLog
from nanobot.session.repair import header_line
from tests.crash import scripted
from tests.crash.forge import STARTED, Forge, Order, forge
from tests.fakes.llm_server import Call, LLMServer, Recorded, Reply
from tests.fakes.telegram_server import TelegramServer

TOKEN = re.compile(r"\bm\d+x\d+\b")
BOT_TOKEN = "42:TEST"
REPEAT = "(may be a repeat)"
AT_REST_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad it gets.  Chances are per call; times in seconds."""

    kills: int = 40
    chats: int = 50
    sessions: int = 0  # that lie there already
    seed: int = 1
    lives_s: tuple[float, float] = (0.05, 0.8)
    model_fails: float = 0.08
    telegram_fails: float = 0.05
    drafts: bool = False
    rate_s: float = 0.02  # between two messages
    waiting_max: int = 60  # unanswered ones, so that the load is what one machine can do


@dataclass(slots=True)
class Result:
    """What came of it."""

    sent: int = 0
    killed: int = 0
    answered: int = 0
    given_up: Counter[str] = field(default_factory=Counter[str])  # closed with a sentence, by how it begins
    marked: int = 0  # answers that may be repeats and say so
    commands: int = 0
    ready_s: list[float] = field(default_factory=list[float])
    faults: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        ready = sorted(self.ready_s) or [0.0]
        return (
            f"{self.killed} kills, {self.sent} messages: {self.answered} answered, "
            f"{self.given_up.total()} ended with an error that was told; {self.marked} marked repeats; "
            f"{self.commands} commands; restart to ready {ready[len(ready) // 2]:.2f} s, at most {ready[-1]:.2f} s; "
            f"{len(self.faults)} faults"
        )


class Model:
    """Answers every token once, after running its command if it has one; fails now and then."""

    def __init__(self, chance: random.Random, fails: float) -> None:
        self._chance = chance
        self.fails = fails

    def __call__(self, recorded: Recorded) -> Reply:
        if self._chance.random() < self.fails:
            return self._chance.choice(
                [Reply(status=503), Reply("never", break_after=2), Reply(status=500), Reply("cut", end_early=True)]
            )
        open_tokens, called = _open_tokens(recorded.body["messages"])
        todo = [token for token in open_tokens if wants_command(token) and token not in called]
        if todo:
            return Reply(tool_calls=[Call("exec", {"command": f"echo {token} >> done"}) for token in todo])
        return Reply("answer to " + " ".join(open_tokens), delay_s=self._chance.choice([None, 0.0, 0.02]))


def wants_command(token: str) -> bool:
    """Say whether the model runs a command for this message."""
    return int(token.partition("x")[2]) % 3 == 0


def _open_tokens(messages: Sequence[dict[str, Any]]) -> tuple[list[str], str]:
    """Return the tokens that no answer has named yet, and all that was called for them."""
    tokens: dict[str, None] = {}
    called = ""
    for message in messages:
        if message["role"] == "user":
            tokens.update(dict.fromkeys(TOKEN.findall(json.dumps(message["content"]))))
        elif message["role"] == "assistant":
            called += json.dumps(message.get("tool_calls") or "")
            for token in TOKEN.findall(str(message.get("content") or "")):
                tokens.pop(token, None)
    return list(tokens), called


class Storm:
    """One run."""

    def __init__(self, home: Path, weather: Weather) -> None:
        self.home = home
        self.weather = weather
        self.result = Result()
        self.tell: Callable[[Result], None] = lambda result: None  # told now and then
        self._chance = random.Random(weather.seed)
        self._counts: Counter[int] = Counter()
        self._sent: dict[str, int] = {}

    async def run(self) -> Result:
        """Blow, calm down, and count."""
        weather = self.weather
        model = Model(random.Random(weather.seed + 1), weather.model_fails)
        async with LLMServer() as server, TelegramServer(BOT_TOKEN) as telegram, forge() as one:
            server.responder = model
            self._write_config(server, telegram)
            await asyncio.to_thread(seed_sessions, self.home / "data", weather.sessions)
            talking = asyncio.create_task(self._talk(telegram))
            for number in range(1, weather.kills + 1):
                self._upset(telegram)
                await self._live_and_die(one)
                if number % 50 == 0:
                    self.result.sent = len(self._sent)
                    self.tell(self.result)
            talking.cancel()
            telegram.heal()
            model.fails = 0.0
            await self._come_to_rest(one, telegram)
            self._count(telegram)
            self.result.faults += server.refusals
        return self.result

    def _write_config(self, server: LLMServer, telegram: TelegramServer) -> None:
        provider = {"type": "openai", "api_key": "k", "base_url": f"{server.url}/v1"}
        channel = {
            "type": "telegram",
            "token": BOT_TOKEN,
            "base_url": telegram.base_url,
            "allow_from": list(range(1, self.weather.chats + 1)),
            "stream_drafts": self.weather.drafts,
            "edit_interval_s": 0.05,
        }
        settings = {
            "workspace": str(self.home / "work"),
            "data_dir": str(self.home / "data"),
            "providers": {"local": provider},
            "agent": {
                "model": "local/test-model",
                "join_within_s": 0,
                "retry": {"attempts": 12, "base_s": 0.01, "cap_s": 0.1},
            },
            "gateway": {"shutdown_grace_s": 5},
            "channels": {"tg": channel},
        }
        (self.home / "config.yaml").write_text(json.dumps(settings))

    async def _talk(self, telegram: TelegramServer) -> None:
        """Say one thing after the other, here and there."""
        room = self.weather.waiting_max
        while True:
            await asyncio.sleep(self.weather.rate_s)
            if room > 0:
                room -= 1
                chat = self._chance.randint(1, self.weather.chats)
                self._counts[chat] += 1
                token = f"m{chat}x{self._counts[chat]}"
                telegram.push_text(chat, f"please {token}")
                self._sent[token] = chat
            else:
                await asyncio.sleep(0.2)  # counting takes a while, later on
                room = self.weather.waiting_max - len(self._unanswered(telegram))

    def _unanswered(self, telegram: TelegramServer) -> set[str]:
        return self._sent.keys() - {token for text in _bot_texts(telegram) for token in TOKEN.findall(text)}

    def _upset(self, telegram: TelegramServer) -> None:
        """Let some of the next calls to Telegram go wrong."""
        telegram.heal()
        ways: list[dict[str, Any]] = [
            {"status": 502, "html": True},
            {"cut": True},
            {"cut": True, "after_processing": True},
            {"status": 500},
        ]
        for method in ("sendMessage", "getUpdates", "editMessageText"):
            if self._chance.random() < self.weather.telegram_fails * 10:
                telegram.fail(method, times=self._chance.randint(1, 2), **self._chance.choice(ways))

    async def _live_and_die(self, one: Forge) -> None:
        gateway = await self._started(one)
        await asyncio.sleep(self._chance.uniform(*self.weather.lives_s))
        code = await gateway.stop(signal.SIGKILL)
        if code != -signal.SIGKILL:
            self.result.faults.append(f"a gateway ended by itself with {code}: {self._log()[-2000:]}")
        self.result.killed += 1

    async def _started(self, one: Forge) -> Any:  # Any: a gateway
        """Start a gateway, and wait until it is ready."""
        began = time.monotonic()
        gateway = await one.start(Order(str(self.home)))
        with suppress(TimeoutError):
            await _until(lambda: "ready: tg" in self._log() or gateway.ended.done(), 15.0)
        self.result.ready_s.append(time.monotonic() - began)
        return gateway

    def _log(self) -> str:
        return (self.home / "gateway.log").read_text().rpartition(STARTED)[2]

    async def _come_to_rest(self, one: Forge, telegram: TelegramServer) -> None:
        """Let a gateway live until nothing is left to do; what a platform may have got twice needs another start."""
        for _ in range(4):
            gateway = await self._started(one)
            with suppress(TimeoutError):
                await _until(lambda: not telegram.updates.waiting and self._is_settled(), AT_REST_S / 4)
            if (code := await gateway.stop()) != 0:
                self.result.faults.append(f"the last gateway ended with {code}: {self._log()[-2000:]}")
            if self._is_settled():
                return

    def _is_settled(self) -> bool:
        return all(self._log_of(chat).settled() for chat in self._counts)

    def _log_of(self, chat: int) -> SessionLog:
        return scripted.folded(self.home / "data", f"tg:{chat}")

    # -- counting --------------------------------------------------------------------------------------------------------------

    def _count(self, telegram: TelegramServer) -> None:
        result = self.result
        result.sent = len(self._sent)
        done = self.home / "work" / "done"
        ran = Counter(done.read_text().split() if done.exists() else [])
        result.commands = ran.total()
        result.faults += [f"the command of {token} ran {times} times" for token, times in ran.items() if times > 1]
        for chat in self._counts:
            self._count_chat(telegram, chat, ran)

    def _count_chat(self, telegram: TelegramServer, chat: int, ran: Counter[str]) -> None:
        key = f"tg:{chat}"
        found, log = scripted.entries(self.home / "data", key), self._log_of(chat)
        self.result.faults += [f"{key}: {fault}" for fault in scripted.log_faults(found, log)]
        accepted = Counter(
            token for one in found if isinstance(one, InboundMessage) for token in TOKEN.findall(one.text)
        )
        texts = telegram.chat(chat).answers
        seen = Counter(token for text in texts if text.startswith("answer") for token in TOKEN.findall(text))
        marked = Counter(token for text in texts if text.startswith(REPEAT) for token in TOKEN.findall(text))
        self.result.marked += sum(text.startswith(REPEAT) for text in texts)
        given_up = _given_up(found)
        unknown = "outcome unknown" in "".join(row.message.text for row in log.rows)
        for number in range(1, self._counts[chat] + 1):
            token = f"m{chat}x{number}"
            if accepted[token] != 1:
                self.result.faults.append(f"{token} is {accepted[token]} times in the log")
            if token in given_up:
                self.result.given_up[given_up[token][:40]] += 1
                if not any(given_up[token][:40] in text for text in texts):
                    self.result.faults.append(f"{token} was given up ({given_up[token]}) and nobody was told: {texts}")
                continue
            if seen[token] > 1:
                self.result.faults.append(f"{token} was answered {seen[token]} times: {texts}")
            if seen[token] + marked[token] == 0:
                self.result.faults.append(f"{token} was never answered")
            else:
                self.result.answered += 1
            if wants_command(token) and not ran[token] and not unknown:
                self.result.faults.append(f"the command of {token} never ran, and the log does not say so")


def _given_up(found: Sequence[Any]) -> dict[str, str]:  # Any: entries
    """Return the tokens of Turns that ended with an error, and what it was."""
    texts = {one.id: one.text for one in found if isinstance(one, InboundMessage)}
    errors = {one.turn: one.error for one in found if isinstance(one, Finished) and one.error is not None}
    return {
        token: errors[one.turn]
        for one in found
        if isinstance(one, Started | Step) and one.turn in errors
        for inbound in one.inbound
        for token in TOKEN.findall(texts.get(inbound, ""))
    }


def _bot_texts(telegram: TelegramServer) -> list[str]:
    return [text for room in telegram.rooms.values() for text in room.answers]


async def _until(holds: Callable[[], bool], patience_s: float) -> None:
    async with asyncio.timeout(patience_s):
        while not holds():  # noqa: ASYNC110  # another process has no events
            await asyncio.sleep(0.01)


def seed_sessions(data_dir: Path, count: int) -> None:
    """Lay out so many settled sessions."""
    at = Layout(data_dir)
    for folder in (data_dir, at.sessions):
        folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        key = f"tg:{1_000_000 + number}"
        began = Started(id="e1", turn="t1", inbound=(f"{key}:1",), message=user_text("hello", entry="e1"))
        said = Step(id="e2", turn="t1", message=AssistantMessage("hello yourself", entry="e2"), finish="stop")
        lines = [to_line(one) for one in (began, said, Finished(id="e3", turn="t1", answer="e2", iterations=1))]
        at.log(key).write_bytes(header_line(key, datetime.now(UTC)) + b"".join(lines))


def main() -> None:
    """Run a long storm and print what came of it; exit code 1 if anything was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--chats", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drafts", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        storm = Storm(Path(folder), Weather(**vars(options)))
        storm.tell = lambda result: print(result, file=sys.stderr, flush=True)  # noqa: T201  # a program for people
        result = asyncio.run(storm.run())
    sys.stdout.write(f"{result}\n" + "".join(f"{times} x {why} …\n" for why, times in result.given_up.most_common()))
    sys.stdout.write("".join(f"{fault}\n" for fault in result.faults[:50]))
    raise SystemExit(bool(result.faults))


if __name__ == "__main__":
    main()
