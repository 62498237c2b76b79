"""A small bot with the facade's shape and a script for a core: commands and terminals are tested against it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from nanobot.bus.events import Acceptance, Accepted, InboundMessage, Media, OutboundMessage, SessionKey
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_bus import RuntimeEventBus, RuntimeEventPublisher
from nanobot.bus.runtime_events import TextDelta, TurnEvent, TurnFinished, TurnStarted, Usage

Emit = Callable[[TurnEvent], None]
Script = Callable[[str, Emit], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeResult:
    """A result with the facade's fields."""

    content: str = ""
    stop_reason: str = "completed"
    usage: Usage = field(default_factory=Usage)
    tools_used: tuple[str, ...] = ()
    iterations: int = 1
    error: str | None = None
    session_key: SessionKey = "cli:direct"
    files: tuple[Media, ...] = ()


async def echo(text: str, emit: Emit) -> str:
    """Answer with the text itself, streamed."""
    emit(TextDelta(text))
    return text


class FakeBot:
    """Runs ``script`` for each message; ``accepted``, ``recorded`` and ``stopped`` are what was asked of it."""

    def __init__(self, script: Script = echo, *, error: str | None = None, files: tuple[Media, ...] = ()) -> None:
        self.bus = MessageBus()
        self.events = RuntimeEventBus()
        self.accepted: list[InboundMessage] = []
        self.resumed: list[SessionKey] = []
        self.recorded: list[tuple[str, int, str]] = []
        self.stopped = 0
        self._script = script
        self._error = error
        self._files = files
        self._turns = 0
        self._running: asyncio.Task[str] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bus.close()

    async def process_direct(self, text: str, *, session_key: str = "script:default") -> FakeResult:
        return await self._turn(text, session_key)

    async def stop(self, session_key: str) -> bool:
        self.stopped += 1
        if self._running is None:
            return False
        self._running.cancel()
        return True

    async def accept(self, message: InboundMessage) -> Acceptance:
        self.accepted.append(message)
        self.bus.publish_inbound(message)
        return Accepted()

    async def record(self, out: str, session_key: SessionKey, part: int, state: str, ref: str | None) -> None:
        self.recorded.append((out, part, state))

    async def resume(self, session_key: SessionKey) -> None:
        self.resumed.append(session_key)

    async def run(self) -> None:
        async for message in self.bus.inbound:
            result = await self._turn(message.text, message.session_key)
            text = result.content or result.error or ""
            assert message.route
            self.bus.publish_outbound(
                OutboundMessage(
                    out=f"o{self._turns}",
                    session_key=message.session_key,
                    route=message.route,
                    text=text,
                    parts=((0, len(text)),),
                )
            )

    async def _turn(self, text: str, key: SessionKey) -> FakeResult:
        self._turns += 1
        emit = RuntimeEventPublisher(self.events, turn=f"t{self._turns}", session_key=key).emit
        emit(TurnStarted())
        self._running = asyncio.create_task(_run(self._script, text, emit))
        try:
            content, reason, error = await self._running, "completed", self._error
        except asyncio.CancelledError:
            content, reason, error = "", "user_stop", "Stopped."
        self._running = None
        emit(TurnFinished(reason, content, error))
        return FakeResult(content=content, stop_reason=reason, error=error, session_key=key, files=self._files)


async def _run(script: Script, text: str, emit: Emit) -> str:
    return await script(text, emit)
