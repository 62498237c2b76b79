"""The local Bot API server refuses what the public one refuses, and shows what a person would see."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, ReplyParameters
from telegram.error import BadRequest, ChatMigrated, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.request import HTTPXRequest
from telegram.warnings import PTBUserWarning

from tests.fakes.telegram_server import TelegramServer

TOKEN = "42:TEST"


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def bot_for(server: TelegramServer, token: str = TOKEN) -> Bot:
    def request() -> HTTPXRequest:
        return HTTPXRequest(read_timeout=2, httpx_kwargs={"trust_env": False})

    url = server.base_url
    file_url = url.removesuffix("bot") + "file/bot"
    return Bot(token, base_url=url, base_file_url=file_url, request=request(), get_updates_request=request())


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(TOKEN) as running:
        running.chat(1)
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Bot]:
    async with bot_for(server) as running:
        yield running


async def refused(call: Awaitable[object]) -> str:
    with pytest.raises(BadRequest) as caught:
        await call
    return str(caught.value)


async def test_a_message_and_its_edits_are_seen(server: TelegramServer, bot: Bot) -> None:
    """What is visible is what a person sees now."""
    first = await bot.send_message(1, "one")
    await bot.send_message(1, "two 😀", entities=[MessageEntity("bold", 4, 2)])
    await bot.edit_message_text("one, changed", 1, first.message_id)
    await bot.delete_message(1, (await bot.send_message(1, "gone")).message_id)

    assert server.chat(1).answers == ["one, changed", "two 😀"]
    assert [call.method for call in server.calls[-2:]] == ["sendMessage", "deleteMessage"]


@pytest.mark.parametrize(
    ("text", "entities", "complaint"),
    [
        ("😀" * 2049, [], "too long"),
        (" \n ", [], "empty"),
        ("😀", [MessageEntity("bold", 1, 1)], "middle of a utf-16 symbol"),
        ("abc", [MessageEntity("bold", 2, 5)], "ends after the end"),
        ("abc", [MessageEntity("bold", 0, 0)], "wrong offset or length"),
        ("a" * 101, [MessageEntity("bold", at, 1) for at in range(101)], "only 100"),
    ],
)
async def test_illegal_texts_are_refused(
    server: TelegramServer, bot: Bot, text: str, entities: list[MessageEntity], complaint: str
) -> None:
    """Lengths and offsets count UTF-16 units, as Telegram counts them."""
    assert complaint in (await refused(bot.send_message(1, text, entities=entities))).lower()
    assert server.chat(1).visible == []


async def test_the_longest_legal_text_is_taken(server: TelegramServer, bot: Bot) -> None:
    """4096 units are allowed."""
    await bot.send_message(1, "😀" * 2048)

    assert server.chat(1).answers == ["😀" * 2048]


async def test_edits_answer_as_telegram_does(bot: Bot) -> None:
    """An edit that changes nothing and one of a message that is gone are refused in Telegram's words."""
    message = await bot.send_message(1, "x")

    assert "not modified" in await refused(bot.edit_message_text("x", 1, message.message_id))
    assert "to edit not found" in await refused(bot.edit_message_text("x", 1, 999))


async def test_replies_topics_and_chats_must_exist(bot: Bot) -> None:
    """References to what is not there are refused, unless the caller allows for it."""
    allowed = ReplyParameters(9, allow_sending_without_reply=True)

    assert "replied not found" in await refused(bot.send_message(1, "x", reply_parameters=ReplyParameters(9)))
    assert (await bot.send_message(1, "x", reply_parameters=allowed)).text == "x"
    assert "thread not found" in await refused(bot.send_message(1, "x", message_thread_id=7))
    assert await refused(bot.send_message(5, "x")) == "Chat not found"


async def test_files_captions_and_buttons_have_limits(server: TelegramServer, bot: Bot) -> None:
    """A document arrives by multipart; captions and button data are measured."""
    wide = InlineKeyboardMarkup([[InlineKeyboardButton("b", callback_data="x" * 64)]])
    await bot.send_document(1, b"data", filename="code.py", caption="here", reply_markup=wide)
    seen = server.chat(1).visible[0]

    assert seen.file is not None
    assert (seen.kind, seen.text, seen.file.name, seen.file.data) == ("document", "here", "code.py", b"data")
    assert "caption" in await refused(bot.send_photo(1, b"data", caption="😀" * 513))
    too_wide = {"inline_keyboard": [[{"text": "b", "callback_data": "é" * 33}]]}
    assert "button_data" in (await refused(_raw(bot, {"chat_id": 1, "text": "x", "reply_markup": too_wide}))).lower()


async def _raw(bot: Bot, parameters: dict[str, Any]) -> object:
    with pytest.warns(
        PTBUserWarning, match="sendMessage|send_message"
    ):  # PTB prefers its own method, which checks button data itself
        return await bot.do_api_request("sendMessage", parameters)


async def test_blocked_migrated_and_wrong_token(server: TelegramServer, bot: Bot) -> None:
    """The errors that are not the text's fault have their own types."""
    server.chat(2).is_blocked = True
    server.chat(-3).migrated_to = -1003

    with pytest.raises(Forbidden):
        await bot.send_message(2, "x")
    with pytest.raises(ChatMigrated) as moved:
        await bot.send_message(-3, "x")
    assert moved.value.new_chat_id == -1003
    stranger = bot_for(server, "1:WRONG")
    with pytest.raises(InvalidToken):
        await stranger.initialize()
    await stranger.shutdown()


async def test_limits_are_per_chat() -> None:
    """A second message within the gap is told how long to wait; another chat is not concerned."""
    clock = Clock()
    async with TelegramServer(TOKEN, message_gap_s=1.0, clock=clock) as server, bot_for(server) as bot:
        server.chat(1)
        server.chat(2)
        await bot.send_message(1, "a")
        with pytest.raises(RetryAfter):
            await bot.send_message(1, "b")
        await bot.send_message(2, "c")
        clock.now += 1.0
        await bot.send_message(1, "d")

    assert server.chat(1).answers == ["a", "d"]


async def test_updates_wait_until_they_are_acknowledged(server: TelegramServer, bot: Bot) -> None:
    """An offset acknowledges what is before it and nothing else."""
    server.push_text(1, "one")
    server.push_text(1, "/stop@test_bot now")
    first, second = await bot.get_updates()

    assert [update.update_id for update in await bot.get_updates()] == [first.update_id, second.update_id]
    assert [update.update_id for update in await bot.get_updates(second.update_id)] == [second.update_id]
    assert await bot.get_updates(second.update_id + 1) == ()
    assert second.message is not None
    assert [(e.type, e.offset, e.length) for e in second.message.entities] == [("bot_command", 0, 14)]


async def test_a_long_poll_wakes_up_and_a_second_poller_ends_the_first(server: TelegramServer) -> None:
    """The older of two polls gets 409; the other gets what comes."""
    async with bot_for(server) as one, bot_for(server) as other:
        older = asyncio.create_task(one.get_updates(timeout=5))
        await asyncio.sleep(0.05)
        newer = asyncio.create_task(other.get_updates(timeout=5))
        with pytest.raises(Conflict):
            await older
        server.push_text(1, "hi")
        (update,) = await newer

    assert update.message is not None
    assert update.message.text == "hi"


async def test_callbacks_expire() -> None:
    """A button press must be answered within 15 seconds."""
    clock = Clock()
    async with TelegramServer(TOKEN, clock=clock) as server, bot_for(server) as bot:
        quick = server.push_callback(1, "yes", from_id=1, message_id=1)
        await bot.answer_callback_query(quick)
        late = server.push_callback(1, "yes", from_id=1, message_id=1)
        clock.now += 16

        assert "query is too old" in (await refused(bot.answer_callback_query(late))).lower()
        assert quick in server.answered


async def test_downloads_have_a_limit(server: TelegramServer, bot: Bot) -> None:
    """Files up to 20 MB can be fetched; of larger ones not even the path is told."""
    server.add_file("small", b"bytes")
    server.add_file("big", b"", size=60_000_000)

    assert bytes(await (await bot.get_file("small")).download_as_bytearray()) == b"bytes"
    assert "file is too big" in (await refused(bot.get_file("big"))).lower()


async def test_faults_happen_as_asked(server: TelegramServer, bot: Bot) -> None:
    """A call can fail before or after it took effect, by status, by a cut or by silence."""
    server.fail("sendMessage", status=429, retry_after=3, description="Too Many Requests: retry after 3")
    server.fail("sendMessage", status=502, html=True)
    server.fail("sendMessage", cut=True)
    server.fail("sendMessage", cut=True, after_processing=True)
    with pytest.raises(RetryAfter):
        await bot.send_message(1, "a")
    for text in ("b", "c", "d"):
        with pytest.raises(NetworkError):
            await bot.send_message(1, text)
    server.fail("sendMessage", hang=True)
    with pytest.raises(NetworkError):
        await bot.send_message(1, "e", read_timeout=0.05)

    assert server.chat(1).answers == ["d"]


async def test_commands_are_checked(server: TelegramServer, bot: Bot) -> None:
    """A command menu with an illegal name is refused."""
    await bot.set_my_commands([("new", "start anew")])

    assert server.commands == [{"command": "new", "description": "start anew"}]
    assert "command_invalid" in (await refused(bot.set_my_commands([("New!", "x")]))).lower()
