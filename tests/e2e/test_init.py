"""The first ten minutes, as a person or a script has them, against real servers."""

import json
import re
from pathlib import Path
from typing import Any

from tests.e2e.command import Home
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.telegram_server import TelegramServer

TOKEN = "42:TEST-token"
CALLS = Reply(tool_calls=[Call("get_time", {"zone": "UTC"})])


def home(tmp_path: Path, config: str = "") -> Home:
    return Home(tmp_path / "home", config)


def config_of(home: Home) -> str:
    return (home.path / ".nanobot" / "config.yaml").read_text()


async def test_j07_nobody_to_ask_is_told_which_flags_there_are(tmp_path: Path) -> None:
    """``init`` without a terminal and without flags refuses with instructions and exit code 2, and writes nothing."""
    there = home(tmp_path)
    ended = await there.run("init")

    assert ended.code == 2
    assert b"--provider" in ended.err
    assert b"Traceback" not in ended.err
    assert not (there.path / ".nanobot" / "config.yaml").exists()


async def test_flags_set_up_model_and_bot(tmp_path: Path) -> None:
    """A script sets everything up with flags; model and bot are tried, and the file works for a first question."""
    there = home(tmp_path)
    async with LLMServer([CALLS, Reply("it works")]) as model, TelegramServer(TOKEN) as telegram:
        ended = await there.run(
            *("init", "--provider", "mine", "--base-url", f"{model.url}/v1", "--model", "test-model"),
            *("--telegram-base-url", telegram.base_url, "--allow-from", "7"),
            environ={"TELEGRAM_BOT_TOKEN": TOKEN},
        )
        asked = await there.run("agent", "-m", "hi", environ={"TELEGRAM_BOT_TOKEN": TOKEN})

    assert ended.code == 0, ended.err
    assert b"It answers and calls tools." in ended.err
    assert b"The bot is @" in ended.err
    assert ended.out.decode().strip().endswith("config.yaml")
    assert "${TELEGRAM_BOT_TOKEN}" in config_of(there)
    assert asked.out == b"it works\n", asked.err
    assert not model.refusals


async def test_a_wrong_key_writes_nothing(tmp_path: Path) -> None:
    """A key that the server does not take ends with exit code 1 and the server's reason; no file is written."""
    there = home(tmp_path)
    async with LLMServer(api_key="right") as model:
        ended = await there.run(
            *("init", "--provider", "mine", "--base-url", f"{model.url}/v1", "--model", "test-model"),
            *("--api-key-env", "MY_KEY"),
            environ={"MY_KEY": "wrong-s3cret"},
        )

    assert ended.code == 1
    assert b"Nothing was written" in ended.err
    assert b"wrong-s3cret" not in ended.err
    assert not (there.path / ".nanobot" / "config.yaml").exists()


async def test_e23_a_model_without_tools_is_told(tmp_path: Path) -> None:
    """A model that only talks is set up, and its limits are said."""
    there = home(tmp_path)
    async with LLMServer([Reply("It is noon.")]) as model:
        ended = await there.run(
            *("init", "--provider", "mine", "--base-url", f"{model.url}/v1", "--model", "test-model")
        )

    assert ended.code == 0
    assert b"did not call a tool" in ended.err


async def test_a_person_is_led_through_it(tmp_path: Path) -> None:
    """At a terminal: a server is named, the bot's token pasted, the owner paired by the code, and the chat begins."""
    there = home(tmp_path)
    async with LLMServer([CALLS, Reply("hello, owner")]) as model, TelegramServer(TOKEN) as telegram:
        async with there.at_terminal(
            "init", "--base-url", f"{model.url}/v1", "--model", "test-model", "--telegram-base-url", telegram.base_url
        ) as person:
            await person.sees("calls tools")
            await person.sees("Token")
            person.types(f"{TOKEN}\n")
            text = await person.sees("or send the bot:")
            code = re.findall(r"send the bot:\s+([A-Z2-9]{8})", text)[0]
            telegram.push_text(7, "hello there")
            telegram.push_text(7, code)
            await person.sees("7 may talk to the bot")
            await person.sees("nanobot service install")
            person.types("hi\n")
            await person.sees("hello, owner")
            ended = await person.leaves()
        greeted = [call.params.values for call in telegram.sent("sendMessage")]

    assert ended == 0
    assert "allow_from: [7]" in config_of(there)
    assert TOKEN not in text
    assert len(greeted) == 1


async def test_doctor_finds_a_sound_installation_sound(tmp_path: Path) -> None:
    """Model and bot are really asked; everything is fine, as lines and as JSON, with exit code 0."""
    async with LLMServer([CALLS, CALLS]) as model, TelegramServer(TOKEN) as telegram:
        there = home(tmp_path, installation(model, telegram))
        lines = await there.run("doctor")
        as_json = await there.run("doctor", "--json")
    findings: list[dict[str, Any]] = json.loads(as_json.out)

    assert (lines.code, as_json.code) == (0, 0), lines.out
    assert b"model local/test-model: answers and calls tools" in lines.out
    assert b"BAD" not in lines.out
    assert {one["name"]: one["level"] for one in findings}["channel telegram"] == "ok"


async def test_doctor_names_what_is_broken(tmp_path: Path) -> None:
    """A refused key and a refused token: exit code 1, each with what mends it and without its value."""
    async with LLMServer(api_key="right") as model, TelegramServer("42:OTHER") as telegram:
        there = home(tmp_path, installation(model, telegram))
        ended = await there.run("doctor")

    assert ended.code == 1
    assert ended.out.count(b"BAD") == 2
    assert b"providers.local.api_key" in ended.out
    assert b"channels.telegram.token" in ended.out
    assert TOKEN.encode() not in ended.out


async def test_status_of_nobody(tmp_path: Path) -> None:
    """Without a gateway ``status`` says so, how to start one, and ends with 3."""
    there = home(tmp_path)
    ended = await there.run("status")
    as_json = await there.run("status", "--json")

    assert ended.code == 3
    assert b"nanobot service start" in ended.out
    assert json.loads(as_json.out) == {"running": False, "answers": False, "pid": None}


def installation(model: LLMServer, telegram: TelegramServer) -> str:
    """Return a configuration that points at these servers."""
    return json.dumps(
        {
            "providers": {"local": {"type": "openai", "api_key": "some-key", "base_url": f"{model.url}/v1"}},
            "agent": {"model": "local/test-model"},
            "channels": {"telegram": {"token": TOKEN, "base_url": telegram.base_url, "allow_from": [7]}},
        }
    )


async def test_ctrl_c_ends_the_line_and_says_that_nothing_was_written(tmp_path: Path) -> None:
    """Whoever leaves in the middle of the questions knows where they stand."""
    there = home(tmp_path)
    async with (
        LLMServer([CALLS]) as model,
        there.at_terminal("init", "--base-url", f"{model.url}/v1", "--model", "test-model") as person,
    ):
        await person.sees("Token")
        person.types("\x03")
        await person.sees("\nnanobot: stopped; nothing was written")
        code = await person.ended()

    assert code == 130
    assert not (there.path / ".nanobot" / "config.yaml").exists()
