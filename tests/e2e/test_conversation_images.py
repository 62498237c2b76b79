"""Pictures in a conversation: shown where they can be, explained where they cannot, and never poison."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.bots import KEY, WIRES, Wire, bot_on, entries_of, impatient, log_faults
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.pictures import png

BOTH = pytest.mark.parametrize("wire", WIRES)
GIF = b"GIF89a" + bytes([2, 0, 2, 0, 0x80, 0, 0]) + bytes(6) + b",\0\0\0\0\2\0\2\0\0\2\3\x44\2\5\0;"
REFUSALS = [
    {"error": {"message": "image_url is not supported by this model", "type": "invalid_request_error", "code": None}},
    {"error": {"message": "This model does not support image input.", "type": "invalid_request_error"}},
]


@BOTH
async def test_a_picture_is_shown_in_every_request_and_logged_by_path(wire: Wire, tmp_path: Path) -> None:
    """The model sees it now and later; the log holds a path and a hash, never the picture."""
    picture = tmp_path / "dot.png"
    picture.write_bytes(png(pad_bytes=100_000))
    async with LLMServer([Reply("A dot."), Reply("Grey.")]) as server, bot_on(server, wire, tmp_path) as bot:
        await bot.process_direct("what is this?", session_key=KEY, media=[picture])
        picture.unlink()
        await bot.process_direct("which colour?", session_key=KEY)

        assert [request.raw.decode().count("image/png") for request in server.chats] == [1, 1]
        assert server.refusals == []
    assert max(log.stat().st_size for log in (tmp_path / "data").rglob("*.jsonl")) < 20_000
    assert await log_faults(tmp_path) == []


@BOTH
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_e13_a_refused_picture_is_left_out_and_the_answer_says_so(
    wire: Wire, refusal: dict[str, object], tmp_path: Path
) -> None:
    """(a) A model without eyes is asked once more without the picture, is told of it, and is never sent it again."""
    picture = tmp_path / "dot.png"
    picture.write_bytes(png())
    no = Reply(status=400, error={"type": "error", **refusal} if wire == "anthropic" else refusal)
    async with LLMServer([no, Reply("I cannot see it."), Reply("Still not."), Reply("No.")]) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            first = await bot.process_direct("what is this?", session_key=KEY, media=[picture])
            second = await bot.process_direct("and now?", session_key=KEY)
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            later = await bot.process_direct("after a restart?", session_key=KEY)

        assert (first.content, first.error, second.content) == ("I cannot see it.", None, "Still not.")
        assert (later.content, later.error) == ("No.", None)
        assert ["image/png" in request.raw.decode() for request in server.chats] == [True, False, False, False]
        assert all("image" in request.raw.decode() for request in server.chats)
    assert await log_faults(tmp_path) == []


@BOTH
async def test_pictures_that_tools_give_are_seen(wire: Wire, tmp_path: Path) -> None:
    """Of calls at once, where each vendor takes them; each request begins as the one before, also after a restart."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "cpu.png").write_bytes(png(pad_bytes=100_000))
    (workspace / "notes.md").write_text("remember the milk")
    (workspace / "ram.gif").write_bytes(GIF)
    looks = [Call("read_file", {"path": path}) for path in ("cpu.png", "notes.md", "ram.gif")]
    replies = [Reply(tool_calls=looks), Reply("Two plots."), Reply("Grey."), Reply("Still grey.")]
    async with LLMServer(replies) as server:
        async with bot_on(server, wire, tmp_path) as bot:
            first = await bot.process_direct("look at the plots", session_key=KEY)
            (workspace / "cpu.png").unlink()
            await bot.process_direct("which colour?", session_key=KEY)
        async with bot_on(server, wire, tmp_path) as bot:
            last = await bot.process_direct("after a restart?", session_key=KEY)

        assert (first.content, last.content) == ("Two plots.", "Still grey.")
        assert server.refusals == []
        asked = [[_unmarked(row) for row in request.body["messages"]] for request in server.chats]
        assert [sum(row.count("image/png") for row in rows) for rows in asked] == [0, 1, 1, 1]
        assert [sum(row.count("image/gif") for row in rows) for rows in asked] == [0, 1, 1, 1]
        assert "image in the result of read_file: cpu.png" in "".join(asked[1])
        assert all(two[: len(one)] == one for one, two in pairwise(asked))
    log = next((tmp_path / "data").rglob("*.jsonl"))
    assert log.stat().st_size < 20_000
    assert log.read_text().count('"type":"image"') == 2
    assert await log_faults(tmp_path) == []


def _unmarked(row: object) -> str:
    return json.dumps(row).replace(', "cache_control": {"type": "ephemeral"}', "")


@BOTH
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_e13_a_refused_picture_of_a_tool_is_left_out_and_the_turn_goes_on(
    wire: Wire, refusal: dict[str, object], tmp_path: Path
) -> None:
    """A model without eyes gets a line in the picture's place; the cut is in the log, so nobody sends it again."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "cpu.png").write_bytes(png())
    look = Reply(tool_calls=[Call("read_file", {"path": "cpu.png"})])
    no = Reply(status=400, error={"type": "error", **refusal} if wire == "anthropic" else refusal)
    async with LLMServer([look, no, Reply("I cannot see it."), Reply("No.")]) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            first = await bot.process_direct("look at the plot", session_key=KEY)
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            later = await bot.process_direct("after a restart?", session_key=KEY)

        assert (first.content, first.error, later.content) == ("I cannot see it.", None, "No.")
        assert ["image/png" in request.raw.decode() for request in server.chats] == [False, True, False, False]
        assert all("image left out of the request" in request.raw.decode() for request in server.chats[2:])
    assert '"pass":"images"' in next((tmp_path / "data").rglob("*.jsonl")).read_text()
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e14_a_body_that_is_too_large_goes_without_its_pictures(wire: Wire, tmp_path: Path) -> None:
    """A 413 is about bytes, not tokens: the pictures go, the window stays what it was."""
    picture = tmp_path / "dot.png"
    picture.write_bytes(png(pad_bytes=1_000_000))
    no = Reply(status=413)
    async with LLMServer([no, Reply("Without it.")]) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            result = await bot.process_direct("what is this?", session_key=KEY, media=[picture])

        assert (result.content, result.error) == ("Without it.", None)
        assert ["image/png" in request.raw.decode() for request in server.chats] == [True, False]
    log = next((tmp_path / "data").rglob("*.jsonl")).read_text()
    assert '"pass":"images"' in log
    assert '"pass":"window' not in log


DAMAGED = {
    "header and junk": png()[:20] + b"junk" * 10,
    "no image at all": b"hello, I am a text",
    "empty": b"",
    "too tall": png(10, 9_000),
    "six megabytes": png(pad_bytes=6_000_000),
    "cut off": png(pad_bytes=10_000)[:-40],
}


@BOTH
@pytest.mark.parametrize("what", DAMAGED)
async def test_e13_a_picture_that_vendors_refuse_becomes_a_sentence(wire: Wire, what: str, tmp_path: Path) -> None:
    """(b) to (d) What is corrupt or too large is described to the model instead of sent, now and later."""
    picture = tmp_path / "holiday.png"
    picture.write_bytes(DAMAGED[what])
    async with (
        LLMServer([Reply("I cannot see it."), Reply("Going on.")]) as server,
        bot_on(server, wire, tmp_path) as bot,
    ):
        first = await bot.process_direct("what is this?", session_key=KEY, media=[picture])
        second = await bot.process_direct("and now?", session_key=KEY)

        assert (first.error, second.content) == (None, "Going on.")
        assert server.refusals == []
        assert "left out" in server.chats[0].raw.decode()
    assert await log_faults(tmp_path) == []


@BOTH
async def test_a_picture_whose_file_is_gone_is_no_poison(wire: Wire, tmp_path: Path) -> None:
    """Somebody cleared the media folder: the conversation goes on."""
    picture = tmp_path / "dot.png"
    picture.write_bytes(png())
    async with LLMServer([Reply("A dot."), Reply("Going on.")]) as server:
        async with bot_on(server, wire, tmp_path) as bot:
            await bot.process_direct("what is this?", session_key=KEY, media=[picture])
        for kept in (tmp_path / "data" / "media").iterdir():
            kept.unlink()
        async with bot_on(server, wire, tmp_path) as bot:
            result = await bot.process_direct("and now?", session_key=KEY)

        assert result.content == "Going on."
        assert server.refusals == []


@BOTH
async def test_a_file_that_is_no_picture_is_named(wire: Wire, tmp_path: Path) -> None:
    """Other files go by name and path, which the tools can read."""
    notes = tmp_path / "notes.md"
    notes.write_text("remember the milk")
    async with LLMServer([Reply("I see a file.")]) as server, bot_on(server, wire, tmp_path) as bot:
        await bot.process_direct("look at this", session_key=KEY, media=[notes])

        assert "notes.md" in server.chats[0].raw.decode()
    assert len(await entries_of(tmp_path)) == 5
