"""What a session may be called."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.app import Nanobot
from nanobot.bus.events import InboundMessage, is_plain_key, shown_key
from nanobot.cli.sessions import list_sessions
from nanobot.config.settings import Settings
from nanobot.errors import MisuseError
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings

UNSPEAKABLE = ["a\tb", "a\nb", "a\x1b[31mb", "a\x00b", "a\x9bb", "a\u2028b", "a\u202eb"]


@pytest.mark.parametrize("key", ["cli:direct", "telegram:-100:topic:3", "Grüße 日本 👩‍💻"])
def test_ordinary_keys_stay_as_they_are(key: str) -> None:
    """Every language and emoji may be in a key."""
    assert is_plain_key(key)
    assert shown_key(key) == key


def test_a_lone_surrogate_is_shown_as_an_escape() -> None:
    """No terminal could print it."""
    assert shown_key("a\udcffb") == "a\\udcffb"


@pytest.mark.parametrize("key", UNSPEAKABLE)
async def test_a_script_cannot_use_a_key_with_control_characters(key: str, tmp_path: Path) -> None:
    """It is refused before anything is written, and can be shown on one plain line."""
    async with Nanobot(Settings(workspace=tmp_path / "w", data_dir=tmp_path / "d"), environ={}) as bot:
        with pytest.raises(MisuseError, match="control character"):
            await bot.process_direct("hi", session_key=key)

    assert not is_plain_key(key)
    assert is_plain_key(shown_key(key))
    assert not (tmp_path / "d" / "sessions").exists()


def test_the_list_keeps_an_old_log_on_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A log that an earlier version let be called so is listed with escapes, and nothing reaches the terminal."""
    monkeypatch.setenv("HOME", str(tmp_path))
    asyncio.run(_write(tmp_path / ".nanobot" / "data", "a\tb\n\x1b[31m"))

    assert list_sessions(None) == 0
    assert capfd.readouterr().out.startswith("a\\tb\\n\\x1b[31m\t")


async def _write(data_dir: Path, key: str) -> None:
    store = JsonlStore(data_dir, settings=SessionSettings(), owner="test")
    try:
        await store.accept(key, InboundMessage(id="1", session_key=key, sender="s", text="hi", at=datetime.now(UTC)))
    finally:
        await store.close()
