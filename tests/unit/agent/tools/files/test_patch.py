"""apply_patch: unified diffs over several files, all or none."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from nanobot.agent.tools.files.changes import current_sha256
from nanobot.agent.tools.files.patch import ApplyPatch
from nanobot.agent.tools.files.paths import PathRules
from tests.unit.agent.tools.conftest import Bench

PATCH = ApplyPatch(PathRules())
LINES = "".join(f"line {number}\n" for number in range(1, 21))

FOUR = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -9,3 +9,3 @@
 line 9
-line 10
+line ten
 line 11
--- /dev/null
+++ b/new/b.txt
@@ -0,0 +1,2 @@
+one
+two
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/old.sh b/new.sh
similarity index 90%
rename from old.sh
rename to new.sh
--- a/old.sh
+++ b/new.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-echo old
+echo new
"""


@pytest.fixture
def tree(bench: Bench) -> Path:
    """Three files to be changed, removed and renamed."""
    root = bench.workspace
    (root / "a.txt").write_text(LINES)
    (root / "gone.txt").write_text("bye\n")
    (root / "old.sh").write_text("#!/bin/sh\necho old\n")
    (root / "old.sh").chmod(0o755)
    return root


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def hunk(*lines: str, header: str = "@@ @@") -> str:
    """Return a patch of one hunk for a.txt."""
    return "\n".join(("--- a.txt", "+++ a.txt", header, *lines, ""))


async def test_a_patch_changes_makes_removes_and_renames(bench: Bench, tree: Path) -> None:
    """One call, four files, and the answer says what became of each."""
    text = await bench.text(PATCH, patch=FOUR)

    assert text == (
        "Patched 4 files:\nchanged a.txt (1 hunk)\ncreated new/b.txt\nremoved gone.txt\n"
        "renamed old.sh to new.sh (1 hunk)"
    )
    assert contents(tree) == {
        "a.txt": LINES.replace("line 10\n", "line ten\n").encode(),
        "new/b.txt": b"one\ntwo\n",
        "new.sh": b"#!/bin/sh\necho new\n",
    }
    assert stat.S_IMODE((tree / "new.sh").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("line 10", "line 9"),
        ("bye", "bye bye"),
        ("echo old", "echo odd"),
        ("+one", "-one"),
        ("new/b.txt", "a.txt/b.txt"),
    ],
)
async def test_a_patch_that_fits_in_part_changes_nothing(bench: Bench, tree: Path, old: str, new: str) -> None:
    """Whichever file does not fit, all stay as they were."""
    before = contents(tree)
    patch = FOUR.replace(f"-{old}\n", f"-{new}\n") if not old.startswith("+") else FOUR.replace(f"{old}\n", f"{new}\n")

    error = await bench.error(PATCH, patch=patch if patch != FOUR else FOUR.replace(old, new))

    assert "othing was changed" in error
    assert contents(tree) == before


async def test_a_write_that_fails_in_the_middle_is_taken_back(bench: Bench, tree: Path) -> None:
    """A read-only file comes up late: what was written before it is put back."""
    (tree / "old.sh").chmod(0o555)
    before = contents(tree)

    error = await bench.error(PATCH, patch=FOUR)

    assert "read-only" in error
    assert "So nothing was changed" in error
    assert contents(tree) == before


async def test_a_half_done_patch_is_put_back_after_a_crash(bench: Bench, tree: Path) -> None:
    """The intent holds all hashes: all done, none done, or some done and taken back; else unknown."""
    registry, prepared = bench.prepare(PATCH, patch=FOUR)
    context = bench.context()
    before = contents(tree)
    planned = await registry.plan(prepared, context)
    assert (await registry.probe(prepared, context, planned)).outcome == "not_done"

    (tree / "a.txt").write_text(LINES.replace("line 10\n", "line ten\n"))
    (tree / "gone.txt").unlink()
    probed = await registry.probe(prepared, context, planned)
    put_back = contents(tree)
    await registry.execute(prepared, context)
    done = await registry.probe(prepared, context, planned)
    (tree / "a.txt").write_text("something else")
    other = await registry.probe(prepared, context, planned)

    assert (probed.outcome, done.outcome, other.outcome) == ("not_done", "done", "unknown")
    assert put_back == before
    assert current_sha256(tree / "gone.txt") is None


async def test_wrong_line_numbers_do_not_matter_where_one_place_fits(bench: Bench, tree: Path) -> None:
    """Models count badly; the answer says where it went."""
    body = (" line 4", "-line 5", "+five", " line 6")

    assert "hunk 1: at line 4 instead of 14" in await bench.text(PATCH, patch=hunk(*body, header="@@ -14,9 +1,1 @@"))
    assert "five\n" in (tree / "a.txt").read_text()
    (tree / "a.txt").write_text(LINES)
    assert await bench.text(PATCH, patch=hunk(*body)) == "Patched 1 file:\nchanged a.txt (1 hunk)"


async def test_several_places_are_no_place(bench: Bench, tree: Path) -> None:
    """Unless the hunk names one of them."""
    (tree / "a.txt").write_text("x\ny\nx\ny\n")
    body = ("-x", "+z")

    assert "fits at several lines (1, 3)" in await bench.error(PATCH, patch=hunk(*body))
    assert "fits at several lines (1, 3)" in await bench.error(PATCH, patch=hunk(*body, header="@@ -2 +2 @@"))
    await bench.text(PATCH, patch=hunk(*body, header="@@ -3 +3 @@"))
    assert (tree / "a.txt").read_text() == "x\ny\nz\ny\n"


async def test_fuzz_is_bounded_and_told(bench: Bench, tree: Path) -> None:
    """Blanks at line ends and outer context may differ; removed lines may not, nor most of the context."""
    text = await bench.text(PATCH, patch=hunk(" line 3  ", " line 4", "-line 5", "+five", " line 6"))
    assert "blanks at line ends overlooked" in text
    assert "line 3\nline 4\nfive\n" in (tree / "a.txt").read_text()

    text = await bench.text(PATCH, patch=hunk(" other", " line 11", "-line 12", "+twelve", " line 13", " other"))
    assert "2 lines of context left out" in text
    assert "line 11\ntwelve\nline 13\nline 14\n" in (tree / "a.txt").read_text()

    assert "does not fit" in await bench.error(PATCH, patch=hunk(" line 15", "-line 99", "+x", " line 17"))
    assert "does not fit" in await bench.error(PATCH, patch=hunk(" no", " no", " no", "-line 16", "+x", " no", " no"))


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        (b"a\r\nb\r\nc\r\n", hunk(" a", "-b", "+x", "+y", " c"), b"a\r\nx\r\ny\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\n", hunk(" a", "-b", "+x"), b"\xef\xbb\xbfa\nx\n"),
        (b"a\nb", hunk(" a", "-b", "+x"), b"a\nx"),
        (b"a\nb", hunk(" a", "-b", "\\ No newline at end of file", "+x"), b"a\nx\n"),
        (b"a\nb\n", hunk(" a", "-b", "+x", "\\ No newline at end of file"), b"a\nx"),
        (b"a\nb", hunk(" a", " b", "+c"), b"a\nb\nc"),
        (b"a\r\nb", hunk(" a", " b", "+c"), b"a\r\nb\r\nc"),
        (b"a\n\nb\n", hunk(" a", "", "-b", "+c"), b"a\n\nc\n"),
        (b"", hunk("+a", header="@@ -0,0 +1 @@"), b"a\n"),
        (b"-- a\n++ b\n", hunk("--- a", "+-- c", " ++ b", header="@@ -1,2 +1,2 @@"), b"-- c\n++ b\n"),
    ],
)
async def test_line_ends_marks_and_the_last_line_are_as_the_patch_and_the_file_say(
    bench: Bench, old: bytes, patch: str, new: bytes
) -> None:
    """Kept where the patch is silent, changed where it speaks."""
    (bench.workspace / "a.txt").write_bytes(old)

    await bench.text(PATCH, patch=patch)

    assert (bench.workspace / "a.txt").read_bytes() == new


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("hello", "holds no file"),
        ("*** Begin Patch\n*** Update File: a.txt", "not a unified diff"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before any --- and +++"),
        ("diff --git a/a.txt b/a.txt\nGIT binary patch\n", "binary"),
        ("diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n", "only its mode changes"),
        ("--- a.txt\n+++ a.txt\n", "no @@ lines"),
        ("--- nope.txt\n+++ nope.txt\n@@ -1 +1 @@\n-a\n+b\n", "does not exist"),
        ("--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+b\n", "exists already"),
        ("--- a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n", "not all of its lines"),
        (FOUR + hunk("-line 1", "+x"), "twice"),
        ("--- a/../../x\n+++ b/../../x\n@@ -1 +1 @@\n-a\n+b\n", "outside the workspace"),
        ("--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+b\n", "outside the workspace"),
        ("--- /dev/null\n+++ link/x\n@@ -0,0 +1 @@\n+b\n", "outside the workspace"),
    ],
)
async def test_what_cannot_be_applied_is_refused_with_a_reason(bench: Bench, tree: Path, patch: str, why: str) -> None:
    """Nothing is guessed, nothing is written, nobody gets out."""
    (tree / "link").symlink_to(bench.root)
    before = contents(tree)

    assert why in await bench.error(PATCH, patch=patch)
    assert contents(tree) == before
    assert sorted(os.listdir(bench.root)) == ["ws"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
async def test_what_git_prints_applies(bench: Bench) -> None:
    """Renames, modes, odd names, missing newlines: the result is git's."""
    root, then = bench.workspace, bench.root / "then"

    def git(*words: str) -> bytes:
        command = ("git", "-c", "user.name=n", "-c", "user.email=e@x", *words)
        return subprocess.run(command, cwd=then, capture_output=True, check=True).stdout

    files = {
        "a.txt": LINES,
        "dir/b with blank.txt": "one\ntwo",
        "ü.txt": "u\n",
        "gone": "x\n",
        "empty": "",
        "m.txt": LINES * 3,
    }
    for base in (root, then):
        for name, text in files.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    (then / "a.txt").write_text(LINES.replace("line 2\n", "").replace("line 18\n", "line 18\nmore\n"))
    (then / "dir/b with blank.txt").write_text("one\ntwo\nthree\n")
    (then / "ü.txt").write_text("v\n")
    (then / "gone").unlink()
    (then / "empty").unlink()
    (then / "m.txt").rename(then / "dir/moved.txt")
    (then / "run.sh").write_text("#!/bin/sh\n")
    (then / "run.sh").chmod(0o755)
    (then / "nothing").touch()
    git("add", "-A")

    await bench.text(PATCH, patch=git("diff", "--cached", "-M", "HEAD").decode())

    shutil.rmtree(then / ".git")
    assert contents(root) == contents(then)
    assert os.access(root / "run.sh", os.X_OK)
