"""Directories that cannot be used are named by their key."""

import os
from pathlib import Path

import pytest

from nanobot.app import Nanobot
from nanobot.config.loader import parse
from nanobot.config.places import exposures, prepare
from nanobot.config.settings import Settings, build
from nanobot.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("")
    (tmp_path / "made").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "link").symlink_to(tmp_path / "made")
    return tmp_path


def built(folder: Path, text: str) -> Settings:
    return build(parse(text, folder / "c.yaml", {}), {"HOME": str(folder)})


@pytest.mark.parametrize("key", ["workspace", "data_dir"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/etc/passwd", "this is a file, or lies below one"),
        ("/etc/passwd/deep/er", "this is a file, or lies below one"),
        ("file", "this is a file, or lies below one"),
        ("/proc/nope", "this is a place of the kernel"),
        ("dangling/w", "a link to something that is missing"),
        ("loop", "this cannot be a directory"),
        ("n" * 300, "this cannot be a directory"),
    ],
)
def test_what_can_be_no_directory_is_named_at_load(folder: Path, key: str, path: str, said: str) -> None:
    """File, line, key and what to do; not the value."""
    with pytest.raises(ConfigError) as caught:
        built(folder, f"\n{key}: {path}\n")

    assert str(caught.value).startswith(f"{folder}/c.yaml:2: {key}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("path", ["made", "link", "made/new/er", "new", "link/new"])
def test_directories_that_are_there_or_can_be_made_are_taken(folder: Path, path: str) -> None:
    """Loading makes nothing."""
    assert built(folder, f"workspace: {path}\n").workspace == folder / path
    assert not (folder / "new").exists()


def test_a_log_file_that_is_a_directory_is_named(folder: Path) -> None:
    """Also one below a file."""
    for path in ("made", "file/log"):
        with pytest.raises(ConfigError, match=r"c\.yaml:2: log\.file: this is a "):
            built(folder, f"log:\n  file: {path}\n")


@pytest.mark.parametrize(
    ("work", "data"), [("made", "made"), ("made/w", "made"), ("link/w", "made"), ("new", "link/../new")]
)
def test_a_workspace_in_the_data_directory_is_refused(folder: Path, work: str, data: str) -> None:
    """Every file of it would be closed to tools; links do not hide it."""
    with pytest.raises(ConfigError, match=r"c\.yaml:1: workspace: this is, or lies in, data_dir.* beside it"):
        built(folder, f"workspace: {work}\ndata_dir: {data}\n")


def test_a_data_directory_in_the_workspace_is_fine(folder: Path) -> None:
    """It stays closed to tools, and the rest is open."""
    assert built(folder, "workspace: made\ndata_dir: made/data\n")


@pytest.mark.parametrize("key", ["workspace", "data_dir"])
async def test_a_script_is_told_the_key_too(folder: Path, key: str) -> None:
    """Settings that were not loaded, or what changed since, are an error with the key and the path, not of mkdir."""
    paths = {"workspace": folder / "w", "data_dir": folder / "d"} | {key: folder / "file" / "x"}
    settings = Settings.model_validate(paths)

    with pytest.raises(ConfigError, match=f"^{key}: {folder}/file/x: this is a file, or lies below one"):
        async with Nanobot(settings, environ={}):
            pass


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("key", ["workspace", "data_dir"])
async def test_a_directory_without_rights_is_told_by_key(folder: Path, key: str) -> None:
    """No traceback where the system refuses."""
    (folder / "made").chmod(0o500)
    paths = {"workspace": folder / "w", "data_dir": folder / "d"} | {key: folder / "made" / "x"}
    settings = Settings.model_validate(paths)

    with pytest.raises(ConfigError, match=f"^{key}: .* name a directory that you may write to"):
        async with Nanobot(settings, environ={}):
            pass


def test_the_data_directory_is_made_for_its_owner_alone(folder: Path) -> None:
    """Logs, files and logins are nobody else's business, whatever the umask says."""
    prepare(folder / "w", folder / "new" / "data")

    assert (folder / "new" / "data").stat().st_mode & 0o777 == 0o700


def test_what_lies_open_is_named_with_the_command_that_closes_it(folder: Path) -> None:
    """A config that others can read is worth a word if a secret stands in it; a data directory always is."""
    config, data = folder / "my config.yaml", folder / "data"
    data.mkdir(mode=0o755)
    config.write_text("api_key: correct-horse-77")
    config.chmod(0o644)
    told = list(exposures(config, data, ["correct-horse-77"]))
    config.write_text("api_key: ${OPENAI_API_KEY}")
    without = list(exposures(config, data, ["correct-horse-77"]))
    config.chmod(0o600)
    data.chmod(0o700)

    assert [text.rpartition(": ")[2] for text in told] == [f"chmod 600 '{config}'", f"chmod 700 {data}"]
    assert [text.rpartition(": ")[2] for text in without] == [f"chmod 700 {data}"]
    assert list(exposures(config, data, ["correct-horse-77"])) == []
    assert list(exposures(None, folder / "nowhere", [])) == []
