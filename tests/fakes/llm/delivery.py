"""Send an answer over a connection, with every way of doing it badly that a ``Reply`` can ask for."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.fakes.llm.events import Event
from tests.fakes.llm.http import Connection
from tests.fakes.llm.script import Reply


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes out: a body, or events with the bytes that keep their stream alive."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    events: Sequence[Event] | None = None
    keepalive: bytes = b""


@dataclass(slots=True)
class Delivery:
    """One answer on its way.  ``run`` returns when it is sent, cut or, after a hang, cancelled by the client's leaving."""

    connection: Connection
    reply: Reply
    answer: Answer
    has_head: bool = False

    async def run(self) -> None:
        """Send the answer as the reply says."""
        reply = self.reply
        if reply.keepalive_every_s and self.answer.events is not None:
            self._head()
        if reply.gate:
            await self._pause(reply.gate, None)
        if reply.hang == "accept":
            await self._pause(None, None)
        if self.answer.events is None:
            await self._body()
        else:
            await self._stream(self.answer.events)

    async def _body(self) -> None:
        reply, body = self.reply, self.answer.body
        if reply.hang is None and reply.break_after is None and reply.chop is None:
            self.connection.send_whole(self.answer.status, self.answer.headers, body)
            return
        self.connection.send_head(self.answer.status, self.answer.headers, length=len(body))
        if reply.hang == "headers":
            await self._pause(None, None)
        half = reply.hang == "after_delta" or reply.break_after is not None
        await self._send(body[: len(body) // 2] if half else body)
        await self._stop_here(hangs=reply.hang == "after_delta")

    async def _stream(self, events: Sequence[Event]) -> None:
        reply = self.reply
        self._head()
        if reply.hang == "headers":
            await self._pause(None, None)
        await self._events(events if reply.break_after is None else events[: reply.break_after])
        await self._stop_here(hangs=reply.hang == "after_delta")
        if reply.break_after is None:
            self.connection.end()

    async def _stop_here(self, *, hangs: bool) -> None:
        if hangs:
            await self._pause(None, None)
        if self.reply.break_after is not None:
            self.connection.cut()

    async def _events(self, events: Sequence[Event]) -> None:
        delay_s = self.reply.delay_s
        if delay_s is None:
            await self._send(b"".join(event.data for event in events))
            return
        for event in events:
            if event.kind == "delta":
                await self._pause(None, delay_s)
            await self._send(event.data)

    async def _send(self, data: bytes) -> None:
        size = self.reply.chop
        if size is None:
            self.connection.send(data)
            return
        for at in range(0, len(data), size):
            self.connection.send(data[at : at + size])
            await asyncio.sleep(0)

    def _head(self) -> None:
        if not self.has_head:
            self.has_head = True
            self.connection.send_head(self.answer.status, self.answer.headers, length=None)

    async def _pause(self, event: asyncio.Event | None, limit_s: float | None) -> None:
        """Wait for the event (None: none will come) or the time, and keep the stream alive meanwhile."""
        event = event or asyncio.Event()
        every_s = self.reply.keepalive_every_s if self.has_head else None
        loop = asyncio.get_running_loop()
        until = None if limit_s is None else loop.time() + limit_s
        while until is None or loop.time() < until:
            waits = [wait for wait in (every_s, None if until is None else until - loop.time()) if wait is not None]
            try:
                async with asyncio.timeout(min(waits, default=None)):
                    await event.wait()
                    return
            except TimeoutError:
                if every_s:
                    self.connection.send(self.answer.keepalive)
        await asyncio.sleep(0)
