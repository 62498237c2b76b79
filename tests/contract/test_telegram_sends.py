"""Files reach people on Telegram: as photos where they can be, whole, in order, with their captions, and never twice in silence."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from nanobot.bus.events import Media, OutboundMessage, Route
from nanobot.channels.telegram.format import MAX_CAPTION_UNITS, render, split_answer, split_caption, utf16_units
from tests.contract.test_telegram_ringing import deliver, drafted
from tests.fakes.pictures import png
from tests.fakes.telegram.chats import Seen
from tests.fakes.telegram.rig import Rig

MARK = "(may be a repeat)"
GIF = b"GIF89a" + b"\2\0\2\0" + b"\0" * 20


def kept(path: Path, name: str, data: bytes, caption: str = "") -> Media:
    """Return a file as a tool promises it."""
    digest = hashlib.sha256(data).hexdigest()
    place = path / f"{digest}{Path(name).suffix}"
    place.write_bytes(data)
    return Media("file", name=name, path=str(place), sha256=digest, size_bytes=len(data), caption=caption)


def owed_file(
    media: Media, *, out: str = "t1.1", chat: str = "1", state: str = "owed", **route: str | None
) -> OutboundMessage:
    """Return what a log owes for it."""
    parts = split_caption(media.caption)
    return OutboundMessage(
        out=out,
        session_key=f"tg:{chat}",
        route=Route("tg", chat, **route),
        text=media.caption,
        parts=parts,
        states=(state, *["owed"] * (len(parts) - 1)),
        media=media,
    )


def owed_text(text: str, *, refs: tuple[str | None, ...] = (), state: str = "owed") -> OutboundMessage:
    """Return the text of an answer that has files."""
    parts = split_answer(text)
    return OutboundMessage(
        out="t1.0",
        session_key="tg:1",
        route=Route("tg", "1"),
        text=text,
        parts=parts,
        states=(state,) * len(parts),
        refs=refs,
        anew=True,
    )


def mine(rig: Rig, chat: int = 1) -> list[Seen]:
    return [seen for seen in rig.server.chat(chat).visible if seen.by_bot]


def shown(rig: Rig) -> list[tuple[str, str]]:
    """Return kind and text of what the bot shows."""
    return [(seen.kind, seen.text) for seen in mine(rig)]


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("plot.png", png(), "photo"),
        ("photo.png", png(pad_bytes=100_000), "photo"),
        ("wide.png", png(4_000, 200), "photo"),
        ("too wide.png", png(4_001, 200), "document"),
        ("too many pixels.png", png(6_000, 4_001), "document"),
        ("too large.png", png(pad_bytes=10_100_000), "document"),
        ("moving.gif", GIF, "document"),
        ("no picture.png", b"text", "document"),
        ("notes.txt", b"notes", "document"),
        ("бумага 文 🎉.pdf", b"%PDF", "document"),
    ],
)
async def test_a_file_is_a_photo_where_it_can_be_one(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    """All of it arrives under its name, in the form that people see best, at the first try."""
    async with Rig(tmp_path, listens=False) as rig:
        await deliver(rig, owed_file(kept(tmp_path, name, data)))
        (seen,) = mine(rig)

    assert seen.kind == kind
    assert seen.file is not None
    assert (seen.file.name, seen.file.data) == (name, data)
    assert len(rig.server.calls) == 1


async def test_a_caption_is_styled_and_goes_with_its_file(tmp_path: Path) -> None:
    """Reply and topic are the Turn's."""
    async with Rig(tmp_path) as rig:
        rig.server.chat(-5).topics = {7}
        asked = rig.server.push_text(-5, "@test_bot plot!", from_id=1)["message"]["message_id"]
        media = kept(tmp_path, "plot.png", png(), "The **plot** of `x`")
        await deliver(rig, owed_file(media, chat="-5", topic="7", reply_to=str(asked)))
        (seen,) = mine(rig, -5)

    assert (seen.text, seen.reply_to, seen.thread) == ("The plot of x", asked, 7)
    assert [entity["type"] for entity in seen.entities] == ["bold", "code"]


async def test_a_caption_that_is_too_long_goes_on_as_text(tmp_path: Path) -> None:
    """Nothing of it is lost, and it is cut between words."""
    caption = "😀 **word** and more. " * 500
    async with Rig(tmp_path, listens=False) as rig:
        await deliver(rig, owed_file(kept(tmp_path, "plot.png", png(), caption)))
        first, *rest = mine(rig)

    assert first.kind == "photo"
    assert MAX_CAPTION_UNITS * 0.8 < utf16_units(first.text) <= MAX_CAPTION_UNITS
    assert " ".join(seen.text for seen in [first, *rest]).split() == render(caption).text.split()
    assert len(rest) >= 2


async def test_files_stand_above_the_text_of_their_answer(tmp_path: Path) -> None:
    """The draft that was there before goes, and the text comes below them, once."""
    async with Rig(tmp_path) as rig:
        await drafted(rig, "Here are both.")
        files = [kept(tmp_path, "a.png", png()), kept(tmp_path, "b.csv", b"1,2")]
        await deliver(rig, *[owed_file(one, out=f"t1.{n}") for n, one in enumerate(files, 1)], owed_text("Both."))

    assert shown(rig) == [("photo", ""), ("document", ""), ("text", "Both.")]


async def test_a_turn_that_sends_files_and_says_nothing_leaves_no_draft(tmp_path: Path) -> None:
    """Only the file is there in the end."""
    async with Rig(tmp_path) as rig:
        turn = rig.turn()
        turn.tool("send_file plot.png")
        await rig.until(lambda: bool(rig.server.chat(1).answers))
        turn.end("")
        await deliver(rig, owed_file(kept(tmp_path, "a.png", png())))
        await rig.until(lambda: shown(rig) == [("photo", "")])


# -- when something goes wrong -------------------------------------------------------------------------------------------------


async def test_an_upload_that_may_have_arrived_is_sent_again_and_says_so(tmp_path: Path) -> None:
    """A connection that breaks after the file was taken: the second copy is marked, in its caption."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.fail("sendPhoto", cut=True, after_processing=True)
        await deliver(rig, owed_file(kept(tmp_path, "a.png", png(), "A plot")))

    assert shown(rig) == [("photo", "A plot"), ("photo", f"{MARK}\nA plot")]


async def test_a_longest_caption_has_room_for_the_mark(tmp_path: Path) -> None:
    """A marked file is not refused for its mark."""
    caption = "word " * 1_000
    async with Rig(tmp_path, listens=False) as rig:
        await deliver(rig, owed_file(kept(tmp_path, "a.png", png(), caption), state="sending"))

    assert shown(rig)[0][1].startswith(MARK)
    assert " ".join(text for _, text in shown(rig)).removeprefix(MARK).split() == caption.split()
    assert not [call.error for call in rig.server.calls if call.error]


async def test_a_flooded_upload_waits_and_is_not_marked(tmp_path: Path) -> None:
    """What was told to wait did not arrive."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.fail("sendDocument", times=2, status=429, retry_after=1, description="Too Many Requests")
        await deliver(rig, owed_file(kept(tmp_path, "a.txt", b"text")))

    assert shown(rig) == [("document", "")]


@pytest.mark.parametrize(
    "description", ["Bad Request: PHOTO_INVALID_DIMENSIONS", "Bad Request: IMAGE_PROCESS_FAILED"], ids=str
)
async def test_a_picture_that_is_refused_as_a_photo_is_a_document(tmp_path: Path, description: str) -> None:
    """With its caption and styles; the picture is not lost to what Telegram thinks of its sides."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.fail("sendPhoto", status=400, description=description)
        await deliver(rig, owed_file(kept(tmp_path, "a.png", png(), "**bold**")))
        (seen,) = mine(rig)

    assert (seen.kind, seen.text, len(seen.entities)) == ("document", "bold", 1)


async def test_a_caption_whose_styles_are_refused_is_plain(tmp_path: Path) -> None:
    """A photo stays a photo."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.fail("sendPhoto", status=400, description="Bad Request: can't parse entities: no")
        await deliver(rig, owed_file(kept(tmp_path, "a.png", png(), "**bold**")))
        (seen,) = mine(rig)

    assert (seen.kind, seen.text, seen.entities) == ("photo", "bold", [])


async def test_a_file_that_is_refused_for_good_is_told_and_recorded(tmp_path: Path) -> None:
    """The chat learns which file and why, and gets its caption; it is not tried again, and what follows goes out."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.fail("sendDocument", times=9, status=400, description="Bad Request: DOCUMENT_INVALID")
        await deliver(rig, owed_file(kept(tmp_path, "a.csv", b"1,2", "The data")), owed_text("Done."))

    assert shown(rig) == [
        ("text", "a.csv could not be sent: Telegram refuses: Document_invalid\n\nThe data"),
        ("text", "Done."),
    ]
    assert ("t1.1", 0, "refused", None) in rig.recorded
    assert len(rig.server.sent("sendDocument")) == 1


async def test_a_group_without_files_is_told_in_words(tmp_path: Path) -> None:
    """Where the bot may write but send no files, the chat is not taken for gone."""
    async with Rig(tmp_path, listens=False) as rig:
        for method, what in (("sendPhoto", "photos"), ("sendDocument", "documents")):
            description = f"Bad Request: not enough rights to send {what} to the chat"
            rig.server.fail(method, status=400, description=description)
        await deliver(rig, owed_file(kept(tmp_path, "a.png", png())))
        (text,) = rig.server.chat(1).answers

    assert text == "a.png could not be sent: Telegram refuses: Not enough rights to send documents to the chat"
    assert rig.channel.note == ""


@pytest.mark.parametrize("damage", ["gone", "changed"])
async def test_a_kept_file_that_is_not_what_was_promised_is_not_sent(tmp_path: Path, damage: str) -> None:
    """Nobody gets another file than the one that was chosen."""
    media = kept(tmp_path, "a.csv", b"1,2")
    if damage == "gone":
        Path(media.path).unlink()
    else:
        Path(media.path).write_bytes(b"secrets")
    async with Rig(tmp_path, listens=False) as rig:
        await deliver(rig, owed_file(media))

    (text,) = rig.server.chat(1).answers
    assert text.startswith("a.csv could not be sent: the kept copy ")
    assert ("t1.1", 0, "refused", None) in rig.recorded


async def test_a_chat_that_blocked_us_is_told_nothing(tmp_path: Path) -> None:
    """It is refused at once, like any message."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.chat(1).is_blocked = True
        await deliver(rig, owed_file(kept(tmp_path, "a.csv", b"1,2")))

    assert ("t1.1", 0, "refused", None) in rig.recorded
    assert [call.method for call in rig.server.calls] == ["sendDocument"]


# -- kills ---------------------------------------------------------------------------------------------------------------------


async def killed_in(rig: Rig, method: str, *messages: OutboundMessage, **how: Any) -> None:
    """Deliver until a call of this method hangs, and end everything there."""
    rig.server.fail(method, hang=True, **how)
    delivering = asyncio.create_task(deliver(rig, *messages))
    await rig.until(lambda: not rig.server.has_fault(method) and bool(rig.server.sent(method)))
    delivering.cancel()
    await asyncio.wait({delivering})
    await rig.stop_listening()


async def test_a_kill_between_a_file_and_its_record_is_marked(tmp_path: Path) -> None:
    """The one window that nothing can close says what it is."""
    file = owed_file(kept(tmp_path, "a.png", png(), "A plot"))
    async with Rig(tmp_path) as rig:
        await killed_in(rig, "sendPhoto", file, after_processing=True)
        assert rig.recorded[-1] == ("t1.1", 0, "sending", None)
        async with Rig(tmp_path, server=rig.server) as again:
            await deliver(again, owed_file(kept(tmp_path, "a.png", png(), "A plot"), state="sending"))

    assert shown(rig) == [("photo", "A plot"), ("photo", f"{MARK}\nA plot")]


@pytest.mark.parametrize("arrived", [False, True])
async def test_a_kill_at_the_text_below_a_file_leaves_no_unmarked_second_copy(tmp_path: Path, arrived: bool) -> None:
    """Its draft is gone by then; the restart sends the text below the file, marked."""
    async with Rig(tmp_path) as rig:
        await drafted(rig, "Here it is.")
        (draft,) = mine(rig)
        refs = (str(draft.message_id),)
        file = owed_file(kept(tmp_path, "a.png", png()))
        await killed_in(rig, "sendMessage", file, owed_text("Here it is.", refs=refs), after_processing=arrived)
        async with Rig(tmp_path, server=rig.server) as again:
            await deliver(again, owed_text("Here it is.", refs=refs, state="sending"))

    copies = [("text", "Here it is.")] if arrived else []
    assert shown(rig) == [("photo", ""), *copies, ("text", f"{MARK}\nHere it is.")]


async def test_after_a_restart_the_draft_goes_and_the_text_stands_below_its_files(tmp_path: Path) -> None:
    """Whatever was reserved before the crash."""
    async with Rig(tmp_path) as rig:
        await drafted(rig, "Here it is.")
        (draft,) = mine(rig)
        await rig.stop_listening()
        async with Rig(tmp_path, server=rig.server) as again:
            file = owed_file(kept(tmp_path, "a.png", png()))
            text = owed_text("Here it is.", refs=(str(draft.message_id),), state="reserved")
            await deliver(again, file, text)

    assert shown(rig) == [("photo", ""), ("text", "Here it is.")]
