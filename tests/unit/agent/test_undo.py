"""/undo takes back what a Turn said and what it wrote: all of it, or nothing."""

import hashlib
import os
from pathlib import Path

import pytest

from nanobot.agent.tools.files.changes import FileChange
from nanobot.agent.tools.files.patch import ApplyPatch
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.write import EditFile, WriteFile
from nanobot.agent.tools.scratch import prune_scratch
from nanobot.agent.tools.shell.command import Launcher
from nanobot.agent.tools.shell.exec import Exec
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.agent.undo import take_back
from nanobot.errors import NotUndone
from tests.fakes.agent import Agent
from tests.fakes.provider import Step, calls, says


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def _agent(workspace: Path, *steps: Step) -> Agent:
    rules = PathRules(True, (), ())
    return Agent(steps, tools=[WriteFile(rules), EditFile(rules), ApplyPatch(rules)], workspace=workspace)


WRITES = calls(
    ("write_file", {"path": "new.txt", "content": "made"}),
    ("write_file", {"path": "old.txt", "content": "second"}),
    ("edit_file", {"path": "old.txt", "old_text": "second", "new_text": "third"}),
)


async def test_undo_puts_files_back_as_they_were(workspace: Path) -> None:
    """A new file goes, a changed one has its first content again, however often the Turn changed it."""
    (workspace / "old.txt").write_text("first")
    async with _agent(workspace, WRITES, says("written")) as agent:
        await agent.ask("write")
        assert (workspace / "old.txt").read_text() == "third"
        result = await agent.ask("/undo")

        assert result.content == "Took back: write\nFiles put back: new.txt, old.txt."
        assert (workspace / "old.txt").read_text() == "first"
        assert not (workspace / "new.txt").exists()
        assert (await agent.log()).rows == []


async def test_undo_takes_back_every_file_of_a_patch(workspace: Path) -> None:
    """Changed, new, removed and renamed ones, with their modes; whatever was edited before in the same Turn too."""
    (workspace / "old.txt").write_text("first\n")
    (workspace / "gone.sh").write_text("bye\n")
    (workspace / "gone.sh").chmod(0o755)
    patch = (
        "--- old.txt\n+++ old.txt\n@@ -1 +1 @@\n-second\n+third\n"
        "--- /dev/null\n+++ new.txt\n@@ -0,0 +1 @@\n+made\n"
        "diff --git a/gone.sh b/moved.sh\nrename from gone.sh\nrename to moved.sh\n"
    )
    steps = calls(
        ("edit_file", {"path": "old.txt", "old_text": "first", "new_text": "second"}), ("apply_patch", {"patch": patch})
    )
    async with _agent(workspace, steps, says("patched")) as agent:
        await agent.ask("patch")
        assert sorted(os.listdir(workspace)) == ["moved.sh", "new.txt", "old.txt"]
        result = await agent.ask("/undo")

        assert "Files put back: old.txt, new.txt, moved.sh, gone.sh." in result.content
        assert sorted(os.listdir(workspace)) == ["gone.sh", "old.txt"]
        assert (workspace / "old.txt").read_text() == "first\n"
        assert os.access(workspace / "gone.sh", os.X_OK)


async def test_undo_is_refused_when_a_file_was_changed_since(workspace: Path) -> None:
    """Somebody's own work is never overwritten, nothing else is touched, and the conversation stays."""
    (workspace / "old.txt").write_text("first")
    async with _agent(workspace, WRITES, says("written")) as agent:
        await agent.ask("write")
        (workspace / "old.txt").write_text("mine")
        refused = await agent.ask("/undo")
        rows = len((await agent.log()).rows)
        chat_only = await agent.ask("/undo chat")

        assert refused.content.startswith("Nothing was undone: old.txt was changed since")
        assert (workspace / "new.txt").read_text() == "made"
        assert rows > 0
        assert "Files were left as they are." in chat_only.content
        assert (await agent.log()).rows == []


async def test_undo_again_after_a_crash_in_between_is_harmless(workspace: Path) -> None:
    """Files that are back already count as done."""
    (workspace / "old.txt").write_text("first")
    async with _agent(workspace, WRITES, says("written")) as agent:
        await agent.ask("write")
        (workspace / "old.txt").write_text("first")
        result = await agent.ask("/undo")

        assert "Files put back: new.txt." in result.content


async def test_undo_works_after_a_restart(workspace: Path) -> None:
    """What is needed lies on disk."""
    (workspace / "old.txt").write_text("first")
    agent = _agent(workspace, WRITES, says("written"))
    async with agent:
        await agent.ask("write")
    async with agent.after_restart() as later:
        await later.ask("/undo")

        assert (workspace / "old.txt").read_text() == "first"


def test_a_failure_in_the_middle_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """All or nothing, also when the disk stops half-way."""
    one, gone = tmp_path / "one.txt", tmp_path / "no-such-dir" / "two.txt"
    one.write_text("after")
    gone.parent.mkdir()
    gone.write_text("after")
    kept = tmp_path / "kept"
    kept.write_text("before")
    before, after = _sha("before"), _sha("after")
    changes = [FileChange(one, before, after, kept), FileChange(gone, before, after, tmp_path / "missing")]

    with pytest.raises(NotUndone, match=r"the old content of two\.txt is not kept"):
        take_back(changes)

    assert (one.read_text(), gone.read_text()) == ("after", "after")


def test_scratch_of_turns_long_past_is_removed(tmp_path: Path) -> None:
    """Old contents are kept for a while, not for ever."""
    for turn in range(1, 31):
        (tmp_path / f"t{turn}").mkdir()

    prune_scratch(tmp_path, last_turn=30)

    assert sorted(int(path.name[1:]) for path in tmp_path.iterdir()) == list(range(11, 31))


def test_what_a_call_kept_for_a_crash_goes_but_not_what_an_undo_needs(tmp_path: Path) -> None:
    """The raw output of an earlier Turn's stopped command is removed; the last Turn may still be looked for."""
    for name in ("t1/e2_0/output", "t1/e3_0/before-0", "t2/e5_0/output"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()

    prune_scratch(tmp_path, last_turn=2)

    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["t1/e3_0/before-0", "t2/e5_0/output"]
    assert not (tmp_path / "t1/e2_0").exists()


@pytest.mark.parametrize("refuses", [None, "disk full"])
async def test_a_commands_raw_output_is_kept_no_longer_than_its_result_is_unwritten(
    workspace: Path, refuses: str | None
) -> None:
    """Once the log has the redacted result nothing of the record is left; while the disk refuses it, a crash finds it."""
    command = Exec(Launcher(PathRules(), {"PATH": os.environ["PATH"]}), Jobs(workspace / "jobs"))
    agent = Agent([calls(("exec", {"command": "echo hunter2"})), says("done")], tools=[command], workspace=workspace)
    async with agent:
        agent.store.world.refuses = refuses
        await agent.ask("show it")

        left = {
            path.name: path.stat().st_mode & 0o777
            for path in (workspace.parent / "scratch").rglob("*")
            if path.is_file()
        }
        assert left == ({} if refuses is None else dict.fromkeys(("output", "pid", "status"), 0o600))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
