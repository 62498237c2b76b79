"""``nanobot sessions repair`` and ``fork``, as a person types them."""

from pathlib import Path

import pytest

from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.session.codec import from_line
from nanobot.session.entries import Repaired
from nanobot.session.files import Layout
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings
from tests.e2e.command import Home

KEY = "cli:direct"


async def talked(path: Path, *texts: str) -> tuple[Home, Path]:
    """Return a home in which this was said to the offline model, and its log."""
    home = Home(path, "session:\n  sync: 'off'\n")
    data_dir = path / ".nanobot" / "data"
    async with Nanobot(Settings(workspace=home.workspace, data_dir=data_dir)) as bot:
        for text in texts or ("one", "two"):
            await bot.process_direct(text, session_key=KEY)
    return home, Layout(data_dir).log(KEY)


def quarantined(home: Home) -> bytes:
    folder = Layout(home.path / ".nanobot" / "data").quarantine
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*")))


async def test_whole_logs_have_nothing_to_mend(tmp_path: Path) -> None:
    """It says so, for one session and for all, and touches nothing."""
    home, log = await talked(tmp_path)
    before = log.read_bytes()
    every, one = await home.run("sessions", "repair"), await home.run("sessions", "repair", KEY)

    assert (every.code, every.out) == (0, b"1 sessions, nothing to mend\n")
    assert (one.code, one.out) == (0, b"cli:direct: nothing to mend\n")
    assert log.read_bytes() == before


OTHER = b'{"type":"session","version":1,"key":"cli:other","created_at":""}\n'


@pytest.mark.parametrize(
    ("at", "replaced", "by", "said"),
    [
        (-1, 0, b'{"type":"message","id":"e9', b"unfinished last line"),
        (2, 0, b"\0" * 4096 + b"\n", b"Unreadable lines (3)"),
        (2, 0, b"garbage\n", b"Unreadable lines (3)"),
        (0, 1, b"garbage\n", b"no readable header"),
        (3, 0, OTHER, b"Unreadable lines (4)"),
    ],
    ids=["torn tail", "NUL block", "bad line", "bad header", "a second header, of another session"],
)
async def test_damage_is_shown_mended_and_kept_aside(
    tmp_path: Path, at: int, replaced: int, by: bytes, said: bytes
) -> None:
    """The first repair says what was wrong and keeps the bytes; after it the log is whole and the session goes on."""
    home, log = await talked(tmp_path)
    lines = log.read_bytes().splitlines(keepends=True)
    at = at if at >= 0 else len(lines)
    log.write_bytes(b"".join([*lines[:at], by, *lines[at + replaced :]]))
    first = await home.run("sessions", "repair", KEY)
    again = await home.run("sessions", "repair")
    after = log.read_bytes()
    went_on = await home.run("agent", "-m", "three")
    exported = await home.run("sessions", "export", KEY)

    assert first.code == again.code == went_on.code == 0
    assert said in first.out
    assert by.strip(b"\n") in quarantined(home)
    assert b"mended" not in again.out
    assert all(line + b"\n" in after for line in by.splitlines()) or not by.endswith(
        b"\n"
    )  # nothing in the middle moves
    assert exported.out.count(b"\n") == 3


async def test_what_was_set_aside_before_is_still_told(tmp_path: Path) -> None:
    """A line that the daemon put into quarantine by itself is shown, with its number and reason."""
    home, log = await talked(tmp_path)
    log.write_bytes(log.read_bytes() + b"garbage\n")
    await home.run("agent", "-m", "three")
    shown = await home.run("sessions", "repair", KEY)

    assert any(
        isinstance(from_line(line, key=KEY), Repaired) for line in log.read_bytes().splitlines() if line != b"garbage"
    )
    assert b"was set aside before: line" in shown.out
    assert shown.code == 0


async def test_a_header_twice_is_no_damage(tmp_path: Path) -> None:
    """Two headers of the same session, as an older repair leaves them, are passed over."""
    home, log = await talked(tmp_path)
    header = log.read_bytes().splitlines(keepends=True)[0]
    log.write_bytes(header + log.read_bytes())

    assert (await home.run("sessions", "repair", KEY)).out == b"cli:direct: nothing to mend\n"


async def test_what_a_newer_nanobot_wrote_is_not_touched(tmp_path: Path) -> None:
    """It is named and left as it is, and the exit code says that something stays."""
    home, log = await talked(tmp_path)
    log.write_bytes(log.read_bytes().replace(b'"version":1', b'"version":99', 1))
    before = log.read_bytes()
    ended = await home.run("sessions", "repair")

    assert ended.code == 1
    assert b"not mended" in ended.out
    assert b"newer" in ended.out
    assert log.read_bytes() == before


async def test_a_log_that_names_nobody_is_mended_by_its_key(tmp_path: Path) -> None:
    """Without any header it is listed by its file; with the key it gets a header again."""
    home, log = await talked(tmp_path)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    every = await home.run("sessions", "repair")
    one = await home.run("sessions", "repair", KEY)
    listed = await home.run("sessions", "list")

    assert (every.code, one.code) == (1, 0)
    assert log.name.encode() in every.out
    assert b"no readable header" in one.out
    assert listed.out.startswith(b"cli:direct\t")


async def test_unfinished_work_is_found_again(tmp_path: Path) -> None:
    """A session whose marker was lost gets it back, so that the next start takes its open Turn up."""
    home, log = await talked(tmp_path)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    marker = Layout(home.path / ".nanobot" / "data").marker(KEY)
    marker.unlink(missing_ok=True)
    ended = await home.run("sessions", "repair")

    assert b"unfinished work" in ended.out
    assert marker.exists()


async def test_a_session_in_use_is_left_alone(tmp_path: Path) -> None:
    """What a running process holds is named with its holder, and not touched."""
    home, log = await talked(tmp_path)
    store = JsonlStore(tmp_path / ".nanobot" / "data", settings=SessionSettings(), owner="the daemon")
    claim = await store.claim(KEY, "the daemon")
    before = log.read_bytes()
    ended = await home.run("sessions", "repair")
    await store.release(claim)
    await store.close()

    assert ended.code == 1
    assert b"held by the daemon" in ended.out
    assert log.read_bytes() == before


async def test_no_such_session_is_misuse(tmp_path: Path) -> None:
    """The closest key is named, for both commands."""
    home, _ = await talked(tmp_path)
    for arguments in (("repair", "cli:dirct"), ("fork", "cli:dirct", "--at", "t1")):
        ended = await home.run("sessions", *arguments)

        assert ended.code == 2
        assert b"did you mean 'cli:direct'" in ended.err


async def test_a_fork_goes_on_from_its_turn(tmp_path: Path) -> None:
    """The copy holds what was said up to that Turn, under a new key that is printed; the original stays as it was."""
    home, log = await talked(tmp_path, "one", "two", "three")
    before = log.read_bytes()
    forked = await home.run("sessions", "fork", KEY, "--at", "t2")
    named = await home.run("sessions", "fork", KEY, "--at", "1", "--as", "cli:again")
    key = forked.out.decode().strip()
    went_on = await home.run("agent", "-m", "other", "--session", key)
    exported = await home.run("sessions", "export", key)

    assert forked.code == named.code == went_on.code == 0
    assert named.out == b"cli:again\n"
    assert [word for word in ("one", "two", "three", "other") if f'"prompt": "{word}"' in exported.out.decode()] == [
        "one",
        "two",
        "other",
    ]
    assert log.read_bytes() == before


async def test_a_fork_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    """A Turn that is not there, and a name that is taken, are misuse; nothing is written."""
    home, _ = await talked(tmp_path)
    turn = await home.run("sessions", "fork", KEY, "--at", "t9")
    name = await home.run("sessions", "fork", KEY, "--at", "t1", "--as", KEY)

    assert turn.code == name.code == 2
    assert b"t1 to t2" in turn.err
    assert b"already" in name.err
