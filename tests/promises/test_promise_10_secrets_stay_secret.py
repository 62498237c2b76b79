"""10. Secrets stay secret: never in logs, events, error texts, child environments or the model's context.  People's text stays.

More: tests/unit/test_redaction.py, ``test_g04_*`` and ``test_g05_*`` in tests/unit/agent/tools/.
"""

import logging
from pathlib import Path

import pytest
from pydantic import SecretStr

from nanobot.agent.tools.mcp.settings import McpSettings
from nanobot.app import Nanobot
from nanobot.bus.runtime_events import RuntimeEvent
from nanobot.config.settings import Settings
from tests.e2e.bots import KEY, WIRES, Wire, settings_for
from tests.fakes.llm_server import Call, LLMServer, Reply
from tests.fakes.mcp.rig import scripted

SECRET = "correct-horse-battery-77"  # no shape that gives it away


def with_secret(server: LLMServer, wire: Wire, home: Path) -> Settings:
    """Return settings whose provider has the secret key."""
    settings = settings_for(server, wire, home, model=f"{wire}/test-model")
    keyed = settings.providers[wire].model_copy(update={"api_key": SecretStr(SECRET)})
    return settings.model_copy(update={"providers": {**settings.providers, wire: keyed}})


def leaks(home: Path) -> list[str]:
    """Return the files under the data directory that hold the secret."""
    files = (path for path in (home / "data").rglob("*") if path.is_file())
    return [path.name for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_tool_that_finds_a_secret_does_not_show_it(
    wire: Wire, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What commands and files give away is redacted before it is logged, sent or published."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "leak.txt").write_text(f"the key is {SECRET}.\n")
    wanted = [
        Call("read_file", {"path": "leak.txt"}),
        Call("exec", {"command": "cat leak.txt; env; cat nothing-$(cat leak.txt)"}),
    ]
    seen: list[RuntimeEvent] = []
    async with LLMServer([Reply("", wanted), Reply("Read.")]) as server:
        environ = {"OPENAI_API_KEY": SECRET, "PATH": "/usr/bin:/bin", "MY_TOKEN": SECRET}
        async with Nanobot.from_settings(with_secret(server, wire, tmp_path), environ=environ) as bot:
            bot.events.observe(seen.append)
            with caplog.at_level(logging.DEBUG):
                result = await bot.process_direct("look", session_key=KEY)

        assert result.content == "Read."
        assert "the key is" in server.chats[1].raw.decode()
        assert [request for request in server.chats if SECRET in request.raw.decode()] == []
    assert SECRET not in repr(seen) + repr(result) + caplog.text
    assert leaks(tmp_path) == []


@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_that_quotes_the_key_does_not_show_it(
    wire: Wire, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Vendors repeat the key they refuse; we do not."""
    error = {
        "type": "authentication_error",
        "message": f"Incorrect API key provided: {SECRET}.",
        "code": "invalid_api_key",
    }
    async with LLMServer([Reply(status=401, error={"type": "error", "error": error})]) as server:
        async with Nanobot.from_settings(with_secret(server, wire, tmp_path), environ={}) as bot:
            seen: list[RuntimeEvent] = []
            bot.events.observe(seen.append)
            with caplog.at_level(logging.DEBUG):
                result = await bot.process_direct("hi", session_key=KEY)

        assert server.chats
        assert result.error
    assert SECRET not in repr(seen) + repr(result) + caplog.text
    assert leaks(tmp_path) == []


async def test_what_people_write_stays_as_written(tmp_path: Path) -> None:
    """A person's own words are not touched, even when they look like a secret."""
    text = "my pasword is hunter2, token=abcdef0123456789abcdef0123456789"
    async with LLMServer([Reply("ok")]) as server:
        async with Nanobot.from_settings(with_secret(server, "openai", tmp_path), environ={}) as bot:
            await bot.process_direct(text, session_key=KEY)

        assert text in server.chats[0].raw.decode()


async def test_what_an_mcp_server_was_given_does_not_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that shows its token in results, errors and its last words shows it to nobody."""
    wanted = [Call("mcp_it_secret", {}), Call("mcp_it_fail", {}), Call("mcp_bad_echo", {"text": "x"})]
    seen: list[RuntimeEvent] = []
    async with LLMServer([Reply("", wanted), Reply("Done.")]) as server:
        servers = {
            name: scripted(tmp_path / name, how, secret=SECRET) for name, how in (("it", "good"), ("bad", "exit"))
        }
        base = settings_for(server, "openai", tmp_path, model="openai/test-model")
        tools = base.tools.model_copy(update={"mcp": McpSettings(servers=servers)})
        async with Nanobot.from_settings(base.model_copy(update={"tools": tools}), environ={}) as bot:
            bot.events.observe(seen.append)
            with caplog.at_level(logging.DEBUG, logger="nanobot.agent.tools.mcp.server"):
                result = await bot.process_direct("look", session_key=KEY)
                status = await bot.process_direct("/status", session_key=KEY)

        assert "the key is [redacted]" in server.chats[1].raw.decode()
        assert [request for request in server.chats if SECRET in request.raw.decode()] == []
    assert "no licence found for [redacted]" in status.content
    assert SECRET not in repr(seen) + repr(result) + repr(status) + caplog.text
    assert leaks(tmp_path) == []
