"""One question: answer on stdout, everything else on stderr, and the exit code."""

import asyncio
import json
import os
import signal

import pytest

from nanobot.bus.events import Media
from nanobot.bus.runtime_events import TextDelta, ToolFinished, ToolStarted
from nanobot.cli.ask import ask
from tests.fakes.bot import Emit, FakeBot


async def asked(bot: FakeBot, *, as_json: bool = False) -> int:
    async with asyncio.timeout(5):
        return await ask(bot, "hello", session_key="cli:direct", as_json=as_json)


async def test_j07_the_answer_is_raw_on_stdout(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A pipe gets the model's text byte for byte, and nothing else."""

    async def script(text: str, emit: Emit) -> str:
        emit(ToolStarted("a", "grep", "grep x"))
        emit(ToolFinished("a", "grep", False, 1.0, 1))
        emit(TextDelta("**bold**"))
        return "**bold** \x1b[31m 日本"

    code = await asked(FakeBot(script))

    assert code == 0
    assert capfdbinary.readouterr() == ("**bold** \x1b[31m 日本\n".encode(), b"")


async def test_a_failed_turn_exits_with_1(capfd: pytest.CaptureFixture[str]) -> None:
    """A script sees that there is no answer, and a person why."""

    async def script(text: str, emit: Emit) -> str:
        return ""

    code = await asked(FakeBot(script, error="The key is wrong."))

    assert code == 1
    assert capfd.readouterr() == ("", "nanobot: The key is wrong.\n")


async def test_json_holds_the_whole_result(capfd: pytest.CaptureFixture[str]) -> None:
    """One object on one line, with the fields that scripts rely on."""
    await asked(FakeBot(), as_json=True)
    [line] = capfd.readouterr().out.splitlines()

    result = json.loads(line)
    assert list(result) == [
        "content",
        "stop_reason",
        "usage",
        "tools_used",
        "iterations",
        "error",
        "session_key",
        "files",
    ]
    assert (result["content"], result["stop_reason"], result["session_key"]) == ("hello", "completed", "cli:direct")
    assert result["usage"]["input_tokens"] == 0


async def test_files_are_named_on_stderr_and_in_json(capfd: pytest.CaptureFixture[str]) -> None:
    """What the Turn sends lies at a path; the answer itself stays as it is."""
    media = Media("file", name="plot.png", path="/kept/ab.png", media_type="image/png", size_bytes=7, caption="It")
    await asked(FakeBot(files=(media,)))
    out, err = capfd.readouterr()
    await asked(FakeBot(files=(media,)), as_json=True)
    result = json.loads(capfd.readouterr().out)

    assert (out, err) == ("hello\n", "file: /kept/ab.png (plot.png)\n")
    assert result["files"] == [
        {"path": "/kept/ab.png", "name": "plot.png", "media_type": "image/png", "size_bytes": 7, "caption": "It"}
    ]


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_j08_a_signal_stops_the_turn_in_order(
    number: signal.Signals, expected: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """The Turn is stopped, not killed, and the exit code says by what."""

    async def script(text: str, emit: Emit) -> str:
        os.kill(os.getpid(), number)
        await asyncio.sleep(60)
        return "never"

    bot = FakeBot(script)
    code = await asked(bot)

    assert (code, bot.stopped) == (expected, 1)
    assert capfd.readouterr() == ("", "nanobot: stopped\n")
