"""The terminal as a channel: a person's lines become inbound messages, runtime events and owed answers become what they see.

It knows the bus and its ports only.  How lines are read and text is drawn is a ``Terminal``'s business.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Protocol
from uuid import uuid4

from nanobot.bus.events import Duplicate, InboundMessage, Route, SessionKey, Unkept
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import RuntimeEvent, TurnFinished
from nanobot.channels.base import Accept, Capabilities, OutboundPart
from nanobot.channels.media import in_words
from nanobot.channels.terminal.view import Live, Segment, View
from nanobot.errors import SessionError

FRAME_S = 1 / 12
TICK_S = 0.5  # how often elapsed times move


class Terminal(Protocol):
    """A way to talk to one person."""

    async def read(self) -> str | None:
        """Return what the person enters next, or None when they leave."""
        ...

    async def show(self, segments: Iterable[Segment]) -> None:
        """Print what stays."""
        ...

    def refresh(self) -> None:
        """Draw what moves anew."""
        ...


def route_of(session_key: SessionKey) -> Route:
    """Return where answers to a session go when it is talked to from the terminal."""
    return Route("cli", session_key.removeprefix("cli:"))


class TerminalChannel:
    """One person talking to one session.  ``attach`` a terminal before ``listen``.

    Args:
        session_key: the session.
        events: where the Turn is watched.
        stop: stops the session's running Turn; false if there was none.
        one_by_one: wait for each answer before the next line is read, for input that is no person.
        clock: seconds, for elapsed times.
        now: the time of a message, with its zone.
    """

    name = "cli"
    capabilities = Capabilities(media=True)

    def __init__(
        self,
        *,
        session_key: SessionKey,
        events: RuntimeEventBus,
        stop: Callable[[SessionKey], Awaitable[bool]],
        one_by_one: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._key = session_key
        self._route = route_of(session_key)
        self._events = events
        self._stop = stop
        self._one_by_one = one_by_one
        self._clock = clock
        self._now = now
        self._view = View()
        self._live = Live()
        self._pending: list[Segment] = []
        self._parts: list[str] = []
        self._wake = asyncio.Event()
        self._stop_wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._printing = asyncio.Lock()
        self._terminal: Terminal | None = None

    def attach(self, terminal: Terminal) -> None:
        """Say who is talked to."""
        self._terminal = terminal

    @property
    def is_busy(self) -> bool:
        """Whether a Turn is running."""
        return self._view.draft.is_running

    def live(self) -> Live:
        """Return what was moving when last something was printed: never more than what stands above it leads to."""
        return self._live

    def interrupt(self) -> str | None:
        """Do what Ctrl-C means: stop the running Turn; without one, return a hint."""
        if self.is_busy:
            self._stop_wanted.set()
            return None
        return "(nothing is running; Ctrl-D leaves)"

    async def listen(self, accept: Accept) -> None:
        """Read and hand in lines until the person leaves."""
        end = self._events.observe(self._on_event)
        try:
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(self._paint(), name="terminal painter"),
                    group.create_task(self._tick(), name="terminal clock"),
                    group.create_task(self._stop_when_wanted(), name="terminal stopper"),
                ]
                await self._converse(accept)
                for helper in helpers:
                    helper.cancel()
            await self._print()
        finally:
            end()

    async def send(self, part: OutboundPart) -> str | None:
        """Show an answer, unless it was streamed already; of a file, where it lies."""
        if part.media is not None:
            repeat = "(may be a repeat)\n\n" if part.may_be_repeat else ""
            await self._say(Segment("markdown", repeat + in_words(part.media, part.text)))
            return None
        if part.index == 0:
            self._parts.clear()
        self._parts.append(part.text)
        if part.index + 1 < part.count:
            return None
        if part.may_be_repeat:
            self._pending.append(Segment("notice", "(may be a repeat)"))
        self._pending += self._view.answer("".join(self._parts))
        await self._print()
        self._settled.set()
        return None

    async def _converse(self, accept: Accept) -> None:
        terminal = self._here
        while (text := await terminal.read()) is not None:
            if not text.strip():
                continue
            self._settled.clear()
            if await self._hand_in(accept, text) and self._one_by_one:
                await self._settled.wait()

    async def _hand_in(self, accept: Accept, text: str) -> bool:
        """Give a message to the core; false when it was not taken."""
        message = InboundMessage(
            id=f"cli:{self._route.chat}:{uuid4().hex}",
            session_key=self._key,
            sender="terminal",
            text=text,
            at=self._now(),
            route=self._route,
        )
        try:
            accepted = await accept(message)
        except SessionError as error:
            await self._say(Segment("error", str(error)))
            return False
        if isinstance(accepted, Unkept):
            await self._say(Segment("notice", f"(this message is not on disk: {accepted.why})"))
        return not isinstance(accepted, Duplicate)

    def _on_event(self, event: RuntimeEvent) -> None:
        if getattr(event, "session_key", None) != self._key:
            return
        self._pending += self._view.take(event, at=self._clock())
        self._wake.set()
        if isinstance(event, TurnFinished):
            self._stop_wanted.clear()
            self._settled.set()

    async def _paint(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._print()
            self._here.refresh()
            await asyncio.sleep(FRAME_S)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self.is_busy:
                await self._print()
                self._here.refresh()

    async def _stop_when_wanted(self) -> None:
        while True:
            await self._stop_wanted.wait()
            self._stop_wanted.clear()
            with suppress(SessionError):
                await self._stop(self._key)

    async def _say(self, segment: Segment) -> None:
        self._pending.append(segment)
        await self._print()

    async def _print(self) -> None:
        async with self._printing:
            segments, self._pending = self._pending, []
            self._live = self._view.live(at=self._clock())
            if segments:
                await self._here.show(segments)

    @property
    def _here(self) -> Terminal:
        assert self._terminal is not None, "attach a terminal first"
        return self._terminal
