"""Telegram fetches no address by itself."""

from pathlib import Path

from tests.fakes.telegram.rig import Rig

LEAK = "see https://evil.test/?k=sk-123 and [more](https://evil.test/more) ![x](https://evil.test/x.png)"


async def _write(rig: Rig) -> list[str]:
    """Have the channel send and edit in each of its ways; return what Telegram fetched for that."""
    rig.server.chat(-5).absent = {1}
    turn = rig.turn()
    turn.say(LEAK)
    await rig.until(lambda: bool(rig.server.chat(1).visible))
    turn.say(f" {LEAK} again")
    await rig.until(lambda: rig.server.chat(1).visible[0].edits > 0)
    await rig.answer(f"{LEAK} in the end")
    rig.turn("tg:2").asks(LEAK, details=LEAK, sender="2")
    rig.turn("tg:-5").asks(LEAK, sender="2")
    await rig.until(lambda: len(rig.server.chat(1).visible) == 3)
    await rig.until(lambda: bool(rig.server.chat(2).visible and rig.server.chat(-5).visible))
    return [url for room in rig.server.rooms.values() for seen in room.visible for url in seen.fetched]


async def test_no_address_of_an_answer_is_fetched(tmp_path: Path) -> None:
    """Not in an answer, a draft, an edit, a question or a notice: an address could carry something out."""
    async with Rig(tmp_path) as rig:
        assert await _write(rig) == []


async def test_previews_can_be_had(tmp_path: Path) -> None:
    """Whoever wants them says so, and the server would have seen them all along."""
    async with Rig(tmp_path, link_previews=True) as rig:
        assert len(await _write(rig)) >= 5
