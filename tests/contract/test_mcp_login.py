"""Logging in to a server that wants OAuth: once, by browser or by hand; after that nobody is asked."""

import asyncio
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from nanobot.agent.tools.mcp.login import login
from nanobot.agent.tools.mcp.remote import Lost
from nanobot.agent.tools.mcp.settings import McpServerSettings, OAuthSettings
from tests.fakes.mcp.oauth import OAuthServer, returned_to
from tests.fakes.mcp.protocol import Script
from tests.fakes.mcp.rig import rig


def settings(server: OAuthServer) -> McpServerSettings:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return McpServerSettings(url=server.url, oauth=OAuthSettings(callback_port=port), timeout_s=5)


async def never() -> str:
    return await asyncio.get_running_loop().create_future()


async def log_in(server: OAuthServer, wanted: McpServerSettings, home: Path, *, code: str = "code-1") -> int:
    """Log in as somebody who pastes the address; return how many tools there are."""
    shown: asyncio.Queue[str] = asyncio.Queue()

    async def pasted() -> str:
        return returned_to(await shown.get(), code)

    listing = await login("it", wanted, directory=home / "data/mcp", show=shown.put_nowait, pasted=pasted)
    return len(listing.tools)


async def test_a_login_by_hand_is_kept_for_its_owner_alone_and_used(tmp_path: Path) -> None:
    """After one login the server is up, without a question, and the file is nobody else's."""
    with OAuthServer(Script()).running() as server:
        wanted = settings(server)
        async with rig(tmp_path, {"it": wanted}) as before:
            refused = before.servers.lines()[0]
        count = await log_in(server, wanted, tmp_path)
        async with rig(tmp_path, {"it": wanted}) as it:
            answer = await it.call("mcp_it_count")

    kept = tmp_path / "data/mcp/it.json"
    assert "it wants a login: nanobot mcp login it" in refused
    assert count == 9
    assert answer.text == "1"
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert server.grants == ["authorization_code"]


async def test_a_browser_on_this_machine_needs_no_hand(tmp_path: Path) -> None:
    """The address that the browser is sent to is ours."""

    def browse(address: str) -> None:
        asyncio.get_running_loop().run_in_executor(None, lambda: urlopen(returned_to(address), timeout=5).read())

    with OAuthServer(Script()).running() as server:
        listing = await login("it", settings(server), directory=tmp_path / "mcp", show=browse, pasted=never)

    assert len(listing.tools) == 9


async def test_a_login_that_has_run_out_renews_itself_after_a_restart(tmp_path: Path) -> None:
    """A process that never saw the login renews it where it was made, without a person."""
    with OAuthServer(Script()).running() as server:
        wanted = settings(server)
        server.expires_in_s = 1
        await log_in(server, wanted, tmp_path)
        server.expires_in_s = 3_600
        server.token = "good no more"
        async with rig(tmp_path, {"it": wanted}) as it:
            answer = await it.call("mcp_it_count")

    assert answer.text == "1"
    assert server.grants == ["authorization_code", "refresh_token"]


async def test_a_login_that_is_refused_is_a_sentence(tmp_path: Path) -> None:
    """A wrong code, and a port that is taken, say what is wrong."""
    with OAuthServer(Script()).running() as server:
        wanted = settings(server)
        with pytest.raises(Lost, match="the login does not work"):
            await log_in(server, wanted, tmp_path, code="code-2")
        assert wanted.oauth is not None
        taken = socket.create_server(("127.0.0.1", wanted.oauth.callback_port))
        with taken, pytest.raises(Lost, match="to another one"):
            await log_in(server, wanted, tmp_path)
