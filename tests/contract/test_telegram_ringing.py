"""An answer that rings is a new message in the place of its draft, and never a silent second copy, whenever the daemon dies."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nanobot.bus.events import OutboundMessage, Route
from nanobot.bus.queue import Mailbox
from nanobot.channels.manager import ChannelManager, Patience
from nanobot.channels.telegram.format import split_answer
from nanobot.messages import AssistantMessage, TextPart, UserMessage
from nanobot.session.entries import Delivery, Finished, Owed, Started, Step
from nanobot.session.log import SessionLog
from tests.fakes.telegram.rig import Rig

LONG = "\n\n".join(f"Paragraph {number}. " + "word " * 300 for number in range(6))
MARK = "(may be a repeat)"
ROUTE = Route("tg", "1")


async def deliver(rig: Rig, *messages: OutboundMessage) -> None:
    """Deliver as the gateway does."""

    async def record(out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        rig.recorded.append((out, part, state, ref))

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)

    box: Mailbox[OutboundMessage] = Mailbox(10)
    for message in messages:
        box.put(message)
    box.close()
    manager = ChannelManager([rig.channel], record=record, patience=Patience(again_s=None), sleep=sleep)
    await manager.run(box)


def owed(text: str, records: Sequence[tuple[str, int, str, str | None]] = ()) -> OutboundMessage:
    """Return what a log owes that holds these states of deliveries, the draft's before the answer is owed."""
    log = SessionLog("tg:1")
    log.apply(Started(id="e1", turn="t1", inbound=("m1",), route=ROUTE, message=UserMessage((TextPart("hi"),))))
    states = [
        Delivery(id=f"d{n}", out=out, part=part, state=state, ref=ref)
        for n, (out, part, state, ref) in enumerate(records)
    ]
    log.extend(one for one in states if one.state in ("reserving", "reserved"))
    log.apply(Step(id="e8", turn="t1", message=AssistantMessage(text)))
    log.apply(
        Finished(id="e9", turn="t1", answer="e8", owed=(Owed(out="t1.0", route=ROUTE, parts=split_answer(text)),))
    )
    log.extend(one for one in states if one.state not in ("reserving", "reserved"))
    return log.owed["t1.0"]


async def drafted(rig: Rig, text: str, *, messages: int = 1) -> None:
    """Let a draft of so many messages stand in the chat, of an answer that is finished."""
    turn = rig.turn()
    turn.say(text)
    await rig.until(lambda: sum(state == "reserved" for *_, state, _ in rig.recorded) == messages)
    turn.end(text)


async def killed_while(rig: Rig, message: OutboundMessage, calls: int) -> None:
    """Deliver, and end everything once Telegram has taken so many more messages, before anybody hears of the last one."""
    before = len(rig.server.sent("sendMessage"))
    delivering = asyncio.create_task(deliver(rig, message))
    await rig.until(lambda: len(rig.server.sent("sendMessage")) >= before + calls)
    delivering.cancel()
    await asyncio.wait({delivering})


@pytest.mark.parametrize("text", ["short", LONG], ids=["one message", "several messages"])
async def test_a_kill_between_ringing_and_its_record_leaves_no_unmarked_second_copy(tmp_path: Path, text: str) -> None:
    """The copy that is sent after the restart says that it may be one; there is no draft to turn into another."""
    count = len(split_answer(text))
    async with Rig(tmp_path, ring_after_s=0.0) as rig:
        await drafted(rig, text, messages=count)
        rig.server.fail("sendMessage", hang=True, after_processing=True)
        await killed_while(rig, owed(text), 1)
        first = rig.server.chat(1).answers
        await rig.stop_listening()
        async with Rig(tmp_path, server=rig.server) as again:
            await deliver(again, owed(text, rig.recorded))

    answers = rig.server.chat(1).answers
    assert len(first) == 1
    assert answers[0] == first[0]
    assert answers[1] == f"{MARK}\n{first[0]}"
    assert " ".join(answers[1:]).removeprefix(MARK).split() == text.split()


async def test_a_kill_before_anything_rang_leaves_one_copy(tmp_path: Path) -> None:
    """While the draft stands, the answer is edited into it, as ever."""
    async with Rig(tmp_path, ring_after_s=0.0) as rig:
        await drafted(rig, "half")
        rig.server.fail("deleteMessage", hang=True)
        delivering = asyncio.create_task(deliver(rig, owed("half")))
        await rig.until(lambda: bool(rig.server.sent("deleteMessage")))
        delivering.cancel()
        await asyncio.wait({delivering})
        await rig.stop_listening()
        async with Rig(tmp_path, server=rig.server) as again:
            await deliver(again, owed("half and half", rig.recorded))

    assert rig.server.chat(1).answers == ["half and half"]


async def test_a_long_answer_rings_in_order(tmp_path: Path) -> None:
    """All of the draft goes before the first part comes."""
    async with Rig(tmp_path, ring_after_s=0.0) as rig:
        count = len(split_answer(LONG))
        await drafted(rig, LONG, messages=count)
        await deliver(rig, owed(LONG, rig.recorded))

    shown = [seen for seen in rig.server.chat(1).visible if seen.by_bot]
    assert " ".join(seen.text for seen in shown).split() == LONG.split()
    assert (len(shown), sum(seen.edits for seen in shown)) == (count, 0)
    assert len(rig.server.sent("deleteMessage")) == count


async def test_a_draft_longer_than_its_answer_leaves_nothing_behind_after_a_kill(tmp_path: Path) -> None:
    """The next process takes away what the answer does not need: no half of something stays."""
    async with Rig(tmp_path) as rig:
        await drafted(rig, LONG, messages=len(split_answer(LONG)))
        await rig.stop_listening()
        async with Rig(tmp_path, server=rig.server) as again:
            await deliver(again, owed("Short.", rig.recorded))

    assert rig.server.chat(1).answers == ["Short."]


async def test_an_answer_does_not_begin_to_ring_in_its_middle(tmp_path: Path) -> None:
    """Whether it rings is decided once, however long the delivery takes."""
    async with Rig(tmp_path, ring_after_s=100.0) as rig:
        count = len(split_answer(LONG))
        await drafted(rig, LONG, messages=count)
        message = owed(LONG, rig.recorded)
        await deliver(rig, replace(message, states=("owed", *["sent"] * (count - 1))))
        rig.clock_jump_s = 1_000.0
        await deliver(rig, replace(message, states=("sent", *["owed"] * (count - 1))))

    assert rig.server.sent("deleteMessage") == []
    assert " ".join(rig.server.chat(1).answers).split() == LONG.split()


async def test_a_draft_that_cannot_be_deleted_becomes_the_answer(tmp_path: Path) -> None:
    """Rather no sound than two copies."""
    async with Rig(tmp_path, ring_after_s=0.0) as rig:
        await drafted(rig, "half")
        rig.server.fail("deleteMessage", times=9, status=400, description="Bad Request: message can't be deleted")
        await deliver(rig, owed("half and half", rig.recorded))

    assert rig.server.chat(1).answers == ["half and half"]


async def test_a_deletion_that_has_to_wait_is_waited_for(tmp_path: Path) -> None:
    """A flood while the draft goes costs time only, and nothing is marked: surely nothing was sent."""
    async with Rig(tmp_path, ring_after_s=0.0) as rig:
        await drafted(rig, "half")
        rig.server.fail("deleteMessage", status=429, retry_after=1, description="Too Many Requests")
        rig.server.fail("deleteMessage", cut=True)
        await deliver(rig, owed("whole", rig.recorded))

    assert rig.server.chat(1).answers == ["whole"]
