"""Files that people send, with the real daemon: acknowledged at once, fetched by the Turn, also by the next process."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.test_telegram import world
from tests.fakes.llm_server import Reply

PHOTO: dict[str, Any] = {"photo": [{"file_id": "F", "file_unique_id": "F", "width": 9, "height": 9}]}


def user_texts(data: Path) -> list[str]:
    """Return what the log says the model was told."""
    lines = [json.loads(line) for path in data.rglob("*.jsonl") for line in path.read_bytes().splitlines()]
    return [json.dumps(line["message"]["content"]) for line in lines if line["type"] == "started"]


async def test_a_download_that_hangs_holds_up_nobody_and_ends_with_stop(tmp_path: Path) -> None:
    """The message is acknowledged before its file is there; other chats and /stop are answered meanwhile."""
    async with world(tmp_path, Reply("quick")) as (home, telegram, model), home.gateway():
        telegram.add_file("F", b"x", path="photos/1.jpg")
        telegram.fail("file", hang=True)
        telegram.push_text(1, None, caption="look", **PHOTO)
        await home.until(lambda: telegram.sent("file"), "a download")
        await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
        telegram.push_text(2, "hi")
        await home.answered(2, "quick")
        telegram.push_text(1, "/stop")
        await home.answered(1, "Stopped.")

    assert len(model.chats) == 1
    assert "SECRET" not in home.log


async def test_a_kill_between_acknowledgement_and_download_loses_no_file(tmp_path: Path) -> None:
    """The reference is on disk: the next process fetches the file, and the model sees it once."""
    async with world(tmp_path, Reply("a cat")) as (home, telegram, model):
        telegram.add_file("F", b"\xff\xd8\xff picture", path="photos/1.jpg")
        telegram.fail("file", hang=True)
        async with home.gateway() as process:
            telegram.push_text(1, None, caption="what is this?", **PHOTO)
            await home.until(lambda: telegram.sent("file"), "a download")
            await home.until(lambda: not telegram.updates.waiting, "acknowledgement")
            process.kill()
            await process.wait()
        async with home.gateway():
            await home.answered(1, "a cat")

    (told,) = user_texts(home.path / "data")
    (kept,) = (home.path / "data" / "media").glob("*.jpg")
    assert kept.read_bytes() == b"\xff\xd8\xff picture"
    assert str(kept) in told
    assert len(model.chats) == 1
