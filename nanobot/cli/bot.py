"""What the command line needs of a running nanobot."""

from types import TracebackType
from typing import Protocol, Self

from nanobot.bus.events import Acceptance, InboundMessage, Media, SessionKey
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import Usage


class Result(Protocol):
    """How a Turn ended."""

    @property
    def content(self) -> str: ...
    @property
    def stop_reason(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def tools_used(self) -> tuple[str, ...]: ...
    @property
    def iterations(self) -> int: ...
    @property
    def error(self) -> str | None: ...
    @property
    def session_key(self) -> SessionKey: ...
    @property
    def files(self) -> tuple[Media, ...]: ...


class Bot(Protocol):
    """The part of ``nanobot.app.Nanobot`` that commands use."""

    @property
    def bus(self) -> MessageBus: ...
    @property
    def events(self) -> RuntimeEventBus: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    async def process_direct(self, text: str, *, session_key: str = ...) -> Result:
        """Run one Turn and return how it ended."""
        ...

    async def stop(self, session_key: str) -> bool:
        """Stop the session's running Turn; false if there is none."""
        ...

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Take a message in."""
        ...

    async def record(self, out: str, session_key: SessionKey, part: int, state: str, ref: str | None) -> None:
        """Write down what became of a part of an answer."""
        ...

    async def resume(self, session_key: SessionKey) -> None:
        """Take up what an earlier process left in this session."""
        ...

    async def run(self) -> None:
        """Work on the bus until cancelled."""
        ...
