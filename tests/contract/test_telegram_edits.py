"""Drafts cost no more calls than they must: what looks right already is not edited again."""

import asyncio
import random
from pathlib import Path
from typing import Any

from nanobot.channels.telegram.format import split_answer
from tests.contract.test_telegram_ringing import deliver, owed
from tests.fakes.telegram.rig import Rig, Turn
from tests.fakes.telegram_server import TelegramServer
from tests.property.test_telegram_format import document

LONG = "\n\n".join(f"Paragraph {number}. " + "word " * 300 for number in range(30))

FAULTS: list[dict[str, Any]] = [  # Any: as ``Fault`` takes them
    {"status": 429, "retry_after": 1, "description": "Too Many Requests"},
    {"status": 502, "html": True},
    {"status": 500},
    {"cut": True},
    {"cut": True, "after_processing": True},
]


async def stream(turn: Turn, text: str, *, step: int = 400) -> None:
    """Say a text bit by bit."""
    for at in range(0, len(text), step):
        turn.say(text[at : at + step])
        await asyncio.sleep(0.002)


def edits(rig: Rig) -> int:
    return len(rig.server.sent("editMessageText"))


async def shown(rig: Rig, text: str) -> None:
    """Wait until the draft shows all of a text."""
    end = text.split()[-1]
    await rig.until(lambda: bool(rig.server.chat(1).answers) and rig.server.chat(1).answers[-1].endswith(end))


async def test_an_answer_that_its_draft_shows_already_is_not_edited(tmp_path: Path) -> None:
    """A short answer costs one message and no refused edit."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("same **words**")
        await shown(rig, "words")
        turn.end("same **words**")
        await deliver(rig, owed("same **words**", rig.recorded))

    assert rig.server.chat(1).answers == ["same words"]
    assert edits(rig) == 0


async def test_a_long_answer_is_not_edited_again_at_its_end(tmp_path: Path) -> None:
    """A draft and its answer have the same cuts: of ten messages, at most the last one is touched."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        await stream(turn, LONG)
        await shown(rig, LONG)
        before = edits(rig)
        turn.end(LONG)
        await deliver(rig, owed(LONG, rig.recorded))

    assert " ".join(rig.server.chat(1).answers).split() == LONG.split()
    assert len(rig.server.chat(1).answers) >= 10
    assert edits(rig) - before <= 1
    assert len(rig.server.sent("sendMessage")) == len(rig.server.chat(1).answers)


async def test_what_an_edit_came_to_is_not_guessed(tmp_path: Path) -> None:
    """An edit that may have been taken is followed by one that surely is: no line about a tool stays in an answer."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say("the answer")
        await shown(rig, "answer")
        rig.server.fail("editMessageText", cut=True, after_processing=True)
        turn.tool("exec: ls")
        await rig.until(lambda: rig.server.chat(1).answers == ["the answer\n\n⏳ exec: ls"])
        turn.end("the answer")
        await deliver(rig, owed("the answer", rig.recorded))

    assert rig.server.chat(1).answers == ["the answer"]


async def test_the_last_edit_gets_through_floods_and_faults(tmp_path: Path) -> None:
    """However often it is refused for the moment: one whole copy, in the messages of the draft, without a mark."""
    faults = random.Random(5)
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        await stream(turn, LONG[:9_000])
        await rig.until(lambda: len(rig.server.chat(1).answers) >= 3)
        for _ in range(12):
            how = faults.choice(FAULTS)
            rig.server.fail("editMessageText", **how)
        turn.end(LONG[:9_600] + "THE END")
        answer = LONG[:9_600] + "THE END"
        refs = [seen.message_id for seen in rig.server.chat(1).visible]
        parts = len(split_answer(answer))
        for _ in range(4):  # a lane that gave up begins again at the next start
            if sum(state == "sent" for *_, state, _ in rig.recorded) < parts:
                await deliver(rig, owed(answer, rig.recorded))

    assert " ".join(rig.server.chat(1).answers).split() == answer.split()
    assert [seen.message_id for seen in rig.server.chat(1).visible] == refs
    assert not any("repeat" in text for text in rig.server.chat(1).answers)


async def test_streamed_and_final_cuts_are_the_same_for_whatever_is_written(tmp_path: Path) -> None:
    """Of forty random long answers with code, tables and lists, hardly a full message is edited once it was full."""
    rng = random.Random(20261130)
    again = full = 0
    for _ in range(40):
        text = document(rng) + "\n\n" + document(rng)
        final = {end for _, end in split_answer(text)[:-1]}
        streamed: set[int] = set()
        start = 0
        for at in range(500, len(text), 500):  # as a draft does: what fills a message is not looked at again
            parts = split_answer(text[:at], start=start)
            streamed |= {end for _, end in parts[:-1]}
            start = parts[-1][0] if parts else start
        full += len(final)
        again += len(final - streamed)

    assert full > 100
    assert again <= full * 0.05


async def test_a_flooding_chat_gets_the_answer_with_few_calls(tmp_path: Path) -> None:
    """Where edits are limited, a streamed answer of many messages needs little more than its messages."""
    server = TelegramServer("42:TEST", edit_gap_s=0.2)
    async with server, Rig(tmp_path, server=server, edit_interval_s=0.2) as rig:
        turn = rig.turn()
        await stream(turn, LONG, step=200)
        turn.end(LONG)
        await asyncio.sleep(0.25)
        before = len(server.calls)
        await deliver(rig, owed(LONG, rig.recorded))

    assert " ".join(server.chat(1).answers).split() == LONG.split()
    floods = [call for call in server.calls[before:] if call.error and "Too Many" in call.error]
    assert len(floods) <= 1
