"""Calls that wait for an owner are questions with buttons on Telegram."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nanobot.errors import SessionBusy
from tests.fakes.telegram.chats import Seen
from tests.fakes.telegram.rig import TOKEN, Rig
from tests.fakes.telegram_server import TelegramServer

ASKED = "❓ May exec run?"


def shown(rig: Rig, chat: int = 1) -> list[Seen]:
    """Return the messages with buttons."""
    return [seen for seen in rig.server.chat(chat).visible if seen.markup and seen.markup.get("inline_keyboard")]


def buttons(seen: Seen) -> list[tuple[str, str]]:
    return [(one["text"], one["callback_data"]) for one in (seen.markup or {})["inline_keyboard"][0]]


async def asked(rig: Rig, chat: int = 1, count: int = 1) -> Seen:
    await rig.until(lambda: len(shown(rig, chat)) == count)
    return shown(rig, chat)[-1]


async def pressed(rig: Rig, seen: Seen, word: str, *, by: int = 1, chat: int = 1, number: int = 5) -> str:
    """Press a button and return what the person is told."""
    query = rig.server.push_callback(chat, f"ap:e{number}:{word}", from_id=by, message_id=seen.message_id)
    await rig.until(lambda: query in rig.server.answered, within_s=1.0)
    return rig.server.answered[query]


async def test_l01_a_question_has_buttons_that_decide(tmp_path: Path) -> None:
    """One tap decides; the buttons go and the message says who decided what."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.asks("May exec run?")
        seen = await asked(rig)
        before = (seen.text, buttons(seen))
        told = await pressed(rig, seen, "once")
        turn.decided("once", "1")
        await rig.until(lambda: not shown(rig))

    assert before == (ASKED, [("Allow once", "ap:e5:once"), ("Always", "ap:e5:always"), ("Deny", "ap:e5:deny")])
    assert (told, rig.decided) == ("It may run now.", [("tg:1", "e5", "once", "1")])
    assert seen.text == f"{ASKED}\n\n✅ Allowed once by Person."


async def test_l01_only_an_owner_decides(tmp_path: Path) -> None:
    """Users and strangers get an alert; nothing is decided and the buttons stay."""
    async with Rig(tmp_path) as rig:
        rig.turn().asks("May exec run?")
        seen = await asked(rig)
        told = [await pressed(rig, seen, "once", by=by) for by in (2, 666)]

        assert told == ["Only an owner may decide this."] * 2
        assert rig.server.alerts == told
        assert rig.decided == []
        assert len(shown(rig)) == 1


async def test_l01_a_second_press_hears_that_it_was_decided(tmp_path: Path) -> None:
    """Before the message is changed, and long after."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.asks("May exec run?")
        seen = await asked(rig)
        await pressed(rig, seen, "once")
        early = await pressed(rig, seen, "deny")
        turn.decided("once", "1")
        await rig.until(lambda: not shown(rig))
        late = await pressed(rig, seen, "deny")

    assert (early, late) == ("That was decided already.",) * 2
    assert len(rig.decided) == 1


async def test_d40_a_question_is_decided_while_its_chat_is_stuck(tmp_path: Path) -> None:
    """Neither the chat's lane nor a flood in it holds up a press, which is answered within a second."""
    stuck = asyncio.Event()
    async with Rig(tmp_path) as rig:
        accept = rig.accept

        async def accept_some(message: Any) -> Any:
            if message.text == "stuck":
                await stuck.wait()
            return await accept(message)

        rig.accept = accept_some
        await rig.stop_listening()
        rig.listen()
        rig.turn().asks("May exec run?")
        seen = await asked(rig)
        rig.server.push_text(1, "stuck")
        rig.server.fail("sendMessage", times=50, status=429, retry_after=30)
        told = await pressed(rig, seen, "deny")
        rig.server.push_text(1, "/approve")
        await rig.heard(1)
        heard = [message.text for message in rig.accepted]
        stuck.set()

    assert told == "It may run now."
    assert rig.decided == [("tg:1", "e5", "deny", "1")]
    assert heard == ["/approve"]


@pytest.mark.parametrize(
    ("decision", "by", "line"),
    [
        ("always", "1", "✅ Allowed from now on in this conversation by Person 1."),
        ("deny", "99", "🚫 Denied by 99."),
        ("expired", "", "⌛ Nobody decided in time."),
    ],
)
async def test_l01_a_decision_by_other_means_takes_the_buttons_away(
    tmp_path: Path, decision: str, by: str, line: str
) -> None:
    """A command or the clock decides too, and the message says so."""
    async with Rig(tmp_path) as rig:
        rig.server.push_text(1, "do it")
        await rig.heard(1)
        turn = rig.turn()
        turn.asks("May exec run?")
        seen = await asked(rig)
        turn.decided(decision, by)
        await rig.until(lambda: not shown(rig))

    assert seen.text == f"{ASKED}\n\n{line}"


async def test_l01_the_end_of_its_turn_settles_a_question(tmp_path: Path) -> None:
    """A stopped Turn leaves no buttons that look alive."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.asks("May exec run?")
        seen = await asked(rig)
        turn.end("", stop_reason="user_stop")
        await rig.until(lambda: not shown(rig))

    assert seen.text == f"{ASKED}\n\n⏹ Not asked any more."


async def test_l01_a_question_stands_in_its_topic(tmp_path: Path) -> None:
    """Two topics ask at once; each press decides its own."""
    async with Rig(tmp_path) as rig:
        room = rig.server.chat(-5)
        room.is_forum, room.topics = True, {7, 8}
        rig.turn("tg:-5:topic:7").asks("May exec run?")
        first = await asked(rig, -5)
        rig.turn("tg:-5:topic:8").asks("May exec run?")
        second = await asked(rig, -5, 2)
        for seen in (second, first):
            await pressed(rig, seen, "once", chat=-5)

    assert (first.thread, second.thread) == (7, 8)
    assert [key for key, *_ in rig.decided] == ["tg:-5:topic:8", "tg:-5:topic:7"]


async def test_l01_a_question_asked_again_after_a_restart_keeps_its_message(tmp_path: Path) -> None:
    """One message with buttons, before and after; a press that was waiting for the restart counts."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            turn = rig.turn()
            turn.asks("May exec run?")
            seen = await asked(rig)
            turn.end("", stop_reason="shutdown")
            await rig.until(lambda: not rig.server.updates.waiting)
        query = server.push_callback(1, "ap:e5:once", from_id=1, message_id=seen.message_id)
        async with Rig(tmp_path, server=server) as again:
            await asyncio.sleep(0.02)
            turn = again.turn(resumed=True)
            turn.asks("May exec run?")
            await again.until(lambda: query in server.answered, within_s=1.0)
            live = shown(again)
            turn.decided("once", "1")
            await again.until(lambda: not shown(again))

    assert live == [seen]
    assert server.answered[query] == "It may run now."
    assert again.decided == [("tg:1", "e5", "once", "1")]


async def test_l01_a_press_counts_however_late_the_question_is_asked_again(tmp_path: Path) -> None:
    """A Turn may wait for its slot after a restart; who presses meanwhile has decided, and need not press again."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            rig.turn().asks("May exec run?")
            seen = await asked(rig)
        async with Rig(tmp_path, server=server) as again:
            told = [await pressed(again, seen, word) for word in ("once", "deny")]
            before = list(again.decided)
            turn = again.turn(resumed=True)
            turn.decided("once", "1")
            await again.until(lambda: not shown(again))

    assert told == ["It may run now.", "That was decided already."]
    assert before == again.decided == [("tg:1", "e5", "once", "1")]
    assert seen.text == f"{ASKED}\n\n✅ Allowed once by Person."


async def test_a_decision_from_before_the_channel_listened_is_shown(tmp_path: Path) -> None:
    """A Turn that goes on with an answer from before the restart settles the message from before."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            rig.turn().asks("May exec run?")
            seen = await asked(rig)
        async with Rig(tmp_path, server=server, listens=False) as again:
            again.turn(resumed=True).decided("deny", "1")
            again.listen()
            await again.until(lambda: not shown(again))

    assert seen.text == f"{ASKED}\n\n🚫 Denied by 1."


async def test_a_press_that_cannot_be_kept_is_no_decision(tmp_path: Path) -> None:
    """Who pressed is told why, and may press again."""
    async with Rig(tmp_path) as rig:
        rig.turn().asks("May exec run?")
        seen = await asked(rig)
        rig.refusal = SessionBusy("it is held by another process", owner="another")
        refused = await pressed(rig, seen, "once")
        rig.refusal = None
        told = await pressed(rig, seen, "once")

    assert refused == "Nothing was decided: it is held by another process"
    assert told == "It may run now."


async def test_l01_a_question_asked_again_before_the_channel_listens_is_shown(tmp_path: Path) -> None:
    """Recovery begins before channels do, and no question may be missed for that."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.turn(resumed=True).asks("May exec run?")
        rig.listen()

        assert (await asked(rig)).text == ASKED


async def test_l01_what_nobody_asks_any_more_is_settled_by_the_next_turn(tmp_path: Path) -> None:
    """A crash between the decision and the edit leaves buttons; a press does nothing, and the next Turn takes them away."""
    async with TelegramServer(TOKEN) as server:
        async with Rig(tmp_path, server=server) as rig:
            rig.turn().asks("May exec run?")
            seen = await asked(rig)
        async with Rig(tmp_path, server=server) as again:
            told = await pressed(again, seen, "once")
            again.turn(number=2)
            await again.until(lambda: not shown(again))

    assert told == "It may run now."  # what the core says; here it is asked nothing
    assert seen.text == f"{ASKED}\n\n⏹ Not asked any more."


async def test_l01_a_stray_question_works_and_goes(tmp_path: Path) -> None:
    """A message that was sent twice decides too; neither keeps its buttons."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", cut=True, after_processing=True)
        turn = rig.turn()
        turn.asks("May exec run?")
        await asked(rig, count=2)
        told = await pressed(rig, shown(rig)[0], "once")
        turn.decided("once", "1")
        await rig.until(lambda: not shown(rig))

    assert told == "It may run now."
    assert rig.server.chat(1).answers == [f"{ASKED}\n\n✅ Allowed once by Person."] * 2


async def test_a_button_of_a_forgotten_question_is_taken_away(tmp_path: Path) -> None:
    """The core's word is shown, and the buttons go."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.asks("May exec run?")
        seen = await asked(rig)
        told = await pressed(rig, seen, "once", number=77)
        await rig.until(lambda: not shown(rig))

    assert told == "It may run now."
    assert rig.decided == [("tg:1", "e77", "once", "1")]


async def test_a_flooded_question_is_shown_later(tmp_path: Path) -> None:
    """A 429 delays it, and is no reason to ask twice."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", times=2, status=429, retry_after=1)
        rig.turn().asks("May exec run?")

        assert (await asked(rig)).text == ASKED


async def test_a_question_that_cannot_be_shown_stops_nothing(tmp_path: Path) -> None:
    """The chat is gone; the channel goes on."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(1).is_blocked = True
        rig.turn().asks("May exec run?")
        await rig.until(lambda: any(call.error for call in rig.server.sent("sendMessage")))
        rig.server.push_text(2, "hi")

        assert (await rig.heard(1))[0].text == "hi"


async def test_l01_a_question_shows_the_call_as_code(tmp_path: Path) -> None:
    """The command stands in the message as it is."""
    async with Rig(tmp_path) as rig:
        rig.turn().asks("May exec run?", details="git push _now_ 😀")
        seen = await asked(rig)

    assert seen.text == f"{ASKED}\n\ngit push _now_ 😀"
    assert [(one["type"], one["offset"], one["length"]) for one in seen.entities] == [("pre", 17, 17)]


async def test_l01_a_long_call_is_shown_whole(tmp_path: Path) -> None:
    """What does not fit into the message comes as a file above it: nothing is cut away."""
    command = "echo hello && " * 500 + "rm -rf ~"
    async with Rig(tmp_path) as rig:
        rig.turn().asks("May exec run?", details=command)
        seen = await asked(rig)
        files = [one.file.data.decode() for one in rig.server.chat(1).visible if one.file is not None]

    assert "stands in full above" in seen.text
    assert files == [command]
