"""/restart: the sanctioned way to start the daemon over, with the real daemon and a Telegram server."""

import asyncio
import json
from pathlib import Path

from tests.e2e.test_telegram import world
from tests.fakes.llm_server import Reply

RESTARTING = "Restarting. I will say when I am back."


async def test_c35_an_owner_restarts_it_and_hears_of_it_afterwards(tmp_path: Path) -> None:
    """One process id, a new run; a Turn of another chat goes on and is answered once; "back" is said once."""
    replies = [Reply("never", gate=asyncio.Event()), Reply("went on")]
    async with world(tmp_path, *replies, stream_drafts=False) as (home, telegram, model), home.gateway() as process:
        telegram.push_text(2, "work")
        await home.until(lambda: model.chats, "a request")
        telegram.push_text(1, "/restart")
        await home.answered(1, RESTARTING, "I am back.")
        await home.answered(2, "went on")
        await home.until(lambda: home.log.count("ready: ") == 2, "a second start")
        assert process.returncode is None
        telegram.push_text(1, "/restart")
        await home.answered(1, *[RESTARTING, "I am back."] * 2)

    assert len(model.chats) == 2
    assert "Traceback" not in home.log


async def test_g14_only_owners_restart_it(tmp_path: Path) -> None:
    """Somebody with fewer rights gets a polite no, and nothing ends."""
    async with world(tmp_path) as (home, telegram, _), home.gateway():
        telegram.push_text(2, "/restart")
        await home.answered(2, "Only an owner may restart me.")

        assert home.log.count("ready: ") == 1


async def test_a_restart_into_a_bad_configuration_is_refused(tmp_path: Path) -> None:
    """The person hears which key is wrong, and the old one goes on."""
    async with world(tmp_path) as (home, telegram, _), home.gateway():
        settings = json.loads(home.config.read_text())
        await home.until(lambda: "ready: " in home.log, "a start")
        home.config.write_text(json.dumps(settings | {"agnet": {}}))
        telegram.push_text(1, "/restart")
        await home.until(lambda: telegram.chat(1).answers, "an answer")
        telegram.push_text(1, "/status")
        await home.until(lambda: len(telegram.chat(1).answers) == 2, "a status")
        home.config.write_text(json.dumps(settings))

    assert telegram.chat(1).answers[0].startswith("I was not restarted: ")
    assert "agnet" in telegram.chat(1).answers[0]


async def test_who_asked_is_told_although_it_was_killed_on_the_way(tmp_path: Path) -> None:
    """The word is owed on disk: a crash instead of an orderly end delays it, and does not lose it."""
    async with world(tmp_path, Reply("never", gate=asyncio.Event())) as (home, telegram, model):
        async with home.gateway() as process:
            telegram.push_text(2, "keeps it from ending at once")
            await home.until(lambda: model.chats, "a request")
            telegram.observer = lambda call: process.kill() if call.params.values.get("text") == RESTARTING else None
            telegram.push_text(1, "/restart")
            await process.wait()
        telegram.observer = lambda call: None
        telegram.updates.waiting.clear()
        async with home.gateway():
            await home.until(lambda: telegram.chat(1).answers[-1:] == ["I am back."], "a word")

    assert telegram.chat(1).answers.count("I am back.") == 1
