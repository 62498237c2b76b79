"""write_file and edit_file."""

import asyncio
import contextlib
import os
import resource
import stat
from typing import Any

import pytest

from nanobot.agent.tools.base import BaseTool
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.write import EditFile, WriteFile
from nanobot.agent.tools.files.writing import read_version, write_atomic
from nanobot.errors import ToolError
from tests.unit.agent.tools.conftest import Bench

WRITE = WriteFile(PathRules())
EDIT = EditFile(PathRules())


async def test_a_new_file_gets_its_directories(bench: Bench) -> None:
    """Parents are made on the way."""
    text = await bench.text(WRITE, path="a/b/c.txt", content="one\ntwo")

    assert text == "Created a/b/c.txt (2 lines, 7 bytes)."
    assert (bench.workspace / "a/b/c.txt").read_text() == "one\ntwo"


async def test_replacing_keeps_the_mode_and_leaves_nothing_behind(bench: Bench) -> None:
    """A script stays executable; no temporary file is left."""
    path = bench.workspace / "run.sh"
    path.write_text("old")
    path.chmod(0o750)

    text = await bench.text(WRITE, path="run.sh", content="new\n")

    assert text.startswith("Replaced run.sh (1 line,")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert os.listdir(bench.workspace) == ["run.sh"]


async def test_writing_is_atomic(bench: Bench) -> None:
    """A reader who has the old file open still sees all of it: the new one is another file."""
    path = bench.workspace / "a.txt"
    path.write_text("old")
    with path.open() as reader:
        await bench.text(WRITE, path="a.txt", content="new")

        assert reader.read() == "old"


async def test_what_cannot_be_written_is_refused_with_a_reason(bench: Bench) -> None:
    """A directory, a path through a file, a character without bytes."""
    (bench.workspace / "dir").mkdir()
    (bench.workspace / "file").write_text("x")
    os.mkfifo(bench.workspace / "fifo")

    assert "is a directory" in await bench.error(WRITE, path="dir", content="x")
    assert "names a directory" in await bench.error(WRITE, path="new/", content="x")
    assert "a part of its path is a file" in await bench.error(WRITE, path="file/x", content="x")
    assert "is a FIFO" in await bench.error(WRITE, path="fifo", content="x")
    assert "cannot be written" in await bench.error(WRITE, path="new", content="\ud800")
    assert sorted(os.listdir(bench.workspace)) == ["dir", "fifo", "file"]


async def test_h07_edit_keeps_line_ends_mark_encoding_and_mode(bench: Bench) -> None:
    """Only the edited characters change."""
    path = bench.workspace / "a.txt"
    path.write_bytes("\ufeffa\r\nb\r\nc\n".encode())
    path.chmod(0o640)

    await bench.text(EDIT, path="a.txt", old_text="a\nb", new_text="a\nü")

    assert path.read_bytes() == "\ufeffa\r\nü\r\nc\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
async def test_h05_other_encodings_are_edited_in_place(bench: Bench, encoding: str) -> None:
    """A file keeps its encoding, and refuses what that cannot hold."""
    path = bench.workspace / "a.txt"
    path.write_bytes("Ein Caf\xe9 im Fr\xfchling".encode(encoding))

    await bench.text(EDIT, path="a.txt", old_text="Caf\xe9", new_text="B\xe4r")

    assert path.read_bytes().decode(encoding) == "Ein B\xe4r im Fr\xfchling"
    if encoding == "latin-1":
        assert "cannot be written in the file's encoding" in await bench.error(
            EDIT, path="a.txt", old_text="Ein", new_text="→"
        )


async def test_several_edits_in_one_call(bench: Bench) -> None:
    """All or none, and the answer tells how many and where."""
    (bench.workspace / "a.txt").write_text("one\ntwo\nthree\n")
    edits = [{"old_text": "one", "new_text": "1"}, {"old_text": "three", "new_text": "3"}]

    assert await bench.text(EDIT, path="a.txt", edits=edits) == "Changed a.txt: 2 replacements (lines 1, 3)."
    assert (bench.workspace / "a.txt").read_text() == "1\ntwo\n3\n"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"old_text": "a"}, {"old_text": "a", "new_text": "b", "edits": [{"old_text": "a", "new_text": "b"}]}],
)
async def test_one_form_of_edit_at_a_time(bench: Bench, arguments: dict[str, Any]) -> None:
    """An unclear call is an argument error."""
    with pytest.raises(ToolError, match="old_text and new_text"):
        await bench.call(EDIT, path="a.txt", **arguments)


def test_a_file_that_changed_underneath_is_not_overwritten(bench: Bench) -> None:
    """What somebody else wrote between reading and writing is kept."""
    path = bench.workspace / "a.txt"
    path.write_text("one")
    seen = read_version(path, "a.txt", max_bytes=100)
    path.write_text("other")

    with pytest.raises(ToolError, match="changed by somebody else"):
        write_atomic(path, "a.txt", b"two", expected=seen)
    assert path.read_text() == "other"


CALLS: list[tuple[BaseTool[Any], dict[str, Any]]] = [
    (WRITE, {"path": "a.txt", "content": "new"}),
    (EDIT, {"path": "a.txt", "old_text": "old", "new_text": "new"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_plan_tells_a_probe_what_happened(bench: Bench, tool: BaseTool[Any], arguments: dict[str, Any]) -> None:
    """Before the change: not done; after it: done; with anything else there: unknown.  The old content is kept."""
    path = bench.workspace / "a.txt"
    path.write_text("old")
    registry, prepared = bench.prepare(tool, **arguments)
    context = bench.context()

    planned = await registry.plan(prepared, context)
    before = await registry.probe(prepared, context, planned)
    await registry.execute(prepared, context)
    after = await registry.probe(prepared, context, planned)
    path.write_text("something else")
    other = await registry.probe(prepared, context, planned)

    assert (before.outcome, after.outcome, other.outcome) == ("not_done", "done", "unknown")
    assert (context.scratch / "before-0").read_text() == "old"


async def test_the_plan_of_a_new_file_says_that_there_was_none(bench: Bench) -> None:
    """An undo then knows to remove it."""
    registry, prepared = bench.prepare(WRITE, path="new.txt", content="x")
    context = bench.context()

    planned = await registry.plan(prepared, context)

    assert planned.before is not None
    assert planned.before["files"] == [
        {"path": str(bench.workspace / "new.txt"), "sha256": None, "kept": None, "mode": None}
    ]
    assert (await registry.probe(prepared, context, planned)).outcome == "not_done"


async def test_after_a_cancellation_nothing_changes_any_more(bench: Bench) -> None:
    """A stop that comes while a file is written waits for it: the file is old or new, and stays so."""
    content = "x" * 5_000_000
    task = asyncio.create_task(bench.call(WRITE, path="a.txt", content=content))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    names = os.listdir(bench.workspace)

    assert names in ([], ["a.txt"])
    await asyncio.sleep(0.03)
    assert os.listdir(bench.workspace) == names


async def test_a_write_keeps_the_form_that_the_file_plainly_has(bench: Bench) -> None:
    """CRLF everywhere and a mark at the beginning stay, and the answer says so; a mixed file does not rule."""
    for name, content in (("crlf", b"a\r\nb\r\n"), ("mark", "\ufeffa\n".encode()), ("mixed", b"a\r\nb\n")):
        (bench.workspace / name).write_bytes(content)
    (bench.workspace / "utf16").write_bytes("a\r\n".encode("utf-16"))

    said = [await bench.text(WRITE, path=name, content="ü\nx\n") for name in ("crlf", "mark", "mixed", "utf16")]

    assert (bench.workspace / "crlf").read_bytes() == "ü\r\nx\r\n".encode()
    assert (bench.workspace / "mark").read_bytes() == "\ufeffü\nx\n".encode()
    assert (bench.workspace / "mixed").read_bytes() == "ü\nx\n".encode()
    assert (bench.workspace / "utf16").read_bytes() == "ü\r\nx\r\n".encode("utf-16")
    assert "CRLF line ends as before" in said[0]
    assert "UTF-8 with its mark as before" in said[1]
    assert "before" not in said[2]


async def test_a_read_only_file_is_not_replaced(bench: Bench) -> None:
    """A rename would not ask; we do."""
    path = bench.workspace / "a.txt"
    path.write_text("old")
    path.chmod(0o444)

    assert "is read-only (mode 0444)" in await bench.error(WRITE, path="a.txt", content="new")
    assert "is read-only" in await bench.error(EDIT, path="a.txt", old_text="old", new_text="new")
    assert path.read_text() == "old"


async def test_set_uid_is_lost_and_permissions_stay(bench: Bench) -> None:
    """New contents never run with somebody else's rights."""
    path = bench.workspace / "tool"
    path.write_text("old")
    path.chmod(0o6755)

    await bench.text(WRITE, path="tool", content="new")

    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_the_owner_stays_where_the_system_lets_us(bench: Bench) -> None:
    """A daemon that runs as root does not take people's files from them."""
    path = bench.workspace / "a.txt"
    path.write_text("old")
    os.chown(path, 12345, 54321)

    await bench.text(EDIT, path="a.txt", old_text="old", new_text="new")

    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)


async def test_a_full_disk_leaves_the_old_file(bench: Bench) -> None:
    """Nothing is lost and nothing is left behind when the new content does not fit."""
    path = bench.workspace / "a.txt"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # a disk that takes no more, for this process
    try:
        error = await bench.error(WRITE, path="a.txt", content="x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert "File too large" in error
    assert path.read_text() == "old"
    assert os.listdir(bench.workspace) == ["a.txt"]
