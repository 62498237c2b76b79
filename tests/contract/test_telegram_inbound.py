"""What people send on Telegram reaches the core: once, in order, whole, and only from those who may."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.bus.events import InboundMessage, Media
from nanobot.errors import SessionBusy
from tests.fakes.telegram.rig import TOKEN, Rig
from tests.fakes.telegram_server import TelegramServer

BOB: dict[str, Any] = {"id": 1, "is_bot": False, "first_name": "Bob"}


def photo(file: str) -> dict[str, Any]:
    return {"photo": [{"file_id": file, "file_unique_id": file, "width": 9, "height": 9}]}


async def test_messages_are_handed_in_and_then_acknowledged(tmp_path: Path) -> None:
    """Texts arrive in order; the server has nothing left afterwards."""
    async with Rig(tmp_path) as rig:
        rig.server.push_text(1, "one")
        rig.server.push_text(1, "two 😀")
        heard = await rig.heard(2)
        await rig.until(lambda: not rig.server.updates.waiting)

    assert [message.text for message in heard] == ["one", "two 😀"]
    assert [message.role for message in heard] == ["owner", "owner"]


async def test_nothing_is_acknowledged_before_it_is_accepted(tmp_path: Path) -> None:
    """While the core takes its time, the update stays with Telegram, and other chats go on."""
    slow = asyncio.Event()
    async with Rig(tmp_path) as rig:
        accept = rig.accept

        async def accept_slowly(message: InboundMessage) -> Any:
            if message.text == "slow":
                await slow.wait()
            return await accept(message)

        rig.accept = accept_slowly
        await rig.stop_listening()
        rig.listen()
        rig.server.push_text(1, "slow")
        rig.server.push_text(2, "quick")
        await rig.heard(1)
        polls = len(rig.server.sent("getUpdates"))
        await rig.until(lambda: len(rig.server.sent("getUpdates")) >= polls + 2)
        held = [update["message"]["text"] for update in rig.server.updates.waiting]
        slow.set()
        await rig.until(lambda: not rig.server.updates.waiting)

    assert [message.text for message in rig.accepted] == ["quick", "slow"]
    assert held == ["slow", "quick"]
    assert len([call for call in rig.server.sent("getUpdates") if call.result]) < 20


async def test_d17_a_piece_that_comes_late_is_not_taken_for_a_repeat(tmp_path: Path) -> None:
    """An album whose last photo arrives after the first was taken in loses nothing; a repeat is still one."""
    async with Rig(tmp_path) as rig:
        fields: dict[str, Any] = {"media_group_id": "A"}
        first = rig.server.push_text(1, None, **fields, **photo("F0"))
        await rig.heard(1)
        rig.server.push_text(1, None, **fields, **photo("F1"))
        await rig.heard(2)
        rig.server.push_update({"message": first["message"]})
        rig.server.push_text(1, "end")
        heard = await rig.heard(3)

    assert [message.media[0].ref for message in heard if message.media] == ["F0", "F1"]


async def test_c25_a_repeated_update_is_one_message(tmp_path: Path) -> None:
    """The same update twice, and the same message under another update id, are accepted once."""
    async with Rig(tmp_path) as rig:
        update = rig.server.push_text(1, "once")
        await rig.heard(1)
        rig.server.push_update(update)
        rig.server.push_update({"message": update["message"]})
        rig.server.push_text(1, "next")
        heard = await rig.heard(2)

    assert [message.text for message in heard] == ["once", "next"]


async def test_c26_what_was_sent_while_we_were_down_is_answered_once(tmp_path: Path) -> None:
    """A stop before the acknowledgement brings repeats; what came meanwhile is kept, in order."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            server.push_text(1, "before")
            await rig.heard(1)
        server.push_text(1, "while down")
        async with Rig(tmp_path, server=server, listens=False) as again:
            again.seen = rig.seen
            again.listen()
            heard = await again.heard(1)
            await again.until(lambda: not server.updates.waiting)

    assert [message.text for message in heard] == ["while down"]


async def test_d17_an_album_is_one_message_and_holds_nobody_up(tmp_path: Path) -> None:
    """Three photos in three updates with one caption become one message with three files."""
    async with Rig(tmp_path) as rig:
        for number, extra in enumerate(({"caption": "see"}, {}, {})):
            fields: dict[str, Any] = {"media_group_id": "A", **photo(f"F{number}"), **extra}
            rig.server.push_text(1, None, **fields)
        rig.server.push_text(1, "after")
        rig.server.push_text(2, "other")
        heard = await rig.heard(3)
        await rig.until(lambda: not rig.server.updates.waiting)

    album = next(message for message in heard if message.media)
    assert album.text == "see"
    assert [media.ref for media in album.media] == ["F0", "F1", "F2"]
    assert [message.text for message in heard if message.session_key == "tg:1"] == ["see", "after"]


async def test_a_file_is_handed_in_by_reference_and_acknowledged_at_once(tmp_path: Path) -> None:
    """No download stands between a message and its acknowledgement."""
    async with Rig(tmp_path) as rig:
        document = {"file_id": "F", "file_unique_id": "u", "file_name": "Report ü.PDF", "mime_type": "application/pdf"}
        rig.server.push_text(1, None, document=document | {"file_size": 6}, caption="read")
        (message,) = await rig.heard(1)
        await rig.until(lambda: not rig.server.updates.waiting)

    assert message.text == "read"
    assert message.media == (Media("file", "F", "Report ü.PDF", "application/pdf", 6),)
    assert not rig.server.sent("getFile")


async def test_an_update_that_cannot_be_read_is_kept_and_the_next_one_read(tmp_path: Path) -> None:
    """Poison goes to quarantine, raw, and does not come back."""
    async with Rig(tmp_path) as rig:
        rig.server.push_update({"message": {"message_id": 5, "chat": "no chat"}})
        rig.server.push_text(1, "fine")
        await rig.heard(1)
        await rig.until(lambda: not rig.server.updates.waiting)

    (kept,) = (tmp_path / "quarantine").iterdir()
    assert '"no chat"' in kept.read_text()


async def test_a_session_held_elsewhere_is_waited_for(tmp_path: Path) -> None:
    """A message that cannot be accepted yet is accepted later."""
    async with Rig(tmp_path) as rig:
        failures = [SessionBusy("busy", owner="x"), SessionBusy("busy", owner="x")]

        def refuse(message: InboundMessage) -> None:
            if failures:
                raise failures.pop()

        rig.before_accept = refuse
        rig.server.push_text(1, "patience")

        assert (await rig.heard(1))[0].text == "patience"


async def test_a_message_nobody_takes_is_put_aside_and_its_sender_told(tmp_path: Path) -> None:
    """After a minute of tries, the chat goes on."""
    async with Rig(tmp_path) as rig:

        def refuse(message: InboundMessage) -> None:
            if message.text == "stuck":
                raise SessionBusy("another process has it", owner="x")

        rig.before_accept = refuse
        rig.server.push_text(1, "stuck")
        rig.server.push_text(1, "next")
        heard = await rig.heard(1)

    assert heard[0].text == "next"
    assert rig.server.chat(1).answers == ["⚠ I could not take this message: another process has it"]


async def test_g10_strangers_are_turned_away_however_they_come(tmp_path: Path) -> None:
    """Text, command, edit, button and voice of a stranger get the same: nothing."""
    async with Rig(tmp_path) as rig:
        voice = {"file_id": "V", "file_unique_id": "v", "duration": 1}
        double: dict[str, Any] = {"from": {"id": 9, "is_bot": False, "first_name": "Person 1", "username": "person1"}}
        rig.server.push_text(9, "hi", **double)
        edited = rig.server.push_text(9, "/stop")["message"] | {"edit_date": 1_700_000_001}
        rig.server.push_update({"edited_message": edited})
        rig.server.push_text(9, None, voice=voice)
        rig.server.push_callback(9, "/stop", from_id=9, message_id=1)
        rig.server.push_text(1, "friend")
        await rig.heard(1)
        await rig.until(lambda: not rig.server.updates.waiting)

    assert [message.text for message in rig.accepted] == ["friend"]
    assert rig.server.chat(9).answers == []
    assert rig.server.sent("getFile") == []


async def test_a_group_is_heard_when_it_means_us(tmp_path: Path) -> None:
    """A mention, a reply to us and a command count; talk among people does not."""
    async with Rig(tmp_path) as rig:
        mine = {"message_id": 99, "date": 1, "chat": {"id": -5, "type": "supergroup"}, "text": "x"}
        mine["from"] = {"id": 42, "is_bot": True, "first_name": "T"}
        rig.server.push_text(-5, "just us", from_id=7)
        rig.server.push_text(-5, "hey @test_bot", from_id=7)
        rig.server.push_text(-5, "and this?", from_id=7, reply_to_message=mine)
        rig.server.push_text(-5, "/status@test_bot", from_id=1)
        rig.server.push_text(-5, "/status@other_bot", from_id=1)
        heard = await rig.heard(3)
        await rig.until(lambda: not rig.server.updates.waiting)

    assert [message.text.splitlines()[-1] for message in heard] == ["hey @test_bot", "and this?", "/status"]
    assert [message.role for message in heard] == ["member", "member", "owner"]


@pytest.mark.parametrize("listen", [True, False])
async def test_d38_what_a_group_says_to_others_is_overheard_if_so_configured(tmp_path: Path, listen: bool) -> None:
    """With who said it, from those who may come in only; edits and what other bots are told are left out."""
    async with Rig(tmp_path, listen=listen, allow_from=[1, 2, -5]) as rig:
        said = rig.server.push_text(-5, "pizza tonight?", from_id=2)["message"]
        await rig.until(lambda: not rig.server.updates.waiting)
        rig.server.push_update({"edited_message": said | {"text": "pasta?", "edit_date": said["date"] + 5}})
        rig.server.push_text(-5, "/status@other_bot", from_id=2)
        rig.server.push_text(-6, "psst, strangers", from_id=66)
        rig.server.push_text(-5, "@test_bot what did they say?", from_id=1)
        heard = await rig.heard(2 if listen else 1)
        await rig.until(lambda: not rig.server.updates.waiting)

    overheard = [message.text for message in heard if message.overheard]
    assert overheard == (["⟦Person 2 · 2⟧\npizza tonight?"] if listen else [])
    assert len(rig.accepted) == (2 if listen else 1)


async def test_d28_edits_follow_the_setting(tmp_path: Path) -> None:
    """Ignored by default; a message of its own if so configured."""
    for setting, expected in (("ignore", ["first"]), ("rerun", ["first", "second"])):
        async with Rig(tmp_path, edits=setting) as rig:
            message = rig.server.push_text(1, "first")["message"]
            await rig.heard(1)
            rig.server.push_update({"edited_message": message | {"text": "second", "edit_date": 1_700_000_060}})
            await rig.heard(len(expected))
            await rig.until(lambda rig=rig: not rig.server.updates.waiting)

        assert [message.text for message in rig.accepted] == expected
        assert [message.replaces for message in rig.accepted[1:]] == [rig.accepted[0].id] * (len(expected) - 1)


async def test_d28_an_edit_that_changes_nothing_runs_nothing(tmp_path: Path) -> None:
    """Telegram tells of an edit also when it made a preview, or changed what bots do not see; nobody asked anything anew."""
    async with Rig(tmp_path, edits="rerun") as rig:
        message = rig.server.push_text(1, "see https://example.org")["message"]
        await rig.heard(1)
        for date, text in ((60, message["text"]), (70, "see it"), (80, "see it")):
            rig.server.push_update({"edited_message": message | {"text": text, "edit_date": 1_700_000_000 + date}})
        rig.server.push_text(1, "next")
        await rig.heard(3)

    assert [message.text for message in rig.accepted] == ["see https://example.org", "see it", "next"]


async def test_d28_an_edit_of_a_message_that_still_waits_takes_its_place(tmp_path: Path) -> None:
    """Who writes and corrects while the bot is away is understood as they meant it, once."""
    async with Rig(tmp_path, listens=False) as rig:
        before = rig.server.push_text(1, "first")["message"]
        first = rig.server.push_text(1, "call Bab")["message"]
        for date, text in ((first["date"] + 5, "call Bub"), (first["date"] + 9, "call Bob")):
            rig.server.push_update({"edited_message": {**first, "text": text, "edit_date": date}})
        rig.listen()
        heard = await rig.heard(2)
        await rig.until(lambda: not rig.server.updates.waiting)

    assert [(message.id, message.text) for message in heard] == [
        (f"tg:1:{before['message_id']}", "first"),
        (f"tg:1:{first['message_id']}", "call Bob"),
    ]


async def test_d40_a_button_is_answered_at_once_whatever_the_chat_does(tmp_path: Path) -> None:
    """While the chat's lane is stuck, a press is answered and handed in within a second."""
    async with Rig(tmp_path) as rig:
        stuck = asyncio.Event()
        accept = rig.accept

        async def accept_some(message: InboundMessage) -> Any:
            if message.text == "stuck":
                await stuck.wait()
            return await accept(message)

        rig.accept = accept_some
        await rig.stop_listening()
        rig.listen()
        rig.server.push_text(1, "stuck")
        query = rig.server.push_callback(1, "/approve e5 yes", from_id=1, message_id=3)
        rig.server.push_text(1, "/stop")
        heard = await rig.heard(2)
        answered = query in rig.server.answered
        stuck.set()

    assert answered
    assert sorted(message.text for message in heard[:2]) == ["/approve e5 yes", "/stop"]


async def test_d40_a_press_that_is_too_old_counts_all_the_same(tmp_path: Path) -> None:
    """Telegram's "query is too old" is nobody's problem."""
    async with Rig(tmp_path) as rig:
        query = rig.server.push_callback(1, "/approve e5 yes", from_id=1, message_id=3)
        rig.server.callbacks.pop(query)

        assert (await rig.heard(1))[0].text == "/approve e5 yes"


async def test_d22_a_group_that_moved_keeps_its_session(tmp_path: Path) -> None:
    """Messages from the new id go to the old session, also after a restart; they are answered there, and no number is mixed up."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server, group_policy="all") as rig:
            server.push_text(-5, None, from_id=1, migrate_to_chat_id=-1005)
            server.push_text(-1005, "hello", from_id=1)
            await rig.heard(1)
            first = rig.accepted[0]
            noted = list(rig.moved)
        server.chat(-5).migrated_to = -1005
        async with Rig(tmp_path, server=server, group_policy="all") as rig:
            await rig.answer("hi", chat="-5")
            server.push_text(-1005, "and now?", from_id=1)
            (second,) = await rig.heard(1)

    assert noted == [("tg:-5", "tg:-1005")]
    assert (first.session_key, second.session_key) == ("tg:-5", "tg:-5")
    assert {message.route.chat for message in (first, second) if message.route} == {"-1005"}
    assert first.id.startswith("tg:-1005:")
    assert server.chat(-1005).answers == ["hi"]


async def test_d35_the_start_waits_for_the_network(tmp_path: Path) -> None:
    """Failures before the first answer are waited out, said, and forgotten."""
    server = TelegramServer(TOKEN)
    server.fail("getMe", times=2, status=502)
    server.fail("getUpdates", times=2, cut=True)
    async with server, Rig(tmp_path, server=server, listens=False) as rig:
        rig.listen()
        server.push_text(1, "hi")
        await rig.heard(1)

    assert rig.rounds[:2] == ["Telegram has trouble of its own"] * 2
    assert rig.rounds[-1] is None


async def test_d31_a_menu_that_cannot_be_set_stops_nothing(tmp_path: Path) -> None:
    """The command menu is best effort, and tried again."""
    server = TelegramServer(TOKEN)
    server.fail("setMyCommands", times=2, status=500)
    async with server, Rig(tmp_path, server=server) as rig:
        server.push_text(1, "hi")
        await rig.heard(1)
        await rig.until(lambda: bool(server.commands))

    assert server.commands == [{"command": "help", "description": "what you can type"}]


@pytest.mark.parametrize(
    ("status", "words"), [(409, "another program"), (401, "token"), (429, "wait"), (500, "trouble")]
)
async def test_d11_a_poll_that_fails_says_why_and_goes_on(tmp_path: Path, status: int, words: str) -> None:
    """Conflict, a refused token, floods and server faults are waited out."""
    async with Rig(tmp_path) as rig:
        retry = {"retry_after": 1} if status == 429 else {}
        rig.server.fail("getUpdates", times=2, status=status, description="x", **retry)
        rig.server.push_text(1, "poke the poll that is open")
        await rig.until(lambda: sum(error is not None for error in rig.rounds) == 2)
        rig.server.push_text(1, "still there?")
        await rig.heard(2)

    assert all(words in error for error in rig.rounds if error)


async def test_a_poll_that_is_never_answered_is_given_up(tmp_path: Path) -> None:
    """A half-open connection is noticed, told, and replaced; what was said meanwhile is heard."""
    rig = Rig(tmp_path, listens=False, poll_timeout_s=0)
    rig.answer_s = 0.1
    async with rig:
        rig.server.fail("getUpdates", hang=True)
        rig.server.push_text(1, "hi")
        rig.listen()
        heard = await rig.heard(1)

    assert [message.text for message in heard] == ["hi"]
    assert "Telegram did not answer in time" in rig.rounds


async def test_after_the_machine_slept_the_poll_is_begun_anew(tmp_path: Path) -> None:
    """A dead connection costs no more than the look at the clock, however long the poll would have waited."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.fail("getUpdates", hang=True)
        rig.listen()
        await rig.until(lambda: bool(rig.server.sent("getUpdates")))
        await asyncio.sleep(0.05)
        rig.server.push_text(1, "good morning")
        rig.wall_jump_s = 8 * 3_600
        heard = await rig.heard(1)

    assert [message.text for message in heard] == ["good morning"]


async def test_a_second_poller_is_waited_for(tmp_path: Path) -> None:
    """The real conflict: somebody else polls with our token, then leaves."""
    async with Rig(tmp_path) as rig, Rig(tmp_path / "other", server=rig.server) as other:
        await rig.until(lambda: any(rig.rounds))
        await other.stop_listening()
        rig.server.push_text(1, "for the first")
        heard = await rig.heard(1)

    assert heard[0].text == "for the first"


async def test_listening_can_be_stopped_and_begun_again(tmp_path: Path) -> None:
    """A supervisor may restart the listener at any time."""
    async with Rig(tmp_path) as rig:
        for text in ("a", "b", "c"):
            await rig.stop_listening()
            rig.listen()
            rig.server.push_text(1, text)
            await rig.until(lambda text=text: rig.accepted[-1:] != [] and rig.accepted[-1].text == text)

    assert [message.text for message in rig.accepted] == ["a", "b", "c"]


async def test_pairing_lets_somebody_in_by_a_code(tmp_path: Path) -> None:
    """A stranger gets a code, an owner approves it, a user cannot, and the config stays the boss."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server, pairing=True) as rig:
            server.push_text(9, "let me in")
            await rig.until(lambda: server.chat(9).answers != [])
            code = server.chat(9).answers[0].split("/pair ")[1].split()[0]
            server.push_text(2, f"/pair {code}")
            await rig.until(lambda: server.chat(2).answers != [])
            server.push_text(1, f"/pair {code}")
            await rig.until(lambda: server.chat(1).answers != [] and not server.updates.waiting)
        async with Rig(tmp_path, server=server, pairing=True) as rig:
            server.push_text(9, "hello")
            (message,) = await rig.heard(1)

    assert server.chat(2).answers == ["Only the owner can let somebody in."]
    assert server.chat(1).answers == ["9 may talk to me now."]
    assert (message.sender, message.role) == ("9", "user")


async def test_a_start_button_asks_for_help(tmp_path: Path) -> None:
    """/start is what people press first."""
    async with Rig(tmp_path) as rig:
        rig.server.push_text(1, "/start")

        assert (await rig.heard(1))[0].text == "/help"
