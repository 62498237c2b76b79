"""Files that people sent are fetched from Telegram when they are asked for: whole, once, within limits, beside everything else."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from nanobot.bus.events import Media
from nanobot.errors import FileUnavailable
from tests.fakes.telegram.rig import Rig

FILE = Media("file", "F", "Report ü.PDF", "application/pdf")


async def refused(rig: Rig, media: Media) -> str:
    """Return why a file cannot be had."""
    with pytest.raises(FileUnavailable) as caught:
        await rig.channel.fetch(media)
    return str(caught.value)


async def test_d20_files_lie_where_tools_can_read_them(tmp_path: Path) -> None:
    """A document is kept under the media directory, named by its content, for our eyes only."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.add_file("F", b"report", path="documents/x y.pdf")
        media = await rig.channel.fetch(FILE)

    digest = hashlib.sha256(b"report").hexdigest()
    path = Path(media.path)
    assert (path, media.sha256, media.size_bytes) == (tmp_path / "media" / f"{digest}.pdf", digest, 6)
    assert path.read_bytes() == b"report"
    assert path.stat().st_mode & 0o077 == 0
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("name", "suffix"), [("../../etc/passwd", ""), ("x.tar.gz", ".gz"), ("y.s/h", "")])
async def test_a_name_leads_nowhere(tmp_path: Path, name: str, suffix: str) -> None:
    """Whatever a file is called, it is kept by its digest."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.add_file("F", b"x")
        media = await rig.channel.fetch(Media("file", "F", name))

    assert Path(media.path) == tmp_path / "media" / f"{media.sha256}{suffix}"


async def test_d19_what_is_too_large_is_not_fetched(tmp_path: Path) -> None:
    """Whether the message says so, Telegram does, or only the bytes themselves do."""
    async with Rig(tmp_path, listens=False, max_download_mb=1) as rig:
        known = await refused(rig, Media("file", "F", size_bytes=60_000_000))
        asked = len(rig.server.sent("getFile"))
        rig.server.add_file("G", b"", size=60_000_000)
        told = await refused(rig, Media("file", "G"))
        rig.server.add_file("H", b"x" * 1_100_000, path="documents/h", size=10)
        lied = await refused(rig, Media("file", "H"))

    assert asked == 0
    assert known == told == lied == "it is larger than the 1 MB that can be fetched"
    assert list((tmp_path / "media").iterdir()) == []


async def test_what_may_pass_is_tried_again(tmp_path: Path) -> None:
    """Broken connections, floods and trouble at either step cost time only."""
    async with Rig(tmp_path, listens=False) as rig:
        rig.server.add_file("F", b"x")
        rig.server.fail("getFile", cut=True)
        rig.server.fail("getFile", status=429, retry_after=1)
        rig.server.fail("file", status=502, html=True)
        rig.server.fail("file", cut=True)
        media = await rig.channel.fetch(FILE)

    assert Path(media.path).read_bytes() == b"x"


async def test_what_is_gone_is_not_tried_again(tmp_path: Path) -> None:
    """An unknown reference and a path that is no more are said at once; an outage is, after some tries."""
    async with Rig(tmp_path, listens=False) as rig:
        unknown = await refused(rig, Media("file", "nobody"))
        rig.server.add_file("F", b"x")
        rig.server.fail("file", status=404)
        expired = await refused(rig, FILE)
        rig.server.fail("getFile", times=99, cut=True)
        away = await refused(rig, FILE)

    assert unknown == expired == "Telegram does not have it any more"
    assert away.startswith("it could not be fetched (the connection to Telegram broke")
    assert "TEST" not in away


async def test_downloads_that_hang_hold_up_no_answer(tmp_path: Path) -> None:
    """More downloads than there are connections leave updates and answers as quick as ever, and are ended by a cancel."""
    async with Rig(tmp_path, max_connections=2) as rig:
        rig.server.add_file("F", b"x")
        rig.server.fail("file", times=20, hang=True)
        fetching = [asyncio.create_task(rig.channel.fetch(FILE)) for _ in range(20)]
        await rig.until(lambda: len(rig.server.sent("file")) > 0)
        rig.server.push_text(1, "quick")
        async with asyncio.timeout(2):
            await rig.heard(1)
            await rig.answer("answer")
        for task in fetching:
            task.cancel()
        await asyncio.wait(fetching)

    assert rig.server.chat(1).answers == ["answer"]
    assert list((tmp_path / "media").iterdir()) == []
