"""Whatever a model writes into the arguments of a file tool: an answer or a reason, nothing outside, nothing by halves."""

import asyncio
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.files.editing import Replacement, replace_all_of
from nanobot.agent.tools.files.hunks import apply_hunks
from nanobot.agent.tools.files.listing import ListDir
from nanobot.agent.tools.files.patch import ApplyPatch
from nanobot.agent.tools.files.patching import parse_patch
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.agent.tools.files.write import EditFile, WriteFile
from nanobot.agent.tools.registry import Observation, ToolRegistry
from nanobot.agent.tools.search.glob import Glob
from nanobot.agent.tools.search.grep import Grep
from nanobot.errors import ToolError
from nanobot.messages import ToolCall

RULES = PathRules()
CANARY = "canary-91c2"
SPAWNING: list[Tool[Any]] = [Glob(RULES), Grep(RULES)]
QUICK: list[Tool[Any]] = [ReadFile(RULES), ListDir(RULES), WriteFile(RULES), EditFile(RULES), ApplyPatch(RULES)]
REGISTRY = ToolRegistry([*SPAWNING, *QUICK])


@dataclass(frozen=True)
class World:
    """A workspace with links out of it, and what lies outside."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "ws"

    def call(self, name: str, arguments: Any) -> Observation | None:
        """Prepare, plan and run a call as the runner does; None if it was refused before it ran."""
        try:
            prepared = REGISTRY.prepare_call(ToolCall("e1.0", name, arguments))
        except ToolError:
            return None

        async def run() -> Observation:
            if prepared.tool.effect != "pure":
                try:
                    await REGISTRY.plan(prepared, self._context())
                except ToolError as error:
                    return Observation(str(error), is_error=True, duration_ms=0.0)
            return await REGISTRY.execute(prepared, self._context())

        return asyncio.run(run())

    def inside(self) -> dict[str, bytes]:
        return _contents(self.workspace)

    def outside(self) -> dict[str, bytes]:
        return _contents(self.root / "outside")

    def _context(self) -> ToolContext:
        return ToolContext(
            session_key="cli:direct",
            turn="t1",
            call_id="e1.0",
            role="owner",
            workspace=self.workspace,
            scratch=self.root / "scratch",
            full_result=_no_result,
        )


async def _no_result(entry: str) -> str:
    raise KeyError(entry)


def _contents(root: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()
    }


@contextmanager
def world() -> Generator[World]:
    """Make a fresh one, and see that nothing got out."""
    with tempfile.TemporaryDirectory() as name:
        found = World(Path(name))
        for path, content in (("ws/a.txt", "one\ntwo\r\nthree"), ("ws/d/b.txt", "b\n"), ("outside/s.txt", CANARY)):
            (found.root / path).parent.mkdir(parents=True, exist_ok=True)
            (found.root / path).write_bytes(content.encode())
        (found.workspace / "out").symlink_to("../outside")
        (found.workspace / "l.txt").symlink_to("../outside/s.txt")
        (found.workspace / "in").symlink_to("d")
        before = found.outside()
        yield found
        assert found.outside() == before
        assert {path.name for path in found.root.iterdir()} <= {"ws", "outside", "scratch"}


def check(observed: Iterable[Observation | None]) -> None:
    """No word from outside, and no exception but a tool's own."""
    for one in observed:
        if one is not None:
            assert CANARY not in one.text
            assert "fault of the tool" not in one.text, one.text


ODD = ["", " ", "a\n", "\0", "é", "e\u0301", "\u202e", "\ud800", "x" * 256, "proc/self/root", "dev/fd/0", "C:\\"]
PLAIN = "a.txt d b.txt out l.txt in s.txt outside ws .. . ~ $HOME %2e%2e … ． - * [ {"
pieces = st.sampled_from([*PLAIN.split(" "), *ODD])
starts = st.sampled_from(["", "/", "./", "../", "//", "~/", *(f"/proc/self/{link}/" for link in ("cwd", "root"))])
ends = st.sampled_from(["", "/", "/.", " "])
paths = st.tuples(starts, st.lists(pieces, max_size=5).map("/".join), ends).map("".join)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**12) | st.floats() | st.text(max_size=8) | paths,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "path",
    "offset",
    "limit",
    "pages",
    "encoding",
    "raw",
    "content",
    "old_text",
    "new_text",
    "replace_all",
    "edits",
    "patch",
]


@given(paths)
@settings(max_examples=60, deadline=None)
def test_no_path_leads_out(path: str) -> None:
    """For reading, listing, writing and editing."""
    with world() as here:
        check(
            here.call(name, {"path": path, **more})
            for name, more in (
                ("read_file", {}),
                ("list_dir", {}),
                ("edit_file", {"old_text": "one", "new_text": "1"}),
                ("write_file", {"content": "new"}),
            )
        )


@given(paths, st.text(min_size=1, max_size=6))
@settings(max_examples=8, deadline=None)
def test_no_search_leads_out(path: str, pattern: str) -> None:
    """Nor a pattern that is no expression, an option, or a character that no program takes."""
    with world() as here:
        check(here.call(name, {"path": path, "pattern": pattern, "ignored": True}) for name in ("glob", "grep"))
        check([here.call("grep", {"pattern": "canary|one", "glob": path or "*"})])


@given(st.sampled_from([tool.name for tool in QUICK]), st.dictionaries(st.sampled_from(NAMES), anything, max_size=5))
@settings(max_examples=100, deadline=None)
def test_any_arguments_get_an_answer_or_a_reason(name: str, arguments: dict[str, Any]) -> None:
    """A refused call changes nothing."""
    with world() as here:
        before = here.inside()
        observed = here.call(name, arguments)
        check([observed])
        if observed is None or observed.is_error:
            assert here.inside() == before


LINES = """\
--- a/a.txt|+++ b/a.txt|--- a.txt|+++ /dev/null|--- /dev/null|+++ b/new/n.txt|--- d/b.txt|+++ d/b.txt|--- out/s.txt|+++ out/s.txt
+++ ../outside/x|+++ l.txt|--- in/b.txt|+++ in/b.txt|+++ d|+++ a.txt/x|@@ -1 +1 @@|@@ -1,2 +1,3 @@|@@ @@|@@ -9,9 +9 @@
@@ -0,0 +1 @@|@@ -999999999999 +1 @@| one|-one|+one|-two|+2| two| three|-three|+3\r|-b|+b|| |-- |garbage
\\ No newline at end of file|diff --git a/a.txt b/a.txt|diff --git a/d/b.txt b/m.txt|rename from d/b.txt|rename to m.txt
new file mode 100755|deleted file mode 100644|rename to ../outside/m.txt|--- "a/\\303\\274\""""
lines = st.sampled_from(LINES.replace("\n", "|").split("|"))
patches = st.lists(lines, max_size=14).map("\n".join)


@given(patches, st.booleans())
@settings(max_examples=120, deadline=None)
def test_a_patch_is_applied_whole_or_not_at_all(patch: str, ended: bool) -> None:
    """Whatever it names and however it is torn."""
    with world() as here:
        before = here.inside()
        observed = here.call("apply_patch", {"patch": patch + "\n" * ended})
        check([observed])
        if observed is None or observed.is_error:
            assert here.inside() == before


texts = st.text(alphabet="ab \t\r\nü", max_size=60)


@given(texts, patches)
@settings(max_examples=150)
def test_hunks_change_only_what_they_name(text: str, patch: str) -> None:
    """Lines that a patch neither adds nor removes stay, each with its bytes."""
    try:
        (file,) = parse_patch("--- a\n+++ a\n" + patch)
        applied = apply_hunks(text, file.hunks)
    except (ToolError, ValueError):  # refused, or several files
        return

    added = sum(line.kind == "+" for hunk in file.hunks for line in hunk.lines)
    removed = sum(line.kind == "-" for hunk in file.hunks for line in hunk.lines)
    assert len(applied.text.splitlines()) - len(text.splitlines()) == added - removed or "\r" in text or "\x0b" in text


@given(texts, st.lists(st.tuples(texts.filter(bool), texts, st.booleans()), min_size=1, max_size=4))
@settings(max_examples=150)
def test_edits_are_applied_whole_or_not_at_all(text: str, edits: list[tuple[str, str, bool]]) -> None:
    """They give a text or a reason, the same in any order."""
    replacements = [Replacement(*edit) for edit in edits]

    def outcome(ordered: list[Replacement]) -> str | None:
        try:
            return replace_all_of(text, ordered).text
        except ToolError:
            return None

    assert outcome(replacements) == outcome(replacements[::-1])
