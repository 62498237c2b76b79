"""Log in to a server once: show an address, wait for the browser or for a pasted address, and see whether the server lets us in."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthFlowError

from nanobot.agent.tools.mcp.oauth import Logins
from nanobot.agent.tools.mcp.remote import Connection, Listing, Lost
from nanobot.agent.tools.mcp.session import serve
from nanobot.agent.tools.mcp.settings import McpServerSettings, OAuthSettings

PATIENCE_S = 600.0
_PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nDone. You may close this page.\n"


async def login(
    name: str,
    settings: McpServerSettings,
    *,
    directory: Path,
    show: Callable[[str], None],
    pasted: Callable[[], Awaitable[str]],
) -> Listing:
    """Log in, keep the login, and return what the server offers then.

    Args:
        name: the server's, as configured.
        settings: the server's, with a url.
        directory: where logins are kept.
        show: shows a person the address to open.
        pasted: returns the address that a person pastes, for a browser on another machine.

    Raises:
        Lost: it did not come about; the text says why.
    """
    oauth = settings.oauth or OAuthSettings()
    back: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def shown(url: str) -> None:
        show(url)

    async def returned() -> AuthorizationCodeResult:
        return _read(await _first(back, pasted))

    found: list[Listing] = []

    async def look(connection: Connection) -> None:
        found.append(await connection.listing())

    try:
        callback = await asyncio.start_server(_answering(back), "127.0.0.1", oauth.callback_port)
    except OSError as error:
        text = f"port {oauth.callback_port} cannot be used ({error.strerror}); set oauth.callback_port to another one"
        raise Lost(text) from None
    async with callback:
        wanted = settings.model_copy(update={"oauth": oauth})
        logins = Logins(directory, show=shown, returned=returned)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await serve(name, wanted, look, place=directory, media=directory, logins=logins)
        except TimeoutError:
            raise Lost("nobody logged in in time") from None
    return found[0]


async def _first(back: "asyncio.Future[str]", pasted: Callable[[], Awaitable[str]]) -> str:
    """Return the address that comes first: to our port, or by hand."""

    async def by_hand() -> str:
        return await pasted()

    typing = asyncio.create_task(by_hand(), name="pasted address")
    try:
        done, _ = await asyncio.wait({back, typing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        typing.cancel()
    return next(iter(done)).result()


def _answering(
    back: "asyncio.Future[str]",
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        words = (await reader.readline()).decode("latin-1").split()
        if len(words) > 1 and urlsplit(words[1]).path == "/callback" and not back.done():
            back.set_result(words[1])
        writer.write(_PAGE)
        await writer.drain()
        writer.close()

    return answer


def _read(address: str) -> AuthorizationCodeResult:
    """Return what the address says that the browser was sent to."""
    found = {key: values[0] for key, values in parse_qs(urlsplit(address.strip()).query).items()}
    if "code" not in found:
        why = found.get("error_description") or found.get("error") or "the address holds no code"
        raise OAuthFlowError(why)
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
