"""The MCP client against scripted servers: what works over both transports, and what misbehaving costs."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from pydantic import SecretStr

from nanobot.agent.tools.mcp.settings import McpServerSettings, OAuthSettings
from tests.fakes.mcp.http import HttpServer
from tests.fakes.mcp.protocol import Script
from tests.fakes.mcp.rig import Rig, rig, scripted

Carrier = Literal["stdio", "http"]
CARRIERS: list[Carrier] = ["stdio", "http"]
SECRET = "correct-horse-battery-77"


@asynccontextmanager
async def served(carrier: Carrier, tmp_path: Path) -> AsyncGenerator[Rig]:
    if carrier == "stdio":
        async with rig(tmp_path, {"it": scripted(tmp_path / "it")}) as running:
            yield running
        return
    with HttpServer(Script()).running() as server:
        async with rig(tmp_path, {"it": McpServerSettings(url=server.url, timeout_s=5)}) as running:
            yield running


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids(place: Path) -> list[int]:
    return [int(line) for line in (place / "starts").read_text().split()]


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_tools_resources_and_prompts_work(carrier: Carrier, tmp_path: Path) -> None:
    """What a server offers can be called, read and had filled in; results say whose words they are."""
    async with served(carrier, tmp_path) as it:
        echo = await it.call("mcp_it_echo", text="hällo")
        failed = await it.call("mcp_it_fail")
        picture = await it.call("mcp_it_picture")
        listed = await it.call("mcp_list_resources", server="it")
        read = await it.call("mcp_read_resource", server="it", uri="memo:///one")
        prompts = await it.call("mcp_get_prompt", server="it")
        prompt = await it.call("mcp_get_prompt", server="it", name="greet", arguments={"who": "Ann"})

        assert it.servers.lines() == ["mcp it: up, 9 tools (scripted 1)"]
        assert (echo.text, echo.origin, echo.is_error) == ("hällo", "mcp it", False)
        assert (failed.is_error, failed.origin) == (True, "mcp it")
        assert "cannot fail" in failed.text
        assert picture.text.startswith("[image, image/png, 70 bytes: ")
        assert Path(picture.text.rpartition(": ")[2].rstrip("]")).read_bytes().startswith(b"\x89PNG")
        assert [(image.path, image.media_type) for image in picture.images] == [
            (picture.text.rpartition(": ")[2].rstrip("]"), "image/png")
        ]
        assert listed.text.splitlines() == ["memo:///one: one - text/plain", "memo:///{name}: memo"]
        assert read.text == "This is memo:///one."
        assert prompts.text == "greet(who)"
        assert prompt.text == "user: Greet Ann."


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_huge_result_comes_whole_up_to_a_limit(carrier: Carrier, tmp_path: Path) -> None:
    """Megabytes are cut with a word about it; too many cost this call, and the server is there again for the next."""
    async with served(carrier, tmp_path) as it:
        large = await it.call("mcp_it_huge", chars=5_000_000)
        too_large = await it.call("mcp_it_huge", chars=9_000_000)
        after = await it.call("mcp_it_echo", text="still here")

    assert large.text.endswith("[… the server sent 4,000,000 characters more; they were not kept …]")
    assert too_large.is_error
    assert "more than 8,388,608 bytes" in too_large.text
    assert after.text == "still here"


async def test_a_changed_list_is_taken_in(tmp_path: Path) -> None:
    """A tool that the server adds while it runs is there without a restart."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it")}) as it:
        await it.call("mcp_it_more")
        async with asyncio.timeout(5):
            while len(it.changes) < 2:  # noqa: ASYNC110  # the registry has no event for it
                await asyncio.sleep(0.01)

        assert "mcp_it_later" in it.names


async def test_bad_tools_cost_no_others(tmp_path: Path) -> None:
    """What cannot be offered is left out with its reason; the rest works."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", "bad")}) as it:
        names, line = it.names, it.servers.lines()[0]

    assert {"mcp_it_good", "mcp_it_no_schema", "mcp_it_with_ref"} <= set(names)
    assert len(names) == 5
    assert all(len(name) <= 64 for name in names)
    for reason in (
        "it is listed twice",
        "its schema is no object",
        "it has no usable name",
        "cannot be sent",
        "too long",
    ):
        assert reason in line


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        ("exit", "it ended with exit status 3; it said: no licence found for [redacted]"),
        ("garbage", "what it writes is no MCP, such as 'not a message'"),
        ("line", "it wrote a line of more than 8,388,608 bytes"),
    ],
)
async def test_h10_a_server_that_cannot_start_is_told_and_the_others_work(
    manner: str, why: str, tmp_path: Path
) -> None:
    """One bad server is one line in the status; no process of it is left, and no secret of it shows."""
    servers = {"bad": scripted(tmp_path / "bad", manner, secret=SECRET), "good": scripted(tmp_path / "good")}
    async with rig(tmp_path, servers, secrets=[SECRET]) as it:
        told, fine = it.servers.lines()
        echo = await it.call("mcp_good_echo", text="hi")
        absent = await it.call("mcp_bad_echo", text="hi")

    assert f"mcp bad: down: {why}" in told
    assert fine == "mcp good: up, 9 tools (scripted 1)"
    assert echo.text == "hi"
    assert absent.is_error
    assert "Nothing was run" in absent.text
    assert not any(map(alive, pids(tmp_path / "bad")))


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """Silence at the start ends in time, and the process with it."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", "mute", start_timeout_s=0.5)}) as it:
        line = it.servers.lines()[0]

    assert "it did not start within 0.5 s" in line
    assert not any(map(alive, pids(tmp_path / "it")))


async def test_what_is_no_message_is_skipped(tmp_path: Path) -> None:
    """A banner before the first message is nobody's end."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", "banner")}) as it:
        assert (await it.call("mcp_it_echo", text="hi")).text == "hi"


async def test_a_crash_under_a_call_is_told_and_the_next_call_works(tmp_path: Path) -> None:
    """An opaque call is not run twice; the server is started again for the next."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it")}) as it:
        died = await it.call("mcp_it_die")
        after = await it.call("mcp_it_echo", text="again")

    assert "it ended with exit status 7. Whether the call had an effect is unknown" in died.text
    assert after.text == "again"
    assert len(pids(tmp_path / "it")) == 2


async def test_a_server_that_asks_without_end_costs_bounded_work(tmp_path: Path) -> None:
    """Its requests are answered a few at a time: neither tasks nor memory pile up, and the others go on."""
    servers = {"asks": scripted(tmp_path / "asks", "asks", timeout_s=2), "it": scripted(tmp_path / "it")}
    async with rig(tmp_path, servers) as it:
        most = 0
        async with asyncio.timeout(10):
            for _ in range(60):
                await asyncio.sleep(0.01)  # what piles up does so with time
                most = max(most, len(asyncio.all_tasks()))
            echo = await it.call("mcp_it_echo", text="hi")

    assert most < 150
    assert "hi" in echo.text


async def test_a_stopped_process_is_found_out_and_replaced(tmp_path: Path) -> None:
    """A server that hangs (SIGSTOP) costs one call its timeout, and is ended although it cannot listen."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", timeout_s=0.3, effect="pure")}) as it:
        first = pids(tmp_path / "it")[0]
        os.kill(first, signal.SIGSTOP)
        hung = await it.call("mcp_it_echo", text="hi")
        os.kill(first, signal.SIGKILL)  # what the ping would find out in five seconds
        after = await it.call("mcp_it_echo", text="again")

    assert "it did not answer within 0.3 s" in hung.text
    assert after.text == "again"


async def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    """A child in the server's group is gone, although the server itself ended in order."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", "orphan")}) as it:
        child = int((tmp_path / "it/child").read_text())
        assert it.names
        assert alive(child)

    assert not alive(child)


async def test_g05_a_server_gets_its_own_environment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of a server sees a short list of variables and its own, none of our keys."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MY_SETTING", "x")
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", secret="tok-1234567")}):
        environ = json.loads((tmp_path / "it/environ").read_text())

    assert environ["FAKE_TOKEN"] == "tok-1234567"
    assert set(environ) - {"FAKE_TOKEN"} <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE", "PWD"}


async def test_a_server_does_not_run_where_the_model_writes(tmp_path: Path) -> None:
    """Python and npx run what lies in their directory: a server's own is in the data directory, and closed to others."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it"), "there": scripted(tmp_path / "there", cwd=tmp_path)}):
        place, chosen = ((tmp_path / name / "cwd").read_text() for name in ("it", "there"))

    assert place == str(tmp_path / "data/servers/it")
    assert Path(place).stat().st_mode & 0o077 == 0
    assert chosen == str(tmp_path)


async def test_secrets_in_results_and_errors_are_taken_out(tmp_path: Path) -> None:
    """A server that shows what it was given does not show it to the model."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", secret=SECRET)}, secrets=[SECRET]) as it:
        result = await it.call("mcp_it_secret")
        error = await it.call("mcp_it_fail")

    assert result.text == "the key is [redacted]"
    assert SECRET not in error.text


UNKNOWN = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID provided"}}'


@pytest.mark.parametrize("said", [(404, b""), (404, UNKNOWN), (400, UNKNOWN), (400, b"Session not found")])
async def test_h11_a_restarted_server_behind_an_address_is_found_again(said: tuple[int, bytes], tmp_path: Path) -> None:
    """A server that has forgotten us, and one that was away between two calls, get the second call all the same."""
    with HttpServer(Script()).running() as server:
        server.unknown_session = said
        async with rig(tmp_path, {"it": McpServerSettings(url=server.url, timeout_s=5)}) as it:
            first = await it.call("mcp_it_count")
            server.sessions.clear()
            forgotten = await it.call("mcp_it_count")
            server.stop()
            server.start()
            restarted = await it.call("mcp_it_count")

        assert [first.text, forgotten.text, restarted.text] == ["1", "2", "3"]


async def test_a_server_that_is_away_is_a_sentence(tmp_path: Path) -> None:
    """A refused connection is told, and tried again when somebody calls."""
    server = HttpServer(Script())
    with server.running():
        async with rig(tmp_path, {"it": McpServerSettings(url=server.url, timeout_s=5)}) as it:
            server.stop()
            away = await it.call("mcp_it_count")
            server.start()
            back = await it.call("mcp_it_count")

    assert away.is_error
    assert "cannot be reached" in away.text
    assert back.text == "1"


async def test_headers_are_sent_and_a_refusal_says_what_to_do(tmp_path: Path) -> None:
    """The configured token opens the door; without one the status names headers and login."""
    with HttpServer(Script(), token=SECRET).running() as server:
        right = McpServerSettings(url=server.url, headers={"Authorization": SecretStr(f"Bearer {SECRET}")})
        login = McpServerSettings(url=server.url, oauth=OAuthSettings())
        servers = {"right": right, "wrong": McpServerSettings(url=server.url), "login": login}
        async with rig(tmp_path, servers) as it:
            good, bad, asks = it.servers.lines()

    assert good == "mcp right: up, 9 tools (scripted 1)"
    assert "check its headers, or set oauth" in bad
    assert "nanobot mcp login" in asks


async def test_only_allowed_tools_are_offered(tmp_path: Path) -> None:
    """The allow-list is by name or pattern; what it leaves out is no tool."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", tools=["echo", "co*"])}) as it:
        assert it.names == ["mcp_it_count", "mcp_it_echo"]


async def test_nobody_waits_for_a_slow_server_to_close(tmp_path: Path) -> None:
    """Closing ends a server that is just starting."""
    async with rig(tmp_path, {"it": scripted(tmp_path / "it", "late")}, settles=False):
        async with asyncio.timeout(5):
            while not (tmp_path / "it/starts").exists():  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.01)

    with contextlib.suppress(ProcessLookupError):
        assert not any(map(alive, pids(tmp_path / "it")))
