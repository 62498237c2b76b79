"""Random kills, in a size for every day, and how long a start takes where much has happened."""

import asyncio
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.bus.events import InboundMessage, Route
from nanobot.session.codec import to_line
from nanobot.session.files import Layout
from nanobot.session.repair import header_line
from tests.crash.forge import ROOT
from tests.crash.storm import BOT_TOKEN, Storm, Weather, seed_sessions
from tests.fakes.llm_server import LLMServer
from tests.fakes.telegram_server import TelegramServer

READY_S = 2.0


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("drafts", "seed"), [(False, 1), (True, 2)])
async def test_random_kills_lose_and_double_nothing(tmp_path: Path, drafts: bool, seed: int) -> None:
    """Every accepted message is answered, none twice without saying so, no command runs twice, and every log is whole."""
    result = await Storm(tmp_path, Weather(kills=20, drafts=drafts, seed=seed)).run()

    assert result.faults == [], str(result)
    assert result.killed == 20
    assert result.answered + result.given_up.total() == result.sent > 100


@pytest.mark.timeout(120)
async def test_a_start_with_10_000_sessions_is_quick(tmp_path: Path) -> None:
    """With 10,000 sessions, 50 unfinished, a cold start takes two seconds; on a busy machine, about as long as with none."""
    full, empty = tmp_path / "full", tmp_path / "empty"
    taken: list[tuple[float, float]] = []
    async with LLMServer() as model, TelegramServer(BOT_TOKEN) as telegram:
        for home in (full, empty):
            home.mkdir()
            _write_config(home, model, telegram)
        await asyncio.to_thread(seed_sessions, full / "data", 10_000)
        for _ in range(3):
            await asyncio.to_thread(_leave_waiting, full / "data", 50)
            taken.append((await _ready_s(full), await _ready_s(empty)))
            if _is_quick(*taken[-1]):
                break

    assert any(_is_quick(*one) for one in taken), taken


def _is_quick(full_s: float, empty_s: float) -> bool:
    return full_s < READY_S or full_s < 1.6 * empty_s


def _write_config(home: Path, model: LLMServer, telegram: TelegramServer) -> None:
    channel = {"type": "telegram", "token": BOT_TOKEN, "base_url": telegram.base_url, "allow_from": [1]}
    settings = {
        "workspace": str(home / "work"),
        "data_dir": str(home / "data"),
        "providers": {"local": {"type": "openai", "api_key": "k", "base_url": f"{model.url}/v1"}},
        "agent": {"model": "local/test-model"},
        "channels": {"tg": channel},
    }
    (home / "config.yaml").write_text(json.dumps(settings))


def _leave_waiting(data_dir: Path, count: int) -> None:
    """Lay out sessions whose message nobody has taken up, as a killed process leaves them."""
    at = Layout(data_dir)
    at.markers.mkdir(exist_ok=True)
    for number in range(count):
        key = f"tg:{100 + number}"
        route = Route("tg", key.partition(":")[2])
        message = InboundMessage(
            id=f"{key}:1", session_key=key, sender="1", text="hello", at=datetime.now(UTC), route=route
        )
        at.log(key).write_bytes(header_line(key, datetime.now(UTC)) + to_line(message))
        at.marker(key).write_text(json.dumps(key))


async def _ready_s(home: Path) -> float:
    """Start a gateway as people do; return the seconds until it says that it is ready."""
    log = home / "gateway.log"
    with log.open("wb") as file:
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "nanobot", "gateway", "--config", str(home / "config.yaml")),
            stdout=file,
            stderr=file,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
        )
        try:
            async with asyncio.timeout(30):
                while b"ready: " not in log.read_bytes():  # noqa: ASYNC110  # another process has no events
                    await asyncio.sleep(0.01)
            return time.monotonic() - began
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
