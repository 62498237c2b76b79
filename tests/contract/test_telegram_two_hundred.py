"""Two hundred random long answers through the whole way out: complete, in order, valid, and the same as converted in one piece."""

import asyncio
import hashlib
import random
from dataclasses import replace
from pathlib import Path

import pytest

from nanobot.bus.events import Media, OutboundMessage, Route
from nanobot.channels.telegram.format import render_all, split_answer, split_caption
from tests.contract.test_telegram_ringing import deliver
from tests.fakes.pictures import png
from tests.fakes.telegram.rig import Rig
from tests.property.test_telegram_format import document, squeezed, without_tables

COUNT = 200
HEADER = squeezed("name | n")  # a table that is cut repeats its header in each part


def owed(number: int, chat: int, text: str) -> OutboundMessage:
    return OutboundMessage(
        out=f"t{number}.0",
        session_key=f"tg:{chat}",
        route=Route("tg", str(chat)),
        text=text,
        parts=split_answer(text),
    )


async def stream(rig: Rig, number: int, chat: int, text: str) -> None:
    """Show a draft of the answer, in a few steps, some of which people see."""
    turn = rig.turn(f"tg:{chat}", number)
    for at in range(0, len(text), 1_500):
        turn.say(text[at : at + 1_500])
        await asyncio.sleep(0.001)
    turn.end(text)


@pytest.mark.timeout(180)
async def test_two_hundred_long_answers_reassemble_to_the_whole(tmp_path: Path) -> None:
    """Every third was streamed before, every fourth is a photo's caption; a server as strict as the real one refuses nothing.

    Each has a chat of its own, in which nothing else is.
    """
    rng = random.Random(20261201)
    texts = {chat: document(rng) for chat in range(1_000, 1_000 + COUNT)}
    place = tmp_path / "kept.png"
    place.write_bytes(png())
    media = Media("image", name="plot.png", path=str(place), sha256=hashlib.sha256(png()).hexdigest())
    async with Rig(tmp_path) as rig:
        for number, (chat, text) in enumerate(texts.items()):
            rig.server.chat(chat)
            message = owed(number, chat, text)
            if number % 4 == 0:
                message = replace(message, media=media, parts=split_caption(text))
            elif number % 3 == 0:
                await stream(rig, number, chat, text)
            await deliver(rig, message)

    refused = [call.error for call in rig.server.calls if call.error and "not modified" not in call.error]
    assert refused == []
    assert not [one for one in rig.recorded if one[2] == "refused"]
    for number, (chat, text) in enumerate(texts.items()):
        shown = rig.server.chat(chat).visible
        together = squeezed("".join(seen.text for seen in shown))
        whole = squeezed(render_all(text).text)
        assert without_tables(together, HEADER) == without_tables(whole, HEADER), text
        assert shown[0].kind == ("photo" if number % 4 == 0 else "text")
        assert {seen.kind for seen in shown[1:]} <= {"text"}
