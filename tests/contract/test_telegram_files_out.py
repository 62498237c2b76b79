"""Long code arrives on Telegram as a file, in its place between the texts around it."""

from dataclasses import replace
from pathlib import Path

from nanobot.bus.events import Route
from nanobot.channels.base import OutboundPart
from nanobot.channels.telegram.code import split_with_files
from tests.fakes.telegram.chats import Seen
from tests.fakes.telegram.rig import Rig

CODE = "".join(f"print({number})\n" for number in range(2_000))
ANSWER = f"Here it is:\n\n```python\n{CODE}```\n\nThat was it."


def seen(rig: Rig, chat: int = 1) -> list[tuple[str, str]]:
    """Return kind and text of what the bot shows."""
    return [(one.kind, one.text) for one in rig.server.chat(chat).visible if one.by_bot]


def documents(rig: Rig) -> list[Seen]:
    return [one for one in rig.server.chat(1).visible if one.file is not None]


WHOLE = [("text", "Here it is:"), ("document", "code.py · 2,000 lines"), ("text", "That was it.")]


async def test_long_code_is_a_file_between_its_texts(tmp_path: Path) -> None:
    """The file holds all of the code; its caption says what it is; only the first message is a reply."""
    async with Rig(tmp_path) as rig:
        asked = rig.server.push_text(-5, "@test_bot code!", from_id=1)["message"]["message_id"]
        await rig.heard(1)
        await rig.answer(ANSWER, chat="-5", reply_to=str(asked))
        shown = [one for one in rig.server.chat(-5).visible if one.by_bot]

    assert seen(rig, -5) == WHOLE
    assert [one.reply_to for one in shown] == [asked, None, None]
    assert shown[1].file is not None
    assert (shown[1].file.name, shown[1].file.data.decode()) == ("code.py", CODE)


async def test_a_draft_of_code_makes_room_for_the_file(tmp_path: Path) -> None:
    """What the draft showed of it goes; the text before stays where it was, and the text after stands below the file."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.say(ANSWER[:9_000])
        await rig.until(lambda: len(seen(rig)) >= 2)
        first = rig.server.chat(1).visible[0].message_id
        turn.say(ANSWER[9_000:])
        turn.end(ANSWER)
        refs = await rig.answer(ANSWER)

    assert seen(rig) == WHOLE
    assert refs[0] == str(first)


async def test_after_a_restart_the_file_is_below_what_comes_before_it(tmp_path: Path) -> None:
    """The first reserved message is edited; those that were reserved for the file and for what follows are taken away."""
    async with Rig(tmp_path, listens=False) as rig:
        reserved = [await rig.channel.send(part_of("draft", 0, 5, index)) for index in range(3)]
        cuts = split_with_files(ANSWER)
        refs = [
            await rig.channel.send(replace(part_of(ANSWER, start, end, index, out="t2.0"), ref=reserved[index]))
            for index, (start, end) in enumerate(cuts)
        ]

    assert seen(rig) == WHOLE
    assert refs[0] == reserved[0]


def part_of(text: str, start: int, end: int, index: int, *, out: str = "t1.0") -> OutboundPart:
    """Return one of three parts."""
    return OutboundPart(
        out=out,
        session_key="tg:1",
        route=Route("tg", "1"),
        index=index,
        count=3,
        text=text[start:end],
        before=text[:start],
    )


async def test_where_files_are_not_allowed_code_is_text(tmp_path: Path) -> None:
    """A refused document costs the file, never the code."""
    async with Rig(tmp_path) as rig:
        description = "Bad Request: not enough rights to send documents to the chat"
        rig.server.fail("sendDocument", times=9, status=400, description=description)
        await rig.answer(ANSWER)
        texts = [text for _, text in seen(rig)]

    assert (texts[0], texts[-1]) == ("Here it is:", "That was it.")
    assert "\n".join(texts[1:-1]).split() == CODE.split()


async def test_a_file_that_may_have_arrived_says_so(tmp_path: Path) -> None:
    """As every message does."""
    async with Rig(tmp_path) as rig:
        await rig.answer(ANSWER, may_be_repeat=True)

    assert documents(rig)[0].text == "(may be a repeat)\ncode.py · 2,000 lines"
