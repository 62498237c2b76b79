"""The message bus: hands accepted messages from channels to the agent loop, and owed answers from it to the outboxes.

Both directions carry objects that are already durable, so publishing never waits: a full queue drops the object, not the message.
The reader learns of it (``overflowed`` grows) and reads the pending lists of the logs instead.

``asyncio.Queue`` cannot be closed before Python 3.13; without a close, readers poll with a timeout and shutdown is a race.  These
mailboxes close once: writers then get ``False``, readers get what is left and stop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from nanobot.bus.events import InboundMessage, OutboundMessage

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A bounded queue with an end, for one event loop.

    Args:
        maxsize: how many objects may wait; one more is dropped and counted in ``overflowed``.
    """

    def __init__(self, maxsize: int) -> None:
        self._items: deque[T] = deque()
        self._maxsize = maxsize
        self._wake = asyncio.Event()
        self._closed = False
        self.overflowed = 0

    @property
    def waiting(self) -> tuple[T, ...]:
        """What nobody has taken yet, oldest first."""
        return tuple(self._items)

    def put(self, item: T) -> bool:
        """Add an item without waiting; False if the mailbox is full or closed."""
        if self._closed:
            return False
        if len(self._items) >= self._maxsize:
            self.overflowed += 1
            return False
        self._items.append(item)
        self._wake.set()
        return True

    def close(self) -> None:
        """End the mailbox; what waits in it is still read."""
        self._closed = True
        self._wake.set()

    async def __aiter__(self) -> AsyncIterator[T]:
        """Yield items until the mailbox is closed and empty.  One reader at a time."""
        while True:
            while self._items:
                yield self._items.popleft()
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()


class MessageBus:
    """Two mailboxes: ``inbound`` to the agent loop, ``outbound`` to the channel manager."""

    def __init__(self, maxsize: int = 1_000) -> None:
        self.inbound: Mailbox[InboundMessage] = Mailbox(maxsize)
        self.outbound: Mailbox[OutboundMessage] = Mailbox(maxsize)

    def publish_inbound(self, message: InboundMessage) -> bool:
        """Tell the loop of an accepted message; False when the queue is full or closed (the message stays pending on disk)."""
        return self.inbound.put(message)

    def publish_outbound(self, message: OutboundMessage) -> bool:
        """Tell the channels of an owed answer; False when the queue is full or closed (the answer stays owed on disk)."""
        return self.outbound.put(message)

    def close(self) -> None:
        """Close both mailboxes."""
        self.inbound.close()
        self.outbound.close()
