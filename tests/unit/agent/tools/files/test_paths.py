"""What the file tools may touch."""

import os
from pathlib import Path
from typing import Any

import pytest

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.files.listing import ListDir
from nanobot.agent.tools.files.opening import directory
from nanobot.agent.tools.files.patch import ApplyPatch
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.agent.tools.files.write import EditFile, WriteFile
from nanobot.agent.tools.search.glob import Glob
from nanobot.agent.tools.search.grep import Grep
from nanobot.agent.tools.shell.command import Launcher
from nanobot.agent.tools.shell.exec import Exec
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.errors import ToolError
from tests.unit.agent.tools.conftest import Bench

RULES = PathRules()


def every_way(path: str, rules: PathRules = RULES) -> list[tuple[Tool[Any], dict[str, Any]]]:
    """Return each tool that takes a path, with arguments that name it."""
    return [
        (ReadFile(rules), {"path": path}),
        (WriteFile(rules), {"path": path, "content": "mine"}),
        (EditFile(rules), {"path": path, "old_text": "secret", "new_text": "mine"}),
        (ApplyPatch(rules), {"patch": f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-secret\n+mine\n"}),
        (ListDir(rules), {"path": path}),
        (Glob(rules), {"path": path, "pattern": "*"}),
        (Grep(rules), {"path": path, "pattern": "secret"}),
        (Exec(Launcher(rules, {}), Jobs(Path("/nonexistent"))), {"cwd": path, "command": "cat *"}),
    ]


@pytest.fixture
def outside(bench: Bench) -> Path:
    """A directory beside the workspace, with a secret in it."""
    path = bench.root / "outside"
    path.mkdir()
    (path / "secret.txt").write_text("secret")
    return path


@pytest.mark.parametrize("name", ["secret.txt", "."])
@pytest.mark.parametrize("way", ["absolute", "dots", "link to directory", "link to target", "chain"])
async def test_g02_no_tool_leaves_the_workspace(bench: Bench, outside: Path, way: str, name: str) -> None:
    """Neither .. nor a symlink at any place of the path leads out, for reading, writing, listing, searching or running."""
    (bench.workspace / "d").symlink_to("../outside")
    (bench.workspace / "l").symlink_to(outside / name)
    (bench.workspace / "chain").symlink_to("d")
    path = {
        "absolute": str(outside / name),
        "dots": f"x/../../outside/{name}",
        "link to directory": f"d/{name}",
        "link to target": "l",
        "chain": f"chain/./{name}",
    }[way]

    for tool, arguments in every_way(path):
        assert "is outside the workspace" in await bench.error(tool, **arguments), tool.name
    assert (outside / "secret.txt").read_text() == "secret"
    assert os.listdir(outside) == ["secret.txt"]


async def test_g02_searching_follows_no_links(bench: Bench, outside: Path) -> None:
    """A link inside the workspace shows nothing of what lies outside."""
    (bench.workspace / "d").symlink_to(outside)
    (bench.workspace / "l.txt").symlink_to(outside / "secret.txt")

    assert "No match" in await bench.text(Grep(RULES), pattern="secret", ignored=True)
    assert "secret.txt" not in await bench.text(Glob(RULES), pattern="*", ignored=True)


async def test_a_link_that_stays_inside_is_followed_and_kept(bench: Bench) -> None:
    """Links within the workspace work; writing changes the target, not the link."""
    (bench.workspace / "real.txt").write_text("old")
    (bench.workspace / "link.txt").symlink_to("real.txt")

    await bench.text(WriteFile(RULES), path="link.txt", content="new")

    assert (bench.workspace / "link.txt").is_symlink()
    assert (bench.workspace / "real.txt").read_text() == "new"


def test_g02_a_directory_that_becomes_a_link_after_the_check_is_not_entered(bench: Bench, outside: Path) -> None:
    """What was checked is what is opened: a component swapped in between is refused, not followed."""
    (bench.workspace / "d").mkdir()
    path = RULES.resolve("d/new.txt", bench.workspace)
    (bench.workspace / "d").rmdir()
    (bench.workspace / "d").symlink_to(outside)

    with pytest.raises(OSError), directory(path.parent, create=True):  # noqa: PT011  # the system's own, ELOOP or ENOTDIR
        pass


async def test_g04_config_and_data_are_closed_to_every_tool_that_takes_a_path(bench: Bench, outside: Path) -> None:
    """Also without restriction, through a symlink, and by a hard link."""
    config = outside / "config.yaml"
    config.write_text("secret")
    (bench.workspace / "soft").symlink_to(config)
    os.link(config, bench.workspace / "hard")
    rules = PathRules(restrict=False, denied=(config, outside / "data"))

    for path in (str(config), "soft", "hard", str(outside / "data" / "x"), str(outside / "data")):
        for tool, arguments in every_way(path, rules):
            assert "closed to tools" in await bench.error(tool, **arguments), (tool.name, path)
    assert config.read_text() == "secret"


async def test_g04_a_denied_file_inside_the_workspace_is_not_found_by_searching(bench: Bench) -> None:
    """A config in the workspace is neither listed by glob nor read by grep."""
    (bench.workspace / "config.yaml").write_text("needle: secret")
    (bench.workspace / "notes.yaml").write_text("needle: notes")
    rules = PathRules(denied=(bench.workspace / "config.yaml",))

    assert await bench.text(Grep(rules), pattern="needle") == "notes.yaml:1: needle: notes"
    assert await bench.text(Grep(rules), pattern="needle", show="files") == "notes.yaml"
    assert await bench.text(Glob(rules), pattern="*.yaml") == "notes.yaml"


def test_a_workspace_inside_the_denied_data_directory_is_open(bench: Bench) -> None:
    """The default workspace lies beside the logs; only the rest of that directory is closed."""
    rules = PathRules(denied=(bench.root,))

    assert rules.resolve("a.txt", bench.workspace) == bench.workspace / "a.txt"
    with pytest.raises(ToolError, match="closed"):
        rules.resolve("../a.txt", bench.workspace)


def test_d20_extra_roots_are_open(bench: Bench, outside: Path) -> None:
    """Received media lie outside the workspace and can be read."""
    rules = PathRules(extra_roots=(outside,))

    assert rules.resolve(str(outside / "secret.txt"), bench.workspace) == outside / "secret.txt"


@pytest.mark.parametrize("raw", ["", "  ", "C:\new.txt", "a\0b", "a\nb"])
def test_e04_a_path_with_control_characters_is_refused(bench: Bench, raw: str) -> None:
    """A backslash that JSON read as an escape is caught before a file of a strange name exists."""
    with pytest.raises(ToolError, match=r"control character|empty"):
        RULES.resolve(raw, bench.workspace)


def test_g01_home_is_expanded_before_the_check(bench: Bench) -> None:
    """A tilde is no way out."""
    with pytest.raises(ToolError, match="outside"):
        RULES.resolve("~/.ssh/id_rsa", bench.workspace)
