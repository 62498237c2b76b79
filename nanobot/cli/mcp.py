"""``nanobot mcp``: see what MCP servers offer, and log in to one."""

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.cli.streams import is_person, write_out
from nanobot.errors import MisuseError, NanobotError

if TYPE_CHECKING:
    from nanobot.config.settings import Settings

_PASTE = "If this machine has no browser, open it elsewhere and paste the address that you are sent to in the end:\n"


class LoginFailed(NanobotError):
    """A login did not come about; the text says why."""


def list_servers(config: Path | None) -> int:
    """Connect to every server and print what it offers; return 1 if one is not up."""
    from nanobot.setup.mcp import offers

    settings = _settings(config)
    if not settings.tools.mcp.servers:
        write_out("No MCP servers are configured. docs/mcp.md says how.\n")
        return 0
    found = offers(settings)
    for offer in found:
        write_out(f"{offer.line}\n")
        for name, description in offer.tools:
            write_out(f"  {name}: {_first_line(description)}\n")
    return 0 if all(offer.is_up for offer in found) else 1


def log_in(name: str, config: Path | None) -> int:
    """Log in to a server that wants OAuth; return the exit code."""
    settings = _settings(config)
    server = settings.tools.mcp.servers.get(name)
    if server is None:
        known = ", ".join(settings.tools.mcp.servers) or "none"
        raise MisuseError(f"there is no MCP server {name!r} in the configuration; there are: {known}")
    if server.url is None:
        raise MisuseError(f"{name!r} is a program, which gets its secrets by env; only servers with a url have logins")
    if server.oauth is None:
        raise MisuseError(f"{name!r} has no oauth in the configuration; add oauth: {{}} to tools.mcp.servers.{name}")

    from nanobot.agent.tools.mcp.login import login
    from nanobot.agent.tools.mcp.remote import Lost
    from nanobot.agent.tools.mcp.servers import LOGINS

    def show(url: str) -> None:
        write_out(f"Open this address and log in:\n\n{url}\n\n{_PASTE if is_person() else ''}")

    try:
        listing = asyncio.run(login(name, server, directory=settings.data_dir / LOGINS, show=show, pasted=_typed))
    except Lost as error:
        raise LoginFailed(f"{name}: {error}") from None
    write_out(f"Logged in to {name}: {len(listing.tools)} tools.\n")
    return 0


async def _typed() -> str:
    """Return the next line that a person types; wait for ever where there is none."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        text = input()
        loop.call_soon_threadsafe(lambda: line.done() or line.set_result(text))

    if is_person():
        threading.Thread(target=read, name="typed line", daemon=True).start()  # a read cannot be cancelled
    return await line


def _settings(config: Path | None) -> "Settings":
    from nanobot.config.environment import environment
    from nanobot.config.settings import find, load

    environ = environment()
    return load(find(config, environ), environ)


def _first_line(text: str) -> str:
    line = " ".join(text.split("\n", 1)[0].split())
    return line if len(line) <= 100 else line[:99] + "…"
