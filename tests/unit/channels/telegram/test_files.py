"""What a channel keeps on disk survives whatever happens, and two processes can change it."""

import json
from pathlib import Path

import pytest

from nanobot.channels.telegram.files import ChannelState, quarantine, state_path
from nanobot.cli.pair import approve
from nanobot.errors import MisuseError


def state(path: Path) -> ChannelState:
    found = ChannelState(state_path(path, "tg"))
    found.load()
    return found


def test_what_was_changed_is_there_after_a_restart(tmp_path: Path) -> None:
    """Moves, codes and people; only we may read it."""
    code = state(tmp_path).change(lambda newest: newest.ask("7", now=100.0))
    assert code is not None
    state(tmp_path).change(lambda newest: newest.move("-5", "-1005"))
    sender = state(tmp_path).change(lambda newest: newest.approve(code, now=101.0, role="owner"))
    again = state(tmp_path)

    assert (sender, dict(again.pairing.approved), again.moved) == ("7", {"7": "owner"}, {"-5": "-1005"})
    assert state_path(tmp_path, "tg").stat().st_mode & 0o077 == 0


def test_what_another_process_changed_is_noticed(tmp_path: Path) -> None:
    """And nothing is read twice."""
    running = state(tmp_path)
    state(tmp_path).change(lambda newest: newest.ask("7", now=100.0))

    assert (running.refresh(), len(running.pairing.open), running.refresh()) == (True, 1, False)


def test_chats_are_found_under_both_ids(tmp_path: Path) -> None:
    """A group that moved twice has one session; a circle ends."""
    moved = ChannelState(tmp_path / "x.json")
    moved.move("-1", "-2")
    moved.move("-2", "-3")

    assert (moved.platform_chat("-1"), moved.session_chat("-3"), moved.session_chat("9")) == ("-3", "-1", "9")
    moved.move("-3", "-1")
    assert moved.platform_chat("-1") in ("-1", "-2", "-3")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"paired": 1, "moved": {}, "codes": []}'])
def test_a_broken_state_is_set_aside(tmp_path: Path, content: str) -> None:
    """The channel starts, and the file is kept for somebody to look at."""
    path = state_path(tmp_path, "tg")
    path.parent.mkdir()
    path.write_text(content)

    assert state(tmp_path).moved == {}
    assert path.with_suffix(".broken").read_text() == content


def test_an_update_is_put_aside_as_it_came(tmp_path: Path) -> None:
    """Even one that is no update at all."""
    first, second = quarantine({"update_id": 5, "x": "\ud800"}, tmp_path, "odd"), quarantine("junk", tmp_path, "odder")

    assert first.name == "update-5.json"
    assert json.loads(second.read_text()) == {"why": "odder", "update": "junk"}


def test_a_code_is_approved_from_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first owner has nobody else to ask; a wrong code says so."""
    config = tmp_path / "config.yaml"
    channel = {"type": "telegram", "token": "42:X", "pairing": True}
    config.write_text(json.dumps({"data_dir": str(tmp_path), "channels": {"tg": channel}}))
    code = state(tmp_path).change(lambda newest: newest.ask("7", now=4_000_000_000.0))
    assert code is not None

    assert approve(code.lower(), config, as_owner=True) == 0
    assert capfd.readouterr().out == "7 may talk to tg now, as owner.\n"
    assert dict(state(tmp_path).pairing.approved) == {"7": "owner"}
    with pytest.raises(MisuseError, match="no such code"):
        approve("WRONG", config, as_owner=False)
