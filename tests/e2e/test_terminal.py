"""The interactive chat on a real pseudo-terminal."""

import asyncio
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e.command import Home, Typist, config_for
from tests.fakes.llm_server import Call, LLMServer, Reply


@asynccontextmanager
async def chat(home: Path, replies: list[Reply], **environ: str) -> AsyncGenerator[tuple[LLMServer, Typist]]:
    """Chat with the strict local server."""
    async with (
        LLMServer(replies) as server,
        Home(home, config_for(server.url)).at_terminal("agent", **environ) as person,
    ):
        yield server, person
    assert server.refusals == []


async def asked(server: LLMServer) -> None:
    """Wait for the server's first request."""
    async with asyncio.timeout(20):
        while not server.requests:  # noqa: ASYNC110 # the server has no event for it
            await asyncio.sleep(0.01)


async def test_a_chat_streams_an_answer_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    """Question, tool line, rendered Markdown, Ctrl-D: exit 0 and a restored terminal."""
    replies = [
        Reply("I look.", tool_calls=[Call("read_file", {"path": "notes.md"})]),
        Reply("It says **milk**.\n\n- one\n- two\n"),
    ]
    async with LLMServer(replies) as server:
        home = Home(tmp_path, config_for(server.url))
        (home.workspace / "notes.md").write_text("buy milk\n")
        async with home.at_terminal("agent") as person:
            await person.sees("›")
            person.types("read notes.md\r")
            shown = await person.sees("• two")
            code = await person.leaves()

            assert code == 0
            assert "✓ read_file notes.md" in shown
            assert "It says milk." in shown
            assert person.terminal_is_as_before
    assert server.refusals == []


async def test_j08_ctrl_c_stops_the_turn_and_not_the_program(tmp_path: Path) -> None:
    """What was seen stays, the next question is answered, and Ctrl-C at the prompt is a hint."""
    replies = [
        Reply("Half of it is here", deltas=3, delay_s=0.05, hang="after_delta", after=3),
        Reply("Second answer."),
    ]
    async with LLMServer(replies) as server, Home(tmp_path, config_for(server.url)).at_terminal("agent") as person:
        await person.sees("›")
        person.types("first\r")
        await person.sees("Half of it is here")
        person.types("\x03")
        await person.sees("(stopped)")
        person.types("\x03")
        await person.sees("Ctrl-D leaves")
        person.types("second\r")
        await person.sees("Second answer.")

        assert await person.leaves() == 0
        assert person.terminal_is_as_before
    assert server.refusals == []


async def test_a_person_can_type_while_a_turn_runs(tmp_path: Path) -> None:
    """A line typed during a Turn reaches the model, and nothing of it is lost."""
    gate = asyncio.Event()
    async with chat(tmp_path, [Reply("First.", gate=gate), Reply("Both seen."), Reply("More.")]) as (server, person):
        await person.sees("›")
        person.types("one\r")
        await asked(server)
        person.types("and another\r")
        await person.sees("and another")
        await asyncio.sleep(0.2)
        gate.set()
        await person.sees("Both seen.")

        assert await person.leaves() == 0
        assert b"and another" in server.requests[-1].raw


async def test_a_turn_that_was_left_goes_on_when_the_person_comes_back(tmp_path: Path) -> None:
    """Ctrl-D leaves at once and says what becomes of the Turn; the next chat of the session ends it, unasked."""
    async with LLMServer([Reply("x", hang="headers"), Reply("Here it is after all.")]) as server:
        home = Home(tmp_path, config_for(server.url))
        async with home.at_terminal("agent") as person:
            await person.sees("›")
            person.types("first\r")
            await asked(server)

            assert await person.leaves() == 0
            await person.sees("it goes on when you come back")
            assert person.terminal_is_as_before
        async with home.at_terminal("agent") as person:
            await person.sees("Here it is after all.")

            assert await person.leaves() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_j08_a_signal_restores_the_terminal(number: signal.Signals, tmp_path: Path) -> None:
    """Killed in order during a Turn: raw mode is left, and the exit code names the signal."""
    async with chat(tmp_path, [Reply("x", hang="headers")]) as (_, person):
        await person.sees("›")
        person.types("first\r")
        await person.sees("Ctrl-C stops")
        person.signals(number)

        assert await person.ended() == 128 + number
        assert person.terminal_is_as_before


async def test_the_models_text_cannot_touch_the_terminal(tmp_path: Path) -> None:
    """Escapes, titles and markup in an answer are text or nothing."""
    async with chat(tmp_path, [Reply("A\x1b]0;owned\x07B\x1b[2JC [red]D[/red] <b>E</b> END")]) as (_, person):
        await person.sees("›")
        person.types("go\r")
        await person.sees("ABC [red]D[/red] <b>E</b> END")
        await person.leaves()

        assert "owned" not in person.raw
        assert "\x1b[2JC" not in person.raw


async def test_no_color_means_none(tmp_path: Path) -> None:
    """NO_COLOR keeps colours off a real terminal too."""
    async with chat(tmp_path, [Reply("`code` done")], NO_COLOR="1") as (_, person):
        await person.sees("›")
        person.types("go\r")
        await person.sees("code done")
        await person.leaves()

        codes = {code for group in re.findall(r"\x1b\[([0-9;]*)m", person.raw) for code in group.split(";")}
        assert codes <= {"", "0", "00", "1", "2", "3", "4"}


async def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    """TERM=dumb: no escapes at all, Ctrl-C stops the Turn, Ctrl-D leaves."""
    async with chat(tmp_path, [Reply("x", hang="headers"), Reply("**Plain** answer")], TERM="dumb") as (server, person):
        await person.sees(">")
        person.types("first\n")
        await asked(server)
        person.types("\x03")
        await person.sees("(stopped)")
        await asyncio.sleep(0.1)
        person.types("second\n")
        await person.sees("**Plain** answer")
        await asyncio.sleep(0.1)

        assert await person.leaves() == 0
        assert "\x1b" not in person.raw
        assert person.terminal_is_as_before


async def test_history_is_private_and_comes_back(tmp_path: Path) -> None:
    """What was typed can be recalled in the next chat, and only its owner can read the file."""
    home = Home(tmp_path)
    async with home.at_terminal("agent") as person:
        await person.sees("›")
        person.types("help\r")
        await person.sees("Phrases")
        await person.leaves()
    async with home.at_terminal("agent") as person:
        await person.sees("›")
        person.types("\x1b[A")
        await person.sees("› help")
        person.types("\x03")
        await asyncio.sleep(0.2)
        await person.leaves()

    history = home.path / ".nanobot" / "data" / "cli_history"
    assert history.stat().st_mode & 0o777 == 0o600


async def test_offline_says_how_to_configure_a_model(tmp_path: Path) -> None:
    """A newcomer reads plainly that there is no model, and what to do."""
    async with Home(tmp_path).at_terminal("agent") as person:
        shown = await person.sees("›")
        await person.leaves()

    assert "No model is configured" in shown
    assert "ANTHROPIC_API_KEY" in shown
