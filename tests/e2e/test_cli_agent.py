"""``nanobot agent -m`` as a subprocess: pipes, exit codes, sessions, signals."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.e2e.command import Home, config_for, finish
from tests.fakes.llm_server import Call, LLMServer, Reply

WIRES = ("openai", "anthropic")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_question_is_answered(wire: str, tmp_path: Path) -> None:
    """The answer stands on stdout as the model wrote it, and stderr is empty."""
    async with LLMServer([Reply("**Hello** 😀")]) as server:
        done = await Home(tmp_path, config_for(server.url, wire)).run("agent", "-m", "hi")

    assert (done.code, done.out, done.err) == (0, "**Hello** 😀\n".encode(), b"")
    assert server.refusals == []


@pytest.mark.parametrize("wire", WIRES)
async def test_a_tool_is_used_and_the_session_goes_on_in_the_next_process(wire: str, tmp_path: Path) -> None:
    """A conversation survives the process; the strict server takes every request of both."""
    async with LLMServer(
        [Reply(tool_calls=[Call("read_file", {"path": "notes.md"})]), Reply("It says milk."), Reply("Milk, still.")]
    ) as server:
        home = Home(tmp_path, config_for(server.url, wire))
        (home.workspace / "notes.md").write_text("buy milk\n")
        first = await home.run("agent", "-m", "read notes.md", "--json")
        second = await home.run("agent", "-m", "what was it?")
        exported = await home.run("sessions", "export", "cli:direct")

    result = json.loads(first.out)
    assert (result["content"], result["tools_used"], result["iterations"]) == ("It says milk.", ["read_file"], 2)
    assert second.out == b"Milk, still.\n"
    assert b"buy milk" in server.requests[-1].raw
    assert server.refusals == []
    prompts = [json.loads(line)["prompt"] for line in exported.out.splitlines()]
    assert prompts == ["read notes.md", "what was it?"]


async def test_piped_text_is_added_to_the_message(tmp_path: Path) -> None:
    """``git diff | nanobot agent -m review`` sends both; bytes that are no UTF-8 do no harm."""
    async with LLMServer([Reply("fine")]) as server:
        done = await Home(tmp_path, config_for(server.url)).run("agent", "-m", "review", stdin=b"+line \xff one\n")

    assert done.code == 0
    sent = server.requests[-1].body["messages"][-1]["content"]
    assert str(sent).startswith("review\n\n+line � one")


async def test_piped_text_alone_is_the_message(tmp_path: Path) -> None:
    """Without -m, what is piped is asked."""
    done = await Home(tmp_path).run("agent", stdin=b"help\n")

    assert done.code == 0
    assert b"offline" in done.out


async def test_a_huge_input_is_kept_whole(tmp_path: Path) -> None:
    """What was accepted is in the log, to the last byte, whatever the model gets of it."""
    home = Home(tmp_path)
    text = "x" * 3_000_000 + "END"
    done = await home.run("agent", "-m", "time", stdin=text.encode())
    exported = await home.run("sessions", "export", "cli:direct", "--format", "jsonl")

    assert done.code in (0, 1)
    assert b"Traceback" not in done.err
    assert text.encode() in exported.out


async def test_f04_a_refused_key_is_one_sentence(tmp_path: Path) -> None:
    """Exit 1, nothing on stdout, and a sentence that names the provider."""
    async with LLMServer([Reply(status=401)]) as server:
        done = await Home(tmp_path, config_for(server.url)).run("agent", "-m", "hi")

    assert (done.code, done.out) == (1, b"")
    assert done.err.count(b"\n") <= 2
    assert b"key" in done.err
    assert b"local" in done.err
    assert b"test-key" not in done.err


async def test_f14_an_ascii_locale_does_not_matter(tmp_path: Path) -> None:
    """Answers and config are UTF-8 under LC_ALL=C."""
    async with LLMServer([Reply("Grüße 😀")]) as server:
        home = Home(tmp_path, "\ufeff# Größe 😀\n" + config_for(server.url))
        done = await home.run(
            "agent", "-m", "hällo", environ={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        )

    assert done.out == "Grüße 😀\n".encode()
    assert "hällo" in str(server.requests[-1].body["messages"][-1]["content"])


async def test_j08_ctrl_c_stops_the_turn_and_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    """Exit 130 without a traceback, and the next question is answered."""
    async with LLMServer([Reply("never", hang="headers"), Reply("on again")]) as server:
        home = Home(tmp_path, config_for(server.url))
        process = await home.start("agent", "-m", "first")
        async with asyncio.timeout(20):
            while not server.requests:  # noqa: ASYNC110 # the server has no event for it
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stopped = await finish(process)
        second = await home.run("agent", "-m", "second")

    assert (stopped.code, stopped.out, stopped.err) == (130, b"", b"nanobot: stopped\n")
    assert second.out == b"on again\n"
    assert server.refusals == []


async def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """``| head -1`` may close the pipe before the answer is written."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = await Home(tmp_path).start("agent", "-m", "help", stdout=writer)
    finally:
        os.close(writer)
    done = await finish(process)

    assert (done.code, done.err) == (0, b"")


async def test_a_silent_pipe_is_explained(tmp_path: Path) -> None:
    """Whoever runs us with a stdin that never ends reads why nothing happens."""
    process = await Home(tmp_path).start("agent", "-m", "help", stdin=PIPE)
    assert process.stderr is not None
    async with asyncio.timeout(20):
        said = await process.stderr.readline()
    done = await finish(process, b"")

    assert b"waiting for the end of the piped input" in said
    assert done.code == 0


async def test_j07_no_escapes_in_pipes_whatever_the_terminal_is(tmp_path: Path) -> None:
    """Answers, tools and errors carry no colour when nobody looks."""
    home = Home(tmp_path)
    done = await home.run("agent", "-m", "list files", environ={"TERM": "xterm-256color", "FORCE_COLOR": "1"})

    assert b"\x1b" not in done.out + done.err
    assert not any(line != line.rstrip() for line in done.out.decode().splitlines())


async def test_sessions_are_listed_and_shown(tmp_path: Path) -> None:
    """A person finds their conversations, the newest first."""
    home = Home(tmp_path)
    await home.run("agent", "-m", "help", "--session", "cli:one")
    await home.run("agent", "-m", "time", "--session", "cli:two")
    listed = await home.run("sessions", "list")
    shown = await home.run("sessions", "show", "cli:two")
    empty = await Home(tmp_path / "other").run("sessions", "list")

    assert sorted(line.split(b"\t")[0] for line in listed.out.splitlines()) == [b"cli:one", b"cli:two"]
    assert b"> time" in shown.out
    assert (empty.code, empty.out) == (0, b"")
