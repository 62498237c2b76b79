"""Choices in a file: new ones that read well, old ones that keep what they hold."""

import stat
from datetime import date
from pathlib import Path

import pytest
import yaml

from nanobot.errors import ConfigError
from nanobot.setup.writing import BotChoice, Choices, ProviderChoice, checked, literal, merged_text, new_text, save

TODAY = date(2026, 11, 30)
HOME = {"HOME": "/home/ada", "ANTHROPIC_API_KEY": "k", "X": "y"}
PLACE = Path("/home/ada/.nanobot/config.yaml")
HOSTED = ProviderChoice(name="anthropic", kind="anthropic", model="claude-x", api_key="${ANTHROPIC_API_KEY}")
LOCAL = ProviderChoice(name="ollama", kind="openai", model="qwen3:8b", base_url="http://127.0.0.1:11434/v1")
BOT = BotChoice(token="123:abc", allow_from=(42,))

OLD = """\
# mine
workspace: ~/notes   # where I write

providers:
  anthropic: {api_key: old, headers: {X-Team: a}}
  spare:
    type: openai
    base_url: http://10.0.0.1/v1

# how it behaves
agent:
  model: anthropic/claude-old
  max_iterations: 7

# tools are dear to me
tools:
  # no shell
  exec: {enabled: false}
"""


@pytest.mark.parametrize("provider", [HOSTED, LOCAL, ProviderChoice(name="offline", kind="offline", model="phrases")])
@pytest.mark.parametrize("bot", [None, BOT])
def test_a_new_file_is_valid_and_says_what_was_chosen(provider: ProviderChoice, bot: BotChoice | None) -> None:
    """Whatever was chosen, the file loads, means just that, and explains itself."""
    text = new_text(Choices(provider=provider, bot=bot), today=TODAY)
    settings = checked(text, PLACE, HOME)

    assert settings.models == (f"{provider.name}/{provider.model}",)
    assert list(settings.channels) == (["telegram"] if bot else [])
    if bot:
        assert settings.channels["telegram"].allow_from == ("42",)
    assert text.count("#") >= 4


def test_f02_an_old_file_keeps_all_else_it_holds() -> None:
    """Keys, comments and order of what is not touched stay as they were; of what is touched, the values."""
    text = merged_text(OLD, Choices(provider=HOSTED, bot=BOT))
    data = yaml.safe_load(text)

    assert checked(text, PLACE, HOME).models == ("anthropic/claude-x",)
    assert data["providers"]["anthropic"] == {"api_key": "${ANTHROPIC_API_KEY}", "headers": {"X-Team": "a"}}
    assert data["providers"]["spare"]["base_url"] == "http://10.0.0.1/v1"
    assert data["agent"]["max_iterations"] == 7
    assert data["channels"]["telegram"]["allow_from"] == [42]
    for kept in ("# mine\nworkspace: ~/notes   # where I write\n", "# how it behaves\n", "# tools are dear to me\n"):
        assert kept in text
    assert "tools:\n  # no shell\n  exec: {enabled: false}\n" in text


def test_f02_merging_twice_changes_nothing_more() -> None:
    """Running init again with the same answers leaves the file as it is."""
    choices = Choices(provider=LOCAL, bot=BOT)
    once = merged_text(OLD, choices)

    assert merged_text(once, choices) == once


@pytest.mark.parametrize(
    "old",
    ["", "# nothing but a comment\n", '{"workspace": "/w", "agent": {"max_iterations": 3}}', "agent:\n", "agent: {}\n"],
)
def test_odd_old_files_work(old: str) -> None:
    """An empty file, JSON, and sections without values take the choices too."""
    text = merged_text(old, Choices(provider=HOSTED, bot=BOT))
    settings = checked(text, PLACE, HOME)

    assert settings.models == ("anthropic/claude-x",)
    assert "telegram" in settings.channels
    assert settings.agent.max_iterations == (3 if "max_iterations" in old else 40)


def test_a_key_with_a_reference_in_it_is_meant_literally() -> None:
    """What is pasted is the key, whatever it looks like."""
    choice = ProviderChoice(name="openai", kind="openai", model="m", api_key=literal("a${X}'\"#: b"))
    for text in (new_text(Choices(provider=choice), today=TODAY), merged_text(OLD, Choices(provider=choice))):
        provider = checked(text, PLACE, HOME).providers["openai"]
        assert provider.type == "openai"
        assert provider.api_key is not None
        assert provider.api_key.get_secret_value() == "a${X}'\"#: b"


def test_f02_the_old_file_is_kept_beside_the_new_one(tmp_path: Path) -> None:
    """Each save keeps what was there; all of it is for its owner's eyes only, and no temporary file is left."""
    path = tmp_path / "deep" / "config.yaml"
    backups = [save(path, text) for text in ("one", "two", "three")]

    assert path.read_text() == "three"
    assert backups[0] is None
    assert [backup.read_text() for backup in backups[1:] if backup] == ["one", "two"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert len(list(path.parent.iterdir())) == 3


def test_f02_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Text that cannot be encoded does not cost the file that was there."""
    path = tmp_path / "config.yaml"
    path.write_text("old")

    with pytest.raises(UnicodeEncodeError):
        save(path, "\ud800")
    assert path.read_text() == "old"
    assert not list(tmp_path.glob(".*tmp"))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Somebody who keeps the file in a repository still does afterwards."""
    real = tmp_path / "dotfiles.yaml"
    real.write_text("old")
    link = tmp_path / "config.yaml"
    link.symlink_to(real)

    save(link, "new")

    assert link.is_symlink()
    assert real.read_text() == "new"


def test_a_wrong_choice_is_found_before_it_is_written() -> None:
    """A text that does not load is refused with the key's name."""
    text = new_text(Choices(provider=HOSTED, bot=BotChoice(token="no token")), today=TODAY)

    with pytest.raises(ConfigError, match=r"channels\.telegram\.token"):
        checked(text, PLACE, HOME)
