"""Approvals from end to end: the real daemon, a model server and a Telegram server; a call waits for a tap."""

import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.test_telegram import Home, world
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.telegram.chats import Seen
from tests.fakes.telegram_server import TelegramServer

APPEND = "echo ran >> marks.txt"


@asynccontextmanager
async def asking(path: Path, *replies: Reply) -> AsyncGenerator[tuple[Home, TelegramServer, LLMServer]]:
    """Yield a world whose ``exec`` has to be allowed."""
    async with world(path, *replies) as (home, telegram, model):
        settings = json.loads(home.config.read_text())
        home.config.write_text(json.dumps(settings | {"tools": {"ask_before": ["exec"]}}))
        yield home, telegram, model


def with_buttons(telegram: TelegramServer, chat: int) -> list[Seen]:
    return [seen for seen in telegram.chat(chat).visible if seen.markup]


async def tap(home: Home, telegram: TelegramServer, seen: Seen, text: str, *, chat: int = 1, by: int = 1) -> str:
    """Press the button of that name and return what the person is told."""
    data = next(one["callback_data"] for one in (seen.markup or {})["inline_keyboard"][0] if one["text"] == text)
    query = telegram.push_callback(chat, data, from_id=by, message_id=seen.message_id)
    await home.until(lambda: query in telegram.answered, "an answer to a press")
    return telegram.answered[query]


def marks(home: Home) -> list[str]:
    path = home.path / "work" / "marks.txt"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize(
    ("button", "ran", "line"),
    [("Allow once", ["ran"], "✅ Allowed once by Person."), ("Deny", [], "🚫 Denied by Person.")],
)
async def test_l01_a_tap_decides(tmp_path: Path, button: str, ran: list[str], line: str) -> None:
    """The command runs once, or not at all; the menu offers the same in words."""
    replies = [Reply(tool_calls=[Call("exec", {"command": APPEND})]), Reply("done")]
    async with asking(tmp_path, *replies) as (home, telegram, _), home.gateway():
        telegram.push_text(1, "do it")
        await home.until(lambda: with_buttons(telegram, 1), "a question")
        question = with_buttons(telegram, 1)[0]
        assert marks(home) == []
        refused = await tap(home, telegram, question, button, by=2)
        await tap(home, telegram, question, button)
        await home.until(lambda: "done" in telegram.chat(1).answers, "the answer")
        again = await tap(home, telegram, question, button) if question.markup else ""
        await home.until(lambda: not with_buttons(telegram, 1), "no buttons")

        assert refused == "Only an owner may decide this."
        assert again in ("", "That was decided already.")
        assert marks(home) == ran
        assert question.text.endswith(line)
        assert {"approve", "deny"} <= {command["command"] for command in telegram.commands}


async def test_l01_words_decide_too(tmp_path: Path) -> None:
    """/approve does what the button does, and takes it away."""
    replies = [Reply(tool_calls=[Call("exec", {"command": APPEND})]), Reply("done")]
    async with asking(tmp_path, *replies) as (home, telegram, _), home.gateway():
        telegram.push_text(1, "do it")
        await home.until(lambda: with_buttons(telegram, 1), "a question")
        telegram.push_text(1, "/approve")
        await home.until(lambda: "done" in telegram.chat(1).answers, "the answer")
        await home.until(lambda: not with_buttons(telegram, 1), "no buttons")

        assert marks(home) == ["ran"]
        assert any("✅ Allowed once by Person 1." in text for text in telegram.chat(1).answers)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_l01_a_question_outlives_the_daemon(tmp_path: Path, how: signal.Signals) -> None:
    """After a restart or a crash there is one live question, the message from before; a tap while it was down counts."""
    replies = [Reply(tool_calls=[Call("exec", {"command": APPEND})]), Reply("done")]
    async with asking(tmp_path, *replies) as (home, telegram, model):
        async with home.gateway() as process:
            telegram.push_text(1, "do it")
            await home.until(lambda: with_buttons(telegram, 1), "a question")
            await home.until(lambda: "questions" in _state(home), "a note of it")
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            process.send_signal(how)
            await process.wait()
        question = with_buttons(telegram, 1)[0]
        data = (question.markup or {})["inline_keyboard"][0][0]["callback_data"]
        telegram.push_callback(1, data, from_id=1, message_id=question.message_id)
        async with home.gateway():
            await home.until(lambda: any("done" in text for text in telegram.chat(1).answers), "the answer")
            await home.until(lambda: not with_buttons(telegram, 1), "no buttons")

    asked = [text for text in telegram.chat(1).answers if text.startswith("❓")]
    assert len(asked) == 1
    assert asked[0].endswith("✅ Allowed once by Person.")
    assert marks(home) == ["ran"]
    assert len(model.chats) == 2


async def test_l01_the_owner_is_asked_for_a_user(tmp_path: Path) -> None:
    """A user's call waits in the owner's chat, over a crash; the tap there runs it and the user gets the answer."""
    replies = [Reply(tool_calls=[Call("exec", {"command": APPEND})]), Reply("done")]
    async with asking(tmp_path, *replies) as (home, telegram, _):
        telegram.chat(1)
        async with home.gateway() as process:
            telegram.push_text(2, "do it")
            await home.until(lambda: with_buttons(telegram, 1), "a question")
            await home.until(lambda: json.dumps(_state(home)).count('"tg:2"') == 2, "notes of both messages")
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            process.kill()
            await process.wait()
        async with home.gateway():
            await tap(home, telegram, with_buttons(telegram, 1)[0], "Allow once")
            await home.until(lambda: "done" in " ".join(telegram.chat(2).answers), "the answer")
            await home.until(lambda: not with_buttons(telegram, 1), "no buttons")

    (asked,) = telegram.chat(1).answers
    assert asked.startswith("❓ “Person 2” (2) asks in their own chat with me: May exec run?")
    assert APPEND in asked
    assert asked.endswith("✅ Allowed once by Person.")
    assert [text for text in telegram.chat(2).answers if "I asked my owner" in text] != []
    assert marks(home) == ["ran"]


async def test_a_tap_is_on_disk_before_anybody_is_told(tmp_path: Path) -> None:
    """Killed while the tap is answered, and with the update gone, the next process does what was decided and asks nothing."""
    replies = [Reply(tool_calls=[Call("exec", {"command": APPEND})]), Reply("done"), Reply("done")]
    async with asking(tmp_path, *replies) as (home, telegram, model):
        async with home.gateway() as process:
            telegram.push_text(1, "do it")
            await home.until(lambda: with_buttons(telegram, 1), "a question")
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            question = with_buttons(telegram, 1)[0]
            telegram.observer = lambda call: process.kill() if call.method == "answerCallbackQuery" else None
            data = (question.markup or {})["inline_keyboard"][0][2]["callback_data"]
            telegram.push_callback(1, data, from_id=1, message_id=question.message_id)
            await process.wait()
        telegram.observer = lambda call: None
        telegram.updates.waiting.clear()
        async with home.gateway():
            # It is marked as a possible repeat if it was on its way at the kill.
            await home.until(lambda: any(text.endswith("done") for text in telegram.chat(1).answers), "the answer")
            await home.until(lambda: not with_buttons(telegram, 1), "no buttons")

    assert marks(home) == []
    assert len([text for text in telegram.chat(1).answers if text.startswith("❓")]) == 1
    assert all("the person said no" in json.dumps(chat.body) for chat in model.chats[1:])


def _state(home: Home) -> dict[str, object]:
    path = home.path / "data" / "channels" / "tg.json"
    return json.loads(path.read_text()) if path.exists() else {}
