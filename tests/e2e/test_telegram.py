"""Telegram from end to end: the real daemon as a process, the strict Bot API on one side and the strict model on the other."""

import asyncio
import json
import os
import random
import signal
import statistics
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from nanobot.gateway.status import ask
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.telegram_server import TelegramServer

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0
TOKEN = "42:SECRET"


class Home:
    """A home directory whose gateways talk to these two servers."""

    def __init__(
        self, path: Path, model: LLMServer, telegram: TelegramServer, **channel: Any
    ) -> None:  # Any: config values
        self.path = path
        self.telegram = telegram
        self.patience_s = PATIENCE_S
        self.config = path / "config.yaml"
        self.log = ""
        settings: dict[str, Any] = {
            "workspace": str(path / "work"),
            "data_dir": str(path / "data"),
            "providers": {"local": {"type": "openai", "api_key": "k", "base_url": f"{model.url}/v1"}},
            "agent": {"model": "local/test-model"},
            "gateway": {"shutdown_grace_s": 0.2, "flush_s": 1},
            "channels": {
                "tg": {
                    "type": "telegram",
                    "token": TOKEN,
                    "base_url": telegram.base_url,
                    "allow_from": [1, 2, -5, *range(100, 160)],
                    "edit_interval_s": 0.05,
                    **channel,
                }
            },
        }
        self.config.write_text(json.dumps(settings))

    @asynccontextmanager
    async def gateway(self) -> AsyncGenerator[Process]:
        """Run the daemon for the block; end it as systemd does, and check that it ended well."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error::ResourceWarning", "-m", "nanobot", "gateway", "--config", str(self.config)),
            stdout=PIPE,
            stderr=PIPE,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": str(self.path)},
        )
        reading = asyncio.create_task(self._read(process))
        try:
            yield process
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(PATIENCE_S):
                    assert await process.wait() == 0, self.log
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading

    async def _read(self, process: Process) -> None:
        assert process.stderr is not None
        while data := await process.stderr.read(65_536):
            self.log += data.decode("utf-8", "replace")

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Wait until it holds."""
        try:
            async with asyncio.timeout(self.patience_s):
                while not holds():  # noqa: ASYNC110  # other processes have no event to wait for
                    await asyncio.sleep(0.01)
        except TimeoutError:
            chats = {chat: room.answers for chat, room in self.telegram.rooms.items()}
            raise AssertionError(f"never: {what}\nchats: {chats}\nlog:\n{self.log}") from None

    async def answered(self, chat: int, *texts: str) -> None:
        """Wait until the bot's visible messages in a chat are these, and nothing is left to be acknowledged."""
        await self.until(lambda: self.telegram.chat(chat).answers == list(texts), f"{texts} in chat {chat}")


@asynccontextmanager
async def world(path: Path, *replies: Reply, **channel: Any) -> AsyncGenerator[tuple[Home, TelegramServer, LLMServer]]:
    async with LLMServer(replies) as model, TelegramServer(TOKEN) as telegram:
        yield Home(path, model, telegram, **channel), telegram, model


async def test_a_message_is_answered_once(tmp_path: Path) -> None:
    """Text in, one message out; the same update again does nothing; the log never shows the token."""
    async with world(tmp_path, Reply("Hello **you**")) as (home, telegram, model):
        update = telegram.push_text(1, "hi")
        async with home.gateway():
            await home.answered(1, "Hello you")
            telegram.push_update(update)
            telegram.push_update({"message": update["message"]})
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            telegram.push_text(1, "/status")
            await home.until(lambda: len(telegram.chat(1).answers) == 2, "a status")

    assert telegram.chat(1).answers[0] == "Hello you"
    assert len(model.chats) == 1
    assert "SECRET" not in home.log
    assert not model.refusals


async def test_tools_and_a_long_answer_arrive_whole(tmp_path: Path) -> None:
    """A tool's line shows while it runs; the long answer comes in parts, each once, with its code as code."""
    long = (
        "# Result\n\n" + "\n\n".join(f"Paragraph {n} " + "word " * 150 for n in range(10)) + "\n\n```python\nx = 1\n```"
    )
    replies = [Reply("Let me look.", tool_calls=[Call("exec", {"command": "sleep 0.3; echo done"})]), Reply(long)]
    async with world(tmp_path, *replies) as (home, telegram, model), home.gateway():
        telegram.push_text(1, "work")
        await home.until(lambda: any("⏳" in text for text in telegram.chat(1).answers), "a tool's line")
        await home.until(lambda: "x = 1" in "".join(telegram.chat(1).answers), "the end")
        await asyncio.sleep(0.3)

    shown = telegram.chat(1).answers
    assert "".join("".join(shown).split()) == "".join(
        long.replace("# R", "R").replace("```python", "").replace("```", "").split()
    )
    assert len(model.chats) == 2
    pre = [entity for seen in telegram.chat(1).visible for entity in seen.entities if entity["type"] == "pre"]
    assert [entity.get("language") for entity in pre] == ["python"]


@pytest.mark.parametrize("as_file", [True, False])
async def test_long_code_is_a_file_if_so_configured(tmp_path: Path, as_file: bool) -> None:
    """The draft makes room for a document with all of the code; without the setting, it is as many messages as it takes."""
    code = "".join(f"print({number})\n" for number in range(1_500))
    answer = Reply(f"Here:\n\n```python\n{code}```\n\nThat was it.")
    async with world(tmp_path, answer, long_code_as_file=as_file) as (home, telegram, _), home.gateway():
        telegram.push_text(1, "write it")
        await home.until(lambda: telegram.chat(1).answers[-1:] == ["That was it."] or not as_file, "the answer")
        await home.until(lambda: "That was it." in "".join(telegram.chat(1).answers), "the end")
        await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
        await asyncio.sleep(0.3)

    shown = [seen for seen in telegram.chat(1).visible if seen.by_bot]
    if as_file:
        assert [seen.text for seen in shown] == ["Here:", "code.py · 1,500 lines", "That was it."]
        assert shown[1].file is not None
        assert shown[1].file.data.decode() == code
    else:
        assert all(seen.file is None for seen in shown)
        assert "".join("".join(seen.text for seen in shown).split()) == "".join(f"Here:{code}Thatwasit.".split())


async def test_floods_and_cut_connections_cost_time_only(tmp_path: Path) -> None:
    """429 on the first message, 429 on the last edit, a 500 on a poll: one whole copy."""
    async with world(tmp_path, Reply("the whole answer", delay_s=0.05)) as (home, telegram, _):
        telegram.fail("sendMessage", status=429, retry_after=1, description="Too Many Requests")
        telegram.fail("editMessageText", times=2, status=429, retry_after=1, description="Too Many Requests")
        telegram.fail("getUpdates", status=500)
        async with home.gateway():
            telegram.push_text(1, "hi")
            await home.answered(1, "the whole answer")
            await asyncio.sleep(0.2)

    assert telegram.chat(1).answers == ["the whole answer"]


async def test_a_flooded_chat_delays_no_other(tmp_path: Path) -> None:
    """While Telegram makes one chat wait, others are answered as if nothing was: less than 100 ms later, one with another."""
    async with world(tmp_path) as (home, telegram, _), home.gateway():
        await _answer_times(home, 2, "warm up", count=2)
        calm = await _answer_times(home, 2, "calm")
        telegram.fail("sendMessage", chat=1, times=99, status=429, retry_after=60, description="Too Many Requests")
        telegram.push_text(1, "slow")
        await home.until(lambda: [call for call in telegram.sent("sendmessage") if call.error], "a flood")
        flooded = await _answer_times(home, 2, "quick")
        telegram.heal()

    assert telegram.chat(1).answers == []
    assert statistics.median(flooded) - statistics.median(calm) < 0.1


async def _answer_times(home: Home, chat: int, words: str, *, count: int = 10) -> list[float]:
    """Say something so many times, one after the other; return how long each answer took."""
    loop, took = asyncio.get_running_loop(), list[float]()
    for number in range(count):
        said, began = f"{words} {number}", loop.time()
        home.telegram.push_text(chat, said)
        await home.until(lambda said=said: any(said in text for text in home.telegram.chat(chat).answers), said)
        took.append(loop.time() - began)
    return took


async def test_a_first_draft_is_quick(tmp_path: Path) -> None:
    """From the update to the first words in the chat, 50 ms of our own time do; the model's first word takes none here."""
    async with world(tmp_path) as (home, telegram, _), home.gateway():
        took: list[float] = []
        for number in range(12):
            telegram.push_text(100 + number, "hi")
            await home.until(lambda number=number: telegram.chat(100 + number).answers, "a draft")
            given = [call.at for call in telegram.sent("getUpdates") if call.result]
            sent = [call.at for call in telegram.sent("sendMessage")]
            took.append(sent[-1] - max(at for at in given if at < sent[-1]))

    assert sorted(took)[2] < 0.05  # the machine that runs the tests is busy with others


async def test_updates_out_of_order_and_twice_are_answered_once(tmp_path: Path) -> None:
    """Each message of each chat reaches the model once, whatever order they are handed out in, and however often."""
    chance = random.Random(5)
    async with world(tmp_path) as (home, telegram, model), home.gateway():
        telegram.updates.disorder = lambda updates: chance.sample(updates, len(updates))
        for number in range(6):
            for chat in (100, 101, 102):
                update = telegram.push_text(chat, f"m{number}of{chat}.")
                telegram.push_update({"message": update["message"]})
        await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
        await home.until(lambda: not _running(tmp_path), "quiet")

    asked = "".join(json.dumps(chat.body["messages"][-1:]) for chat in model.chats)
    entries = [line for path in (tmp_path / "data").rglob("*.jsonl") for line in path.read_text().splitlines()]
    inbound = [json.loads(line)["content"] for line in entries if json.loads(line)["type"] == "inbound"]
    assert sorted(inbound) == sorted(f"m{number}of{chat}." for number in range(6) for chat in (100, 101, 102))
    assert asked.count("of100.") == asked.count("of101.") == asked.count("of102.") == 6


def _running(path: Path) -> bool:
    """Say whether a Turn runs or a message waits."""
    found = ask(path / "data")
    return found is None or bool(found["turns"] or found["pending"])


async def test_an_album_is_one_turn(tmp_path: Path) -> None:
    """Three photos in three updates: one question to the model, with all of them in it."""
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef"
        "0000000049454e44ae426082"
    )
    async with world(tmp_path, Reply("three dots")) as (home, telegram, model), home.gateway():
        for number in range(3):
            telegram.add_file(f"F{number}", png + bytes([number]), path=f"documents/{number}.png")
            document = {"file_id": f"F{number}", "file_unique_id": "u", "file_name": "a.png", "mime_type": "image/png"}
            fields: dict[str, Any] = {"media_group_id": "A", "document": document}
            fields |= {} if number else {"caption": "what is it?"}
            telegram.push_text(1, None, **fields)
        await home.answered(1, "three dots")

    (asked,) = model.chats
    assert json.dumps(asked.body).count("image_url") >= 3
    assert "what is it?" in json.dumps(asked.body)


async def test_a_restart_in_the_middle_ends_in_one_answer(tmp_path: Path) -> None:
    """SIGTERM during a streamed Turn: the next process goes on and edits the answer into the same message."""
    first = Reply("half of it", gate=asyncio.Event())
    async with world(tmp_path, first, Reply("the whole of it")) as (home, telegram, model):
        async with home.gateway():
            telegram.push_text(1, "hi")
            await home.until(lambda: model.chats, "a model call")
        telegram.push_text(1, "sent while down")
        async with home.gateway():
            await home.until(lambda: "the whole of it" in telegram.chat(1).answers, "the answer")
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            await asyncio.sleep(0.2)

    assert telegram.chat(1).answers.count("the whole of it") == 1
    assert len(model.chats) <= 3


async def test_a_kill_after_the_draft_leaves_one_copy(tmp_path: Path) -> None:
    """kill -9 between draft and answer: after the restart the draft's message holds the answer."""
    first = Reply("half", tool_calls=[Call("exec", {"command": "sleep 5"})])
    async with world(tmp_path, first, Reply("all of it")) as (home, telegram, model):
        async with home.gateway() as process:
            telegram.push_text(1, "hi")
            await home.until(lambda: any("⏳" in text for text in telegram.chat(1).answers), "a draft")
            draft = next(seen.message_id for seen in telegram.chat(1).visible if seen.by_bot)
            await asyncio.sleep(0.2)
            process.kill()
            await process.wait()
        async with home.gateway():
            await home.answered(1, "all of it")

    (seen,) = [seen for seen in telegram.chat(1).visible if seen.by_bot]
    assert seen.message_id == draft
    assert len(model.chats) == 2


async def test_stop_acts_at_once(tmp_path: Path) -> None:
    """/stop ends a running tool, says what it was, and leaves no draft behind."""
    replies = [Reply(tool_calls=[Call("exec", {"command": "sleep 30"})]), Reply("next")]
    async with world(tmp_path, *replies) as (home, telegram, _), home.gateway():
        telegram.push_text(1, "work")
        await home.until(lambda: any("⏳" in text for text in telegram.chat(1).answers), "a tool's line")
        telegram.push_text(1, "/stop")
        await home.until(
            lambda: len(telegram.chat(1).answers) == 1 and "Stopped" in telegram.chat(1).answers[0], "a stop"
        )
        telegram.push_text(1, "and now?")
        await home.until(lambda: telegram.chat(1).answers[1:] == ["next"], "the next answer")


async def test_c05_stop_ends_the_turn_of_its_own_topic_and_no_other(tmp_path: Path) -> None:
    """A topic is a conversation with a key of its own, also for /stop."""
    async with world(tmp_path) as (home, telegram, model):
        room = telegram.chat(-5)
        room.is_forum, room.topics = True, {7, 8}
        in_eight = asyncio.Event()
        model.responder = lambda request: (
            Reply("from eight", gate=in_eight) if "in 8" in str(request.body["messages"][-1]) else Reply(hang="accept")
        )
        async with home.gateway():
            for topic in (7, 8):
                telegram.push_text(
                    -5, f"@test_bot in {topic}", from_id=1, message_thread_id=topic, is_topic_message=True
                )
            await home.until(lambda: len(model.chats) == 2, "two requests")
            telegram.push_text(-5, "/stop@test_bot", from_id=1, message_thread_id=7, is_topic_message=True)
            await home.until(lambda: any("topped" in text for text in room.answers), "a stop")
            in_eight.set()
            await home.until(lambda: "from eight" in room.answers, "the other topic's answer")

    mine = {seen.thread: seen.text for seen in room.visible if seen.by_bot}
    assert mine[7].startswith("Stopped")
    assert mine[8] == "from eight"


async def test_d23_a_chat_that_blocks_the_bot_is_shown_in_the_status(tmp_path: Path) -> None:
    """The operator reads which chat takes no messages, and why; the other chats go on."""
    async with world(tmp_path, Reply("one"), Reply("two")) as (home, telegram, _), home.gateway():
        telegram.push_text(1, "hi")
        telegram.chat(1).is_blocked = True
        await home.until(lambda: "does not take messages" in home.log, "a refusal")
        telegram.push_text(2, "hi")
        await home.until(lambda: telegram.chat(2).answers, "another chat's answer")
        found = await asyncio.to_thread(ask, tmp_path / "data")

    assert found is not None
    (channel,) = cast("list[dict[str, str]]", found["channels"])
    assert channel["state"] == "up"
    assert "takes no messages: 1 (Telegram forbids it" in channel["detail"]


async def test_topics_are_conversations_of_their_own(tmp_path: Path) -> None:
    """Two topics of one group at once: each answer in its own topic."""
    async with world(tmp_path) as (home, telegram, _):
        room = telegram.chat(-5)
        room.is_forum, room.topics = True, {7, 8}
        async with home.gateway():
            for topic in (7, 8):
                telegram.push_text(
                    -5, f"@test_bot in {topic}", from_id=1, message_thread_id=topic, is_topic_message=True
                )
            await home.until(lambda: len(room.answers) == 2, "two answers")
            await home.until(lambda: all("echo" in text for text in room.answers), "whole answers")
            await asyncio.sleep(0.1)

    mine = {seen.thread: seen.text for seen in room.visible if seen.by_bot}
    assert "in 7" in mine[7]
    assert "in 8" in mine[8]


async def test_fifty_chats_at_once(tmp_path: Path) -> None:
    """Each is answered exactly once."""
    async with world(tmp_path) as (home, telegram, model), home.gateway():
        for chat in range(100, 150):
            telegram.push_text(chat, f"question {chat}")
        await home.until(
            lambda: all(
                len(telegram.chat(chat).answers) == 1 and f"question {chat}" in telegram.chat(chat).answers[0]
                for chat in range(100, 150)
            ),
            "fifty answers",
        )
        await home.until(lambda: not telegram.updates.waiting, "acknowledgement")

    assert len(model.chats) == 50
    assert not model.refusals


async def test_ten_messages_after_a_downtime_are_one_answer(tmp_path: Path) -> None:
    """What waited is kept, in order, and answered together."""
    async with world(tmp_path, Reply("all ten")) as (home, telegram, model):
        for number in range(10):
            telegram.push_text(1, f"m{number}")
        async with home.gateway():
            await home.until(lambda: "all ten" in telegram.chat(1).answers, "an answer")
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            await asyncio.sleep(0.3)

    said = json.dumps(model.chats[-1].body)
    assert [said.index(f"m{number}") for number in range(10)] == sorted(
        said.index(f"m{number}") for number in range(10)
    )


async def test_a_second_gateway_with_the_same_bot_is_refused(tmp_path: Path) -> None:
    """One token, one process."""
    async with world(tmp_path) as (home, telegram, _), home.gateway():
        await home.until(lambda: telegram.sent("getMe"), "a start")
        other = json.loads(home.config.read_text()) | {"data_dir": str(tmp_path / "other")}
        path = tmp_path / "other.yaml"
        path.write_text(json.dumps(other))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nanobot", "gateway", "--config", str(path)),
            stderr=PIPE,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        async with asyncio.timeout(PATIENCE_S):
            _, told = await process.communicate()

    assert process.returncode != 0
    assert b"another gateway" in told
