"""A question of a chat that holds no owner is asked in the owner's own chat."""

import asyncio
from pathlib import Path

from tests.contract.test_telegram_questions import asked, buttons, pressed, shown
from tests.fakes.telegram.rig import TOKEN, Rig
from tests.fakes.telegram_server import TelegramServer

PLACED = "“Person” (2) asks in their own chat with me"


async def test_l01_a_user_s_question_goes_to_the_owner(tmp_path: Path) -> None:
    """The owner sees who asks, where, and the whole call; the answer there decides, and both chats see what it was."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn("tg:2")
        turn.asks("May exec run?", details="git push", sender="2")
        seen = await asked(rig, 1)
        before = (seen.text, buttons(seen), [one["type"] for one in seen.entities])
        await rig.until(lambda: bool(rig.server.chat(2).answers))
        notice = list(rig.server.chat(2).answers)
        told = await rig_press(rig, seen.message_id, "ap:e5@2:once")
        turn.decided("once", "1")
        await rig.until(lambda: not shown(rig, 1))
        await rig.until(lambda: "✅" in rig.server.chat(2).answers[-1])

    assert before == (
        f"❓ {PLACED}: May exec run?\n\ngit push",
        [("Allow once", "ap:e5@2:once"), ("Always", "ap:e5@2:always"), ("Deny", "ap:e5@2:deny")],
        ["pre"],
    )
    assert notice == ["❓ May exec run? I asked my owner, whose word decides."]
    assert (told, rig.decided) == ("It may run now.", [("tg:2", "e5", "once", "1")])
    assert seen.text.endswith("✅ Allowed once by Person.")
    assert rig.server.chat(2).answers == [f"{notice[0]}\n\n✅ Allowed once by Person."]


async def rig_press(rig: Rig, message_id: int, data: str, *, by: int = 1, chat: int = 1) -> str:
    """Press a button and return what the person is told."""
    query = rig.server.push_callback(chat, data, from_id=by, message_id=message_id)
    await rig.until(lambda: query in rig.server.answered, within_s=1.0)
    return rig.server.answered[query]


async def test_l01_nobody_else_answers_what_the_owner_was_asked(tmp_path: Path) -> None:
    """Not whoever asked, by a button made up in their own chat; not a stranger."""
    async with Rig(tmp_path) as rig:
        rig.turn("tg:2").asks("May exec run?", sender="2")
        seen = await asked(rig, 1)
        told = [
            await rig_press(rig, seen.message_id, data, by=by, chat=by)
            for by in (2, 666)
            for data in ("ap:e5@2:once", "ap:e5:once")
        ]

        assert told == ["Only an owner may decide this."] * 4
        assert rig.decided == []
        assert len(shown(rig, 1)) == 1


async def test_l01_questions_of_two_chats_are_told_apart(tmp_path: Path) -> None:
    """The same number of another session is another question, also in the owner's own chat."""
    async with Rig(tmp_path) as rig:
        rig.turn("tg:1").asks("May exec run?", sender="1")
        mine = await asked(rig, 1)
        rig.turn("tg:2").asks("May exec run?", sender="2")
        other = await asked(rig, 1, 2)
        await pressed(rig, mine, "deny")
        await rig_press(rig, other.message_id, "ap:e5@2:once")

    assert rig.decided == [("tg:1", "e5", "deny", "1"), ("tg:2", "e5", "once", "1")]


async def test_l01_a_group_without_an_owner_asks_the_owner(tmp_path: Path) -> None:
    """With the group's title and topic; a group that holds the owner is asked as it was."""
    async with Rig(tmp_path) as rig:
        for chat, absent in ((-5, {1}), (-6, set[int]())):
            room = rig.server.chat(chat)
            room.title, room.absent, room.is_forum, room.topics = "Our  house", absent, True, {7}
        rig.turn("tg:-5:topic:7").asks("May exec run?", sender="2")
        rig.turn("tg:-6:topic:7").asks("May exec run?", sender="2")
        mine, theirs = await asked(rig, 1), await asked(rig, -6)
        await rig.until(lambda: bool(rig.server.chat(-5).visible))
        notice = rig.server.chat(-5).visible[0]
        await rig_press(rig, mine.message_id, "ap:e5@-5/7:deny")

    assert mine.text == "❓ “Person” (2) asks in “Our house” (-5), topic 7: May exec run?"
    assert theirs.text == "❓ May exec run?"
    assert (notice.thread, notice.markup) == (7, None)
    assert rig.decided == [("tg:-5:topic:7", "e5", "deny", "1")]


async def test_l01_a_name_cannot_speak_for_somebody_else(tmp_path: Path) -> None:
    """A group's title stays inside its quotes, on one line, and turns nothing around."""
    async with Rig(tmp_path) as rig:
        room = rig.server.chat(-5)
        room.title, room.absent = "x” (1) asks:\nMay\u202e ls run?", {1}
        rig.turn("tg:-5").asks("May exec run?", sender="2")
        seen = await asked(rig, 1)

    assert seen.text == "❓ “Person” (2) asks in “x (1) asks: May ls run?” (-5): May exec run?"


async def test_l01_an_owner_who_was_heard_in_a_group_is_asked_there(tmp_path: Path) -> None:
    """Telegram need not tell who is in a group; who speaks there is."""
    async with Rig(tmp_path, group_policy="all") as rig:
        rig.server.chat(-5).absent = {1}
        rig.server.push_text(-5, "hi", from_id=1)
        await rig.heard(1)
        rig.turn("tg:-5").asks("May exec run?", sender="2")

        assert (await asked(rig, -5)).text == "❓ May exec run?"


async def test_l01_the_first_named_owner_is_asked(tmp_path: Path) -> None:
    """``owners`` goes before the order of ``allow_from``."""
    async with Rig(tmp_path, owners=[9, 1]) as rig:
        rig.server.chat(9)
        rig.turn("tg:2").asks("May exec run?", sender="2")

        assert (await asked(rig, 9)).text == f"❓ {PLACED}: May exec run?"


async def test_l01_an_owner_who_cannot_be_reached_is_said_so(tmp_path: Path) -> None:
    """Who never wrote to the bot cannot be written to: the chat that asks hears it, and hears how it ended."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(1).is_blocked = True
        turn = rig.turn("tg:2")
        turn.asks("May exec run?", sender="2")
        await rig.until(lambda: bool(rig.server.chat(2).answers))
        said = rig.server.chat(2).answers[0]
        turn.decided("expired", "")
        await rig.until(lambda: rig.server.chat(2).answers[0] != said)

    assert "could not be reached" in said
    assert rig.server.chat(2).answers == [f"{said}\n\n⌛ Nobody decided in time."]


async def test_l01_an_owner_s_question_outlives_a_restart(tmp_path: Path) -> None:
    """It is not sent again, to neither chat; a press that comes before it is asked again decides."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            rig.turn("tg:2").asks("May exec run?", sender="2")
            seen = await asked(rig, 1)
            await rig.until(lambda: bool(server.chat(2).answers))
            await rig.until(lambda: (tmp_path / "channels" / "tg.json").read_text().count('"e5"') == 2)
        async with Rig(tmp_path, server=server) as again:
            told = await rig_press(again, seen.message_id, "ap:e5@2:once")
            turn = again.turn("tg:2", resumed=True)
            turn.asks("May exec run?", sender="2")
            await asyncio.sleep(0.03)
            sent = [len(server.chat(chat).answers) for chat in (1, 2)]
            turn.decided("once", "1")
            await again.until(lambda: not shown(again, 1))
            await again.until(lambda: "✅" in server.chat(2).answers[0])

    assert told == "It may run now."
    assert again.decided == [("tg:2", "e5", "once", "1")]
    assert sent == [1, 1]


async def test_l01_only_what_is_missing_is_sent_again(tmp_path: Path) -> None:
    """Killed between the two messages, the next process tells the chat that asks, and does not ask the owner twice."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            rig.server.chat(2).is_blocked = True
            rig.turn("tg:2").asks("May exec run?", sender="2")
            await asked(rig, 1)
            await rig.until(lambda: any(call.error for call in server.sent("sendMessage")))
        server.chat(2).is_blocked = False
        async with Rig(tmp_path, server=server) as again:
            again.turn("tg:2", resumed=True).asks("May exec run?", sender="2")
            await again.until(lambda: bool(server.chat(2).answers))

    assert len(server.chat(1).answers) == 1
    assert server.chat(2).answers == ["❓ May exec run? I asked my owner, whose word decides."]
