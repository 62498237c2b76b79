"""Who watches running Turns, and how a Turn tells them.

``RuntimeEventBus.subscribe`` gives an observer its own bounded buffer; ``publish`` is synchronous, never blocks and never
raises.  In a full buffer, a delta merges with its neighbour, and other overflow is counted and becomes one ``Lagged`` in its place.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import TypeAlias

from nanobot.bus.events import SessionKey
from nanobot.bus.runtime_events import (
    ChannelStatus,
    Lagged,
    ProviderSwitched,
    ReasoningDelta,
    Retrying,
    RuntimeEvent,
    TextDelta,
    TextReset,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)

log = logging.getLogger(__name__)

Observer: TypeAlias = Callable[[RuntimeEvent], None]


class Subscription:
    """One observer's buffer: iterate it for events; close it (or leave the ``with`` block) to end the iteration.

    Args:
        maxsize: events that may wait before merging and dropping begin.  What a reader must not miss is kept all the same.
        wants: which events to keep; all of them when None.
    """

    def __init__(self, bus: "RuntimeEventBus", maxsize: int, wants: Callable[[RuntimeEvent], bool] | None) -> None:
        self._bus = bus
        self._maxsize = maxsize
        self._wants = wants
        self._items: deque[RuntimeEvent] = deque()
        self._lost = 0
        self._wake = asyncio.Event()
        self._closed = False

    def deliver(self, event: RuntimeEvent) -> None:
        """Take an event in, merging or dropping when the buffer is full."""
        if self._closed or (self._wants is not None and not self._wants(event)):
            return
        if len(self._items) >= self._maxsize and not isinstance(event, TurnFinished | TextReset):
            merged = _merge(self._items[-1], event)
            if merged is None:
                self._lost += 1
                return
            self._items[-1] = merged
        else:
            self._note_loss()
            self._items.append(event)
        self._wake.set()

    def close(self) -> None:
        """Stop taking events; what is in the buffer can still be read."""
        self._closed = True
        self._bus.remove(self)
        self._wake.set()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[RuntimeEvent]:
        while True:
            while self._items:
                yield self._items.popleft()
            self._note_loss()
            if self._items:
                continue
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()

    def _note_loss(self) -> None:
        if self._lost:
            self._items.append(Lagged(self._lost))
            self._lost = 0


def _as_is(text: str) -> str:
    return text


class RuntimeEventBus:
    """Publishes runtime events to in-process observers.

    ``redact`` takes secrets out of what we tell about tools, servers and channels; what people and models say is left as it is.
    """

    def __init__(self, redact: Callable[[str], str] = _as_is) -> None:
        self._redact = redact
        self._subscriptions: list[Subscription] = []
        self._observers: list[Observer] = []

    def subscribe(self, *, maxsize: int = 1_000, wants: Callable[[RuntimeEvent], bool] | None = None) -> Subscription:
        """Return a buffer that fills from now on."""
        subscription = Subscription(self, maxsize, wants)
        self._subscriptions.append(subscription)
        return subscription

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call ``observer`` synchronously for each event (it must be quick); return a function that ends it."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer) if observer in self._observers else None

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription; harmless when it is gone already."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    @property
    def is_watched(self) -> bool:
        """Whether anybody would see an event."""
        return bool(self._subscriptions or self._observers)

    def publish(self, event: RuntimeEvent) -> None:
        """Hand the event to everybody; one observer's failure is logged and touches nobody else."""
        event = self._redacted(event)
        for subscription in tuple(self._subscriptions):
            subscription.deliver(event)
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception:  # an observer is somebody else's code; the Turn must go on
                log.exception("an observer failed on %s", type(event).__name__)

    def _redacted(self, event: RuntimeEvent) -> RuntimeEvent:
        match event:
            case ToolStarted():
                return replace(event, summary=self._redact(event.summary))
            case Retrying() | ProviderSwitched():
                return replace(event, why=self._redact(event.why))
            case ChannelStatus() if event.detail:
                return replace(event, detail=self._redact(event.detail))
            case TurnFinished() if event.error:
                return replace(event, error=self._redact(event.error))
            case _:
                return event


class RuntimeEventPublisher:
    """One Turn's ``emit``: binds events to the turn id and session key before they are published."""

    def __init__(self, bus: RuntimeEventBus, *, turn: str, session_key: SessionKey) -> None:
        self._bus = bus
        self._turn = turn
        self._session_key = session_key

    def emit(self, event: TurnEvent) -> None:
        """Publish the event as this Turn's."""
        if not self._bus.is_watched:
            return
        self._bus.publish(replace(event, turn=self._turn, session_key=self._session_key))


def _merge(last: RuntimeEvent, event: RuntimeEvent) -> RuntimeEvent | None:
    match last, event:
        case (TextDelta(), TextDelta()) | (ReasoningDelta(), ReasoningDelta()) if last.turn == event.turn:
            return replace(last, text=last.text + event.text)
        case _:
            return None
