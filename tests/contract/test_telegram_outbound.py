"""Answers reach people on Telegram: whole, once, in order, and never beside their own draft."""

import asyncio
from pathlib import Path

import pytest

from nanobot.bus.events import OutboundMessage, Route
from nanobot.bus.queue import Mailbox
from nanobot.channels.base import OutboundPart
from nanobot.channels.manager import ChannelManager, Patience
from nanobot.channels.telegram.format import split_answer
from nanobot.errors import SendFailed, SendRejected
from tests.fakes.telegram.rig import TOKEN, Rig
from tests.fakes.telegram_server import TelegramServer

LONG = "\n\n".join(f"Paragraph {number}. " + "word " * 300 for number in range(12))


def owed(text: str, *, chat: str = "1", out: str = "t1.0", states: tuple[str, ...] = ()) -> OutboundMessage:
    parts = split_answer(text)
    return OutboundMessage(
        out=out, session_key=f"tg:{chat}", route=Route("tg", chat), text=text, parts=parts, states=states
    )


async def deliver(rig: Rig, *messages: OutboundMessage) -> list[float]:
    """Deliver as the gateway does; return the waits."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def record(out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        rig.recorded.append((out, part, state, ref))

    box: Mailbox[OutboundMessage] = Mailbox(100)
    for message in messages:
        box.put(message)
    box.close()
    await ChannelManager([rig.channel], record=record, patience=Patience(base_s=0.0, again_s=None), sleep=sleep).run(
        box
    )
    return waits


def words(texts: list[str]) -> list[str]:
    return " ".join(texts).split()


async def test_d07_an_answer_without_a_draft_is_one_message(tmp_path: Path) -> None:
    """One call, styled by entities."""
    async with Rig(tmp_path) as rig:
        refs = await rig.answer("**Report** 😀 `x`")

    (seen,) = rig.server.chat(1).visible
    assert (seen.text, refs) == ("Report 😀 x", [str(seen.message_id)])
    assert [entity["type"] for entity in seen.entities] == ["bold", "code"]
    assert len(rig.server.sent("sendMessage")) == 1
    assert rig.server.sent("editMessageText") == []


async def test_d04_a_flood_in_the_middle_repeats_nothing(tmp_path: Path) -> None:
    """The second part is told to wait; each part arrives once, in order."""
    async with Rig(tmp_path) as rig:
        await rig.answer("warm", out="t0.0")
        rig.server.fail("sendMessage", status=429, retry_after=3, description="Too Many Requests")
        waits = await deliver(rig, owed(LONG))

    assert waits == [3.0]
    assert words(rig.server.chat(1).answers[1:]) == words([LONG])


async def test_a_flooded_chat_delays_no_other(tmp_path: Path) -> None:
    """While one chat waits, another gets its answer."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", chat=1, status=429, retry_after=60, description="Too Many Requests")
        first = asyncio.create_task(rig.answer("slow"))
        await rig.answer("quick", chat="2", out="t9.0")

        with pytest.raises(SendFailed):
            await first
        assert rig.server.chat(2).answers == ["quick"]


async def test_d08_a_cut_connection_is_sent_again_once_and_says_so(tmp_path: Path) -> None:
    """What may have arrived is repeated with a mark; what did not arrive, without."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", cut=True, after_processing=True)
        await deliver(rig, owed("hello"))

    assert rig.server.chat(1).answers == ["hello", "(may be a repeat)\nhello"]


async def test_a_refused_connection_is_sent_again_without_a_word(tmp_path: Path) -> None:
    """Nothing can have arrived at a server that was not there."""
    server = TelegramServer(TOKEN)
    async with server:
        pass
    async with Rig(tmp_path, server=server, listens=False) as rig:
        with pytest.raises(SendFailed) as caught:
            await rig.answer("x")

    assert not caught.value.maybe_sent


async def test_d13_a_reply_target_that_is_gone_does_not_matter(tmp_path: Path) -> None:
    """The answer goes out without being a reply; one that is there is replied to."""
    async with Rig(tmp_path) as rig:
        message = rig.server.push_text(-5, "@test_bot hi", from_id=1)["message"]
        await rig.answer("a reply", chat="-5", reply_to=str(message["message_id"]))
        await rig.answer("no reply", chat="-5", reply_to="999", out="t2.0")
        rig.server.fail("sendMessage", status=400, description="Bad Request: message to be replied not found")
        await rig.answer("old server", chat="-5", reply_to="999", out="t3.0")

    mine = [seen for seen in rig.server.chat(-5).visible if seen.by_bot]
    assert [(seen.text, seen.reply_to) for seen in mine] == [
        ("a reply", message["message_id"]),
        ("no reply", None),
        ("old server", None),
    ]


async def test_d13_a_reply_that_is_refused_for_whatever_reason_goes_out_as_a_message(tmp_path: Path) -> None:
    """Words of Telegram's that we do not know cost the reply, never the answer."""
    async with Rig(tmp_path) as rig:
        rig.server.push_text(-5, "@test_bot hi", from_id=1)
        rig.server.fail("sendMessage", status=400, description="Bad Request: REPLY_SOMETHING_NEW")
        await rig.answer("all the same", chat="-5", reply_to="999")

    mine = [seen for seen in rig.server.chat(-5).visible if seen.by_bot]
    assert [(seen.text, seen.reply_to) for seen in mine] == [("all the same", None)]


async def test_d14_a_topic_that_is_gone_does_not_lose_the_answer(tmp_path: Path) -> None:
    """It goes to the chat; a topic that is there gets its own."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(-5).topics = {7}
        await rig.answer("in topic", chat="-5", topic="7")
        await rig.answer("topic gone", chat="-5", topic="8", out="t2.0")

    assert [(seen.text, seen.thread) for seen in rig.server.chat(-5).visible] == [("in topic", 7), ("topic gone", None)]


async def test_d22_a_moved_group_gets_its_answer_at_the_new_id(tmp_path: Path) -> None:
    """Also when nothing told of the move before."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(-5).migrated_to = -1005
        rig.server.chat(-1005)
        await rig.answer("hi", chat="-5")
        await rig.answer("again", chat="-5", out="t2.0")

    assert rig.server.chat(-1005).answers == ["hi", "again"]
    assert len(rig.server.sent("sendMessage")) == 3


async def test_d23_a_chat_that_blocks_us_is_refused_at_once(tmp_path: Path) -> None:
    """No retries, no harm to others."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(1).is_blocked = True
        waits = await deliver(rig, owed("x"), owed("y", chat="2"))

    assert (waits, rig.server.chat(2).answers) == ([], ["y"])
    assert rig.channel.note == "takes no messages: 1 (Telegram forbids it: Forbidden: bot was blocked by the user)"
    assert ("t1.0", 0, "refused", None) in rig.recorded
    assert len([call for call in rig.server.sent("sendMessage") if call.params.number("chat_id") == 1]) == 1


async def test_text_that_telegram_does_not_like_goes_out_plainly(tmp_path: Path) -> None:
    """A refusal of the styles costs the styles, not the text."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", status=400, description="Bad Request: can't parse entities")
        await rig.answer("**bold**")

    (seen,) = rig.server.chat(1).visible
    assert (seen.text, seen.entities) == ("bold", [])


async def test_a_message_refused_in_every_form_is_given_up(tmp_path: Path) -> None:
    """Never tried for ever."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", times=9, status=400, description="Bad Request: no")
        with pytest.raises(SendRejected):
            await rig.answer("x")

    assert len(rig.server.sent("sendMessage")) == 1


async def test_d34_many_answers_arrive_while_the_poll_is_open(tmp_path: Path) -> None:
    """Polling and sending do not share connections; more sends than connections wait their turn."""
    async with Rig(tmp_path, max_connections=2) as rig:
        await asyncio.gather(*(rig.answer(f"a{number}", out=f"t{number}.0") for number in range(30)))

    assert sorted(rig.server.chat(1).answers) == sorted(f"a{number}" for number in range(30))


# -- drafts --------------------------------------------------------------------------------------------------------------------


async def test_a_draft_becomes_the_answer(tmp_path: Path) -> None:
    """The text grows in one message; at the end there is one message with the whole answer, and its id was kept from the start."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("Hel")
        await rig.until(lambda: rig.server.chat(1).answers == ["Hel"])
        turn.say("lo **you**")
        await rig.until(lambda: rig.server.chat(1).answers == ["Hello you"])
        turn.end("Hello **you**!")
        refs = await rig.answer("Hello **you**!")

    assert rig.server.chat(1).answers == ["Hello you!"]
    assert rig.recorded == [("t1.0", 0, "reserving", None), ("t1.0", 0, "reserved", refs[0])]


async def test_a_first_draft_is_quick(tmp_path: Path) -> None:
    """Our own part between the first words and the message on its way takes a moment."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        await asyncio.sleep(0.05)
        loop = asyncio.get_running_loop()
        began = loop.time()
        turn.say("Hi")
        await rig.until(lambda: rig.server.chat(1).answers == ["Hi"])

        assert loop.time() - began < 0.1
        turn.end("Hi")
        await rig.answer("Hi")


async def test_an_answer_that_looks_like_its_draft_is_sent_nowhere_else(tmp_path: Path) -> None:
    """ "Not modified" is success."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("same")
        await rig.until(lambda: rig.server.chat(1).answers == ["same"])
        turn.end("same")
        await deliver(rig, owed("same"))

    assert rig.server.chat(1).answers == ["same"]


async def test_tools_are_one_changing_line(tmp_path: Path) -> None:
    """What runs is shown under what was said, and is gone in the end."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("Let me look.")
        turn.tool("exec: ls")
        await rig.until(lambda: rig.server.chat(1).answers == ["Let me look.\n\n⏳ exec: ls"])
        turn.tool_ended()
        turn.say("Two files.")
        await rig.until(lambda: rig.server.chat(1).answers == ["Two files."])
        turn.end("Two files.")
        await rig.answer("Two files.")

    assert rig.server.chat(1).answers == ["Two files."]


async def test_a_draft_goes_on_in_the_next_message(tmp_path: Path) -> None:
    """Long before 4096 units the draft rolls over; the finished parts are edited into those messages."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        for word in LONG.split(" "):
            turn.say(word + " ")
            if word == "word" and len(rig.server.chat(1).answers) < 3:
                await asyncio.sleep(0)
        await rig.until(lambda: len(rig.server.chat(1).answers) >= 4, within_s=20)
        turn.end(LONG)
        refs = await rig.answer(LONG)

    assert words(rig.server.chat(1).answers) == words([LONG])
    assert [state for _, part, state, _ in rig.recorded if part == 1] == ["reserving", "reserved"]
    assert len(set(refs)) == len(refs) == len(rig.server.chat(1).answers)


async def test_a_draft_longer_than_its_answer_leaves_nothing_behind(tmp_path: Path) -> None:
    """Messages that the answer does not need are taken away."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say(LONG)
        await rig.until(lambda: len(rig.server.chat(1).answers) >= 4, within_s=20)
        turn.tool("exec: x")
        turn.end("Short.")
        await rig.answer("Short.")

    assert rig.server.chat(1).answers == ["Short."]


async def test_d05_a_flooded_final_edit_ends_in_one_whole_copy(tmp_path: Path) -> None:
    """The last edit waits as long as it is told to; nothing is sent beside the draft."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("half of the")
        await rig.until(lambda: rig.server.chat(1).answers == ["half of the"])
        rig.server.fail("editMessageText", times=2, status=429, retry_after=35, description="Too Many Requests")
        turn.end("half of the answer, and the rest")
        waits = await deliver(rig, owed("half of the answer, and the rest"))

    assert waits == [35.0, 35.0]
    assert rig.server.chat(1).answers == ["half of the answer, and the rest"]
    assert len(rig.server.sent("sendMessage")) == 1


async def test_a_cut_final_edit_is_edited_again_without_a_mark(tmp_path: Path) -> None:
    """An edit cannot be a repeat, however often it has to be tried."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("a")
        await rig.until(lambda: rig.server.chat(1).answers == ["a"])
        rig.server.fail("editMessageText", times=5, cut=True)
        turn.end("a b")
        await deliver(rig, owed("a b"))

    assert rig.server.chat(1).answers == ["a b"]


async def test_a_draft_that_somebody_deleted_is_replaced_by_the_answer(tmp_path: Path) -> None:
    """The answer is sent when there is nothing to edit."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("a")
        await rig.until(lambda: rig.server.chat(1).answers == ["a"])
        for seen in rig.server.chat(1).visible:
            seen.is_deleted = True
        turn.end("a b")
        await rig.answer("a b")

    assert rig.server.chat(1).answers == ["a b"]


async def test_a_draft_whose_first_message_may_have_arrived_is_not_tried_again(tmp_path: Path) -> None:
    """At worst one stub is left over, never two drafts; the answer is marked, because the stub may say all of it."""
    async with Rig(tmp_path) as rig:
        rig.server.fail("sendMessage", cut=True, after_processing=True)
        turn = rig.turn()
        turn.say("stub")
        await rig.until(lambda: rig.server.chat(1).answers == ["stub"])
        turn.say(" and more")
        await asyncio.sleep(0.05)
        turn.end("stub and more")
        await rig.answer("stub and more")

    assert rig.server.chat(1).answers == ["stub", "(may be a repeat)\nstub and more"]


async def test_a_flooded_draft_slows_down_and_goes_on(tmp_path: Path) -> None:
    """A limit on edits costs frequency, nothing else."""
    server = TelegramServer(TOKEN, edit_gap_s=0.3)
    async with server, Rig(tmp_path, server=server) as rig:
        turn = rig.turn()
        for number in range(20):
            turn.say(f"w{number} ")
            await asyncio.sleep(0.02)
        floods = sum(call.error is not None for call in server.sent("editMessageText"))
        text = " ".join(f"w{number}" for number in range(20))
        turn.end(text)
        await asyncio.sleep(0.35)
        await deliver(rig, owed(text))

    assert server.chat(1).answers == [text]
    assert floods <= 2


async def test_a_turn_that_says_nothing_leaves_no_draft(tmp_path: Path) -> None:
    """A stopped Turn whose end is told by /stop takes its draft with it."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.tool("exec: sleep")
        await rig.until(lambda: rig.server.chat(1).answers == ["⏳ exec: sleep"])
        turn.end("", stop_reason="user_stop")
        await rig.until(lambda: rig.server.chat(1).answers == [])


async def test_after_a_restart_the_reserved_message_is_edited(tmp_path: Path) -> None:
    """The log knows the draft's id: the answer is not sent beside it."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("half")
        await rig.until(lambda: bool(rig.recorded) and rig.recorded[-1][2] == "reserved")
        ref = rig.recorded[-1][3]
        await rig.stop_listening()
        async with Rig(tmp_path, server=rig.server) as again:
            again.turn(resumed=True).end("whole")
            route = Route("tg", "1")
            part = OutboundPart(
                out="t1.0", session_key="tg:1", route=route, index=0, count=1, text="whole", ref=ref, may_be_repeat=True
            )
            sent = await again.channel.send(part)

    assert (sent, rig.server.chat(1).answers) == (ref, ["whole"])


async def test_an_answer_that_took_long_rings(tmp_path: Path) -> None:
    """By setting, it is a new message, and the draft goes."""
    async with Rig(tmp_path, ring_after_s=0.0) as rig:
        turn = rig.turn()
        turn.say("a")
        await rig.until(lambda: rig.server.chat(1).answers == ["a"])
        turn.end("a b")
        await rig.answer("a b")

    (seen,) = [seen for seen in rig.server.chat(1).visible if seen.by_bot]
    assert (seen.text, seen.edits) == ("a b", 0)


async def test_without_drafts_only_the_typing_sign_is_shown(tmp_path: Path) -> None:
    """Drafts can be turned off."""
    async with Rig(tmp_path, stream_drafts=False) as rig:
        turn = rig.turn()
        turn.say("secret progress")
        await rig.until(lambda: bool(rig.server.chat(1).actions))
        turn.end("done")
        await rig.answer("done")

    assert rig.server.chat(1).answers == ["done"]
    assert len(rig.server.sent("sendMessage")) == 1


async def test_d41_the_typing_sign_goes_with_the_turn(tmp_path: Path) -> None:
    """It is there soon, in the right topic, and its failure is nobody's."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(-5).topics = {7}
        rig.server.fail("sendChatAction", chat=1, status=429, retry_after=1, description="x")
        turn, other = rig.turn("tg:-5:topic:7"), rig.turn("tg:1")
        await rig.until(lambda: bool(rig.server.chat(-5).actions))
        turn.end("x")
        other.end("y")
        await rig.answer("x", chat="-5", topic="7")
        await rig.answer("y")

    assert [action[1:] for action in rig.server.chat(-5).actions] == [("typing", 7)]
    assert rig.server.chat(1).answers == ["y"]


async def test_answers_go_out_while_nobody_listens(tmp_path: Path) -> None:
    """At the end of the daemon, owed answers still leave, into their drafts where there are some."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("half")
        await rig.until(lambda: rig.server.chat(1).answers == ["half"])
        await rig.stop_listening()
        turn.end("whole")
        await rig.answer("whole")

    assert rig.server.chat(1).answers == ["whole"]


async def test_fifty_chats_at_once(tmp_path: Path) -> None:
    """Each gets its own answer, once."""
    async with Rig(tmp_path) as rig:
        for chat in range(100, 150):
            rig.server.chat(chat)
        turns = [rig.turn(f"tg:{chat}") for chat in range(100, 150)]
        for turn in turns:
            turn.say(f"part for {turn.key} ")
        await asyncio.sleep(0.05)
        for turn in turns:
            turn.end(f"answer for {turn.key}")
        await asyncio.gather(*(rig.answer(f"answer for tg:{chat}", chat=str(chat)) for chat in range(100, 150)))

    assert all(rig.server.chat(chat).answers == [f"answer for tg:{chat}"] for chat in range(100, 150))
