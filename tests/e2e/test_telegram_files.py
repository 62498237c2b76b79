"""Files from the agent to people, with the real daemon: kept, sent above the answer, and honest about what a crash left open."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.test_telegram import world
from tests.fakes.llm_server import Call, Reply
from tests.fakes.pictures import png
from tests.fakes.telegram.chats import Seen
from tests.fakes.telegram_server import TelegramServer

MARK = "(may be a repeat)"
BOTH = [
    Call("send_file", {"path": "plot.png", "caption": "The **plot**"}),
    Call("send_file", {"path": "data.csv"}),
]
SHOWN = [("photo", "The plot"), ("document", ""), ("text", "Here they are: ![plot](plot.png)")]


def prepare(home: Path) -> None:
    work = home / "work"
    work.mkdir(exist_ok=True)
    (work / "plot.png").write_bytes(png())
    (work / "data.csv").write_bytes(b"1,2,3")


def shown(telegram: TelegramServer) -> list[tuple[str, str]]:
    return [(seen.kind, seen.text) for seen in mine(telegram)]


def mine(telegram: TelegramServer) -> list[Seen]:
    return [seen for seen in telegram.chat(1).visible if seen.by_bot]


async def test_files_arrive_above_the_answer(tmp_path: Path) -> None:
    """In the order of the calls; the picture as a photo; an image in the Markdown of the answer sends nothing."""
    prepare(tmp_path)
    replies = [Reply("I am drawing.", tool_calls=BOTH), Reply(SHOWN[-1][1], delay_s=0.1)]
    async with world(tmp_path, *replies) as (home, telegram, model), home.gateway():
        telegram.push_text(1, "plot it")
        await home.until(lambda: len(mine(telegram)) == 3 and mine(telegram)[-1].kind == "text", "the files")
        await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
        await asyncio.sleep(0.2)

    photo, document, _ = mine(telegram)
    assert [kind for kind, _ in shown(telegram)] == ["photo", "document", "text"]
    assert (photo.text, document.text) == ("The plot", "")
    assert photo.file is not None
    assert document.file is not None
    assert (photo.file.name, photo.file.data) == ("plot.png", png())
    assert (document.file.name, document.file.data) == ("data.csv", b"1,2,3")
    assert "will be sent with your answer" in model.chats[-1].raw.decode()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("method", ["sendPhoto", "sendDocument", "sendMessage"])
@pytest.mark.parametrize("arrived", [False, True])
async def test_a_kill_while_something_is_sent_is_marked_and_loses_nothing(
    tmp_path: Path, method: str, arrived: bool
) -> None:
    """kill -9 at each send: what may be there is sent again with a mark, what is confirmed is not, and the order stays."""
    prepare(tmp_path)
    replies = [Reply(tool_calls=BOTH), Reply("Here they are.")]
    async with world(tmp_path, *replies, stream_drafts=False) as (home, telegram, model):
        telegram.fail(method, hang=True, after_processing=arrived)
        async with home.gateway() as process:
            telegram.push_text(1, "plot it")
            await home.until(lambda: not telegram.has_fault(method) and telegram.sent(method), "the send")
            process.kill()
            await process.wait()
        (tmp_path / "work" / "plot.png").unlink()  # what was promised is kept elsewhere
        async with home.gateway():
            await home.until(lambda: "Here they are." in "".join(telegram.chat(1).answers[-1:]), "the answer")
            await home.until(lambda: len(mine(telegram)) == 3 + arrived, "the rest")
            await asyncio.sleep(0.2)

    whole = [("photo", "The plot"), ("document", ""), ("text", "Here they are.")]
    at = ["sendPhoto", "sendDocument", "sendMessage"].index(method)
    kind, text = whole[at]
    marked = (kind, f"{MARK}\n{text}".strip())
    assert shown(telegram) == [*whole[: at + arrived], marked, *whole[at + 1 :]]
    assert len(model.chats) == 2
