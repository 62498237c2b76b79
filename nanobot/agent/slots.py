"""The slot of a Turn: its right to run beside others, which it lends out while it waits for a person."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Slot:
    """One Turn's slot of ``slots``.  Giving back what is not held is harmless; None for a Turn that uses its parent's."""

    def __init__(self, slots: asyncio.Semaphore | None) -> None:
        self._slots = slots
        self._held = False
        self._waits = 0

    async def take(self) -> None:
        """Wait for the slot."""
        if self._slots is not None and not self._held:
            await self._slots.acquire()
            self._held = True

    def give_back(self) -> None:
        """Let somebody else have it."""
        if self._slots is not None and self._held:
            self._held = False
            self._slots.release()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Do without the slot for the block, and take it again afterwards.

        Of several blocks at once the first gives it back and the last takes it again.  A Turn that is stopped meanwhile does not
        wait for it.
        """
        self._waits += 1
        if self._waits == 1:
            self.give_back()
        try:
            yield
        finally:
            self._waits -= 1
        if self._waits == 0:
            await self.take()
