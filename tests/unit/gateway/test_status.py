"""What a running gateway tells ``nanobot status``."""

import asyncio
from pathlib import Path

from nanobot.cli.status import duration, render
from nanobot.gateway.http import PageServer
from nanobot.gateway.status import LOCK_NAME, SOCKET_NAME, StatusServer, ask, holder
from nanobot.session.locks import hold
from tests.e2e.daemons import get


async def test_whoever_connects_gets_the_snapshot(tmp_path: Path) -> None:
    """Each question is answered with what is true then; the socket is private, replaces an old one, and goes."""
    (tmp_path / SOCKET_NAME).touch()
    count = 0

    def snapshot() -> dict[str, int]:
        nonlocal count
        count += 1
        return {"count": count}

    server = StatusServer(tmp_path, lambda: dict(snapshot()))
    await server.start()
    mode = (tmp_path / SOCKET_NAME).stat().st_mode & 0o777
    first, second = await asyncio.to_thread(ask, tmp_path), await asyncio.to_thread(ask, tmp_path)
    await server.close()

    assert (first, second) == ({"count": 1}, {"count": 2})
    assert mode == 0o600
    assert ask(tmp_path) is None
    assert not (tmp_path / SOCKET_NAME).exists()


async def test_a_long_directory_name_is_no_obstacle(tmp_path: Path) -> None:
    """Addresses of sockets are short; names of directories need not be."""
    deep = tmp_path.joinpath(*["a-rather-long-name"] * 10)
    deep.mkdir(parents=True)
    server = StatusServer(deep, lambda: {"ok": True})
    await server.start()
    found = await asyncio.to_thread(ask, deep)
    await server.close()

    assert found == {"ok": True}


def test_the_holder_of_the_lock_is_known(tmp_path: Path) -> None:
    """Somebody who holds the lock and does not answer is told apart from nobody."""
    before = holder(tmp_path)
    with hold(tmp_path / LOCK_NAME, "me", what="it"):
        during = holder(tmp_path)
    after = holder(tmp_path)

    assert before is None
    assert during is not None
    assert after is None


async def test_pages_are_bound_when_started() -> None:
    """Any path that is no page is 404 and says what there is; other methods are refused."""
    server = PageServer({"/healthz": lambda: (503, "dead\n")}, port=0)
    await server.start()
    url = f"http://127.0.0.1:{server.port}"
    answers = [await get(f"{url}/healthz?x=1"), await get(f"{url}/")]
    await server.close()

    assert answers == [(503, "dead\n"), (404, "there is: /healthz\n")]


def test_status_reads_well() -> None:
    """Every fact that a person needs stands on a line of its own."""
    text = render(
        {
            "version": "1.0",
            "pid": 7,
            "uptime_s": 90_061,
            "models": ["local/m"],
            "commands": "bubblewrap (/usr/bin/bwrap)",
            "config": None,
            "data_dir": "/d",
            "channels": [
                {"name": "telegram", "state": "down", "detail": "no route", "for_s": 75, "restarts": 2, "owed": 1}
            ],
            "turns": [{"session": "telegram:1", "doing": "exec"}],
            "pending": 3,
            "health_url": None,
            "problems": ["the disk refuses writes: full"],
        }
    )

    assert text.splitlines() == [
        "nanobot 1.0, process 7, up 1 d 1 h",
        "Model: local/m",
        "Config: none    Data: /d",
        "Sandbox: bubblewrap (/usr/bin/bwrap)",
        "Channel telegram: down for 1 min 15 s (no route), started again 2 times, 1 answers owed",
        "Running: telegram:1 (exec)",
        "Waiting: 3 messages",
        "Problem: the disk refuses writes: full",
    ]


def test_durations_read_well() -> None:
    """The two largest units are enough."""
    assert [duration(one) for one in (0.2, 61, 3_600, 90_061)] == ["0 s", "1 min 1 s", "1 h", "1 d 1 h"]
