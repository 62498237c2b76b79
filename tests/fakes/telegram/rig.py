"""A Telegram channel on the strict local server, with a core that only takes notes."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nanobot.bus.events import Acceptance, Accepted, Duplicate, InboundMessage, Route
from nanobot.bus.runtime_bus import RuntimeEventBus, RuntimeEventPublisher
from nanobot.bus.runtime_events import Decided, TextDelta, ToolFinished, ToolStarted, TurnFinished, TurnStarted, Waiting
from nanobot.channels.base import OutboundPart
from nanobot.channels.telegram.channel import TelegramChannel
from nanobot.channels.telegram.code import split_with_files
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.errors import SessionError
from tests.fakes.telegram.server import TelegramServer

TOKEN = "42:TEST"


class Turn:
    """One Turn's events, as a core would publish them."""

    def __init__(self, events: RuntimeEventBus, key: str, number: int = 1, *, resumed: bool = False) -> None:
        self.out = f"t{number}.0"
        self.key = key
        self._publisher = RuntimeEventPublisher(events, turn=f"t{number}", session_key=key)
        self._publisher.emit(TurnStarted(resumed=resumed))

    def say(self, text: str) -> None:
        self._publisher.emit(TextDelta(text))

    def tool(self, summary: str, call: str = "c1") -> None:
        self._publisher.emit(ToolStarted(call, "exec", summary))

    def tool_ended(self, call: str = "c1") -> None:
        self._publisher.emit(ToolFinished(call, "exec", False, 1.0, 1))

    def asks(self, question: str, number: int = 5, details: str = "", sender: str = "") -> None:
        self._publisher.emit(Waiting(question, f"e{number}", f"e{number}.0", details=details, sender=sender))

    def decided(self, decision: str, by: str, number: int = 5) -> None:
        self._publisher.emit(Decided(f"e{number}", decision, by))

    def end(self, text: str, *, stop_reason: str = "completed", error: str | None = None) -> None:
        self._publisher.emit(TurnFinished(stop_reason, text, error))


class Rig:
    """``async with Rig(tmp_path) as rig``: a channel that listens, its server, and what it handed in and recorded."""

    def __init__(
        self, path: Path, *, server: TelegramServer | None = None, listens: bool = True, **settings: Any
    ) -> None:
        self.server = server or TelegramServer(TOKEN)
        self._owns_server = server is None
        self._path = path
        self._listens = listens
        self._given = {
            "token": TOKEN,
            "allow_from": [1, 2, -5],
            "edit_interval_s": 0.0,
            "poll_timeout_s": 5,
            **settings,
        }
        self.events = RuntimeEventBus()
        self.accepted: list[InboundMessage] = []
        self.seen: set[str] = set()
        self.recorded: list[tuple[str, int, str, str | None]] = []
        self.decided: list[tuple[str, str, str, str]] = []
        self.moved: list[tuple[str, str]] = []
        self.refusal: SessionError | None = None
        self.wall_jump_s = 0.0
        self.clock_jump_s = 0.0
        self.answer_s = 15.0
        self.rounds: list[str | None] = []
        self.before_accept: Callable[[InboundMessage], None] = lambda message: None
        self.listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._owns_server:
            await self.server.__aenter__()
        for chat in (1, 2):
            self.server.chat(chat)
        settings = TelegramSettings.model_validate({"base_url": self.server.base_url, **self._given})
        self.channel = TelegramChannel(
            "tg",
            settings,
            events=self.events,
            record=self._record,
            decide=self._decide,
            moved=self._moved,
            data_dir=self._path,
            progress=self._progress,
            commands={"help": "what you can type"},
            answer_s=self.answer_s,
            clock=lambda: time.monotonic() + self.clock_jump_s,
            sleep=self._sleep,
            now=lambda: datetime.now(UTC) + timedelta(seconds=self.wall_jump_s),
        )
        if self._listens:
            self.listen()
            await self.until(lambda: bool(self.rounds))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop_listening()
        await self.channel.close()
        if self._owns_server:
            await self.server.__aexit__(kind, error, traceback)

    def listen(self) -> None:
        self.listening = asyncio.create_task(self.channel.listen(self.accept))

    async def stop_listening(self) -> None:
        if self.listening is not None:
            self.listening.cancel()
            await asyncio.wait({self.listening}, timeout=5)
            assert self.listening.done()
            self.listening = None

    async def accept(self, message: InboundMessage) -> Acceptance:
        self.before_accept(message)
        if message.id in self.seen:
            return Duplicate()
        self.seen.add(message.id)
        self.accepted.append(message)
        return Accepted()

    async def until(self, condition: Callable[[], bool], *, within_s: float = 5.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110  # it is the server that changes, and it has no event for everything
                await asyncio.sleep(0.005)

    async def heard(self, count: int) -> list[InboundMessage]:
        """Return the first messages that were handed in, once there are so many."""
        await self.until(lambda: len(self.accepted) >= count)
        return self.accepted

    async def answer(self, text: str, *, chat: str = "1", out: str = "t1.0", **fields: Any) -> list[str | None]:
        """Send an answer's parts as the manager does, without its retries."""
        route = Route("tg", chat, fields.pop("topic", None), fields.pop("reply_to", None))
        key = f"tg:{chat}" + (f":topic:{route.topic}" if route.topic else "")
        parts = split_with_files(text)
        return [
            await self.channel.send(
                OutboundPart(
                    out=out,
                    session_key=key,
                    route=route,
                    index=index,
                    count=len(parts),
                    text=text[start:end],
                    before=text[:start],
                    **fields,
                )
            )
            for index, (start, end) in enumerate(parts)
        ]

    def turn(self, key: str = "tg:1", number: int = 1, *, resumed: bool = False) -> Turn:
        """Begin a Turn."""
        return Turn(self.events, key, number, resumed=resumed)

    async def _record(self, out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        self.recorded.append((out, part, state, ref))

    async def _decide(self, session_key: str, decision: str, *, by: str, role: str, question: str = "") -> str:
        if self.refusal is not None:
            raise self.refusal
        self.decided.append((session_key, question, decision, by))
        return "It may run now."

    async def _moved(self, session_key: str, new: str, /) -> None:
        self.moved.append((session_key, new))

    def _progress(self, error: str | None = None) -> None:
        self.rounds.append(error)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.02))
