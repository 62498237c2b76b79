"""What a connection to a server gives, in our own types: nothing of the SDK gets past ``session``."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from nanobot.bus.events import Media
from nanobot.messages import JsonObject
from nanobot.values import frozen


class Lost(Exception):
    """The connection is gone, or never came about; the text says why.

    ``reached`` says whether a request may have got there: one that surely did not can be sent again.  ``lasting`` says that trying
    again will not help before somebody does something.
    """

    def __init__(self, why: str, *, reached: bool = True, lasting: bool = False) -> None:
        super().__init__(why)
        self.reached = reached
        self.lasting = lasting


class Declined(Exception):
    """The server answered a request with an error of the protocol; the text is the server's."""


@frozen
class RemoteTool:
    """A tool as its server lists it.  ``schema`` is the server's own and not to be trusted."""

    name: str
    description: str
    schema: JsonObject


@frozen(kw_only=True)
class Listing:
    """What a server offers.  ``left_out`` says of tools why they cannot be offered."""

    server: str = ""
    tools: tuple[RemoteTool, ...] = ()
    left_out: Mapping[str, str]
    has_resources: bool = False
    has_prompts: bool = False


@frozen
class Reply:
    """A result for the model: its text, and pictures to see, kept already."""

    text: str
    is_error: bool = False
    images: tuple[Media, ...] = ()


class Connection(Protocol):
    """A running connection.  Everything raises ``Lost`` when it is gone and ``Declined`` when the server says no."""

    async def listing(self) -> Listing:
        """Ask what there is."""
        ...

    async def call(self, tool: str, arguments: JsonObject) -> Reply:
        """Call a tool by the server's own name for it."""
        ...

    async def resources(self) -> str:
        """List resources and templates, for reading."""
        ...

    async def read_resource(self, uri: str) -> Reply:
        """Read a resource."""
        ...

    async def prompts(self) -> str:
        """List prompts, for reading."""
        ...

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Reply:
        """Have a prompt filled in."""
        ...

    async def ping(self) -> None:
        """Return when the server has answered anything at all."""
        ...

    async def changed(self) -> None:
        """Wait until the server says that its tools are others now."""
        ...

    async def ended(self) -> None:
        """Wait until the other side is seen to be gone.  Some ends are seen only by the next request."""
        ...


Body: TypeAlias = Callable[[Connection], Awaitable[None]]
Serve: TypeAlias = Callable[[Body], Awaitable[None]]
"""Connects, runs the body, and leaves nothing behind; raises ``Lost`` when the connection fails or breaks."""
