"""A connection without a server, for what goes on around one."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nanobot.agent.tools.mcp.remote import Body, Listing, Lost, RemoteTool, Reply
from nanobot.messages import JsonObject

SCHEMA: JsonObject = {"type": "object", "properties": {}}


def listing(*names: str) -> Listing:
    """Return a list of tools of these names."""
    return Listing(
        server="fake 1", tools=tuple(RemoteTool(name, f"Does {name}.", SCHEMA) for name in names), left_out={}
    )


@dataclass
class FakeServer:
    """Serves connections one after the other.  ``answer`` answers calls; ``refuse`` makes the next connections fail."""

    offers: Listing = field(default_factory=lambda: listing("one"))
    refuse: list[Exception] = field(default_factory=list[Exception])
    answer: Callable[[str, JsonObject], Reply] = lambda tool, arguments: Reply(f"{tool} ran")
    hangs: bool = False
    starts: int = 0
    calls: list[str] = field(default_factory=list[str])
    running: "FakeConnection | None" = None

    async def serve(self, body: Body) -> None:
        """Be a ``remote.Serve``."""
        self.starts += 1
        if self.refuse:
            raise self.refuse.pop(0)
        if self.hangs:
            await asyncio.Event().wait()
        connection = self.running = FakeConnection(self)
        await body(connection)
        if connection.broke is not None:
            raise connection.broke


class FakeConnection:
    """One of them."""

    def __init__(self, server: FakeServer) -> None:
        self.broke: Lost | None = None
        self.deaf = False
        self._server = server
        self._changed = asyncio.Event()
        self._over = asyncio.Event()

    def breaks(self, why: str = "it ended", *, reached: bool = True) -> None:
        """Break, as seen by the transport."""
        self.broke = Lost(why, reached=reached)
        self._over.set()

    def changes(self, offers: Listing) -> None:
        """Offer something else from now on, and say so."""
        self._server.offers = offers
        self._changed.set()

    async def listing(self) -> Listing:
        return self._server.offers

    async def call(self, tool: str, arguments: JsonObject) -> Reply:
        self._server.calls.append(tool)
        if self.deaf:
            await asyncio.Event().wait()
        return self._server.answer(tool, arguments)

    async def resources(self) -> str:
        return "memo:///one"

    async def read_resource(self, uri: str) -> Reply:
        return Reply(f"This is {uri}.")

    async def prompts(self) -> str:
        return "greet(who)"

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Reply:
        return Reply(f"user: {name} {dict(arguments)}")

    async def ping(self) -> None:
        if self.deaf:
            raise Lost("no answer")

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def ended(self) -> None:
        await self._over.wait()
