"""What an append gives back: something that may be awaited, now, later, often or never."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable

from nanobot.errors import SessionError
from nanobot.session.entries import Entry
from nanobot.session.threads import tell


class Ticket(Awaitable[None]):
    """One queued line and what became of it.

    A plain object rather than a future: nothing is scheduled for those who never ask, and nobody complains of an error that was
    never looked at.  Every waiter gets its own future, so cancelling one touches nothing.

    Args:
        line: the bytes to append; none for a barrier, which only waits for what came before.
        entry: what the line says.
        sync: whether it is done when synced, or already when written.
        marks: whether the session is marked as unfinished before (True) or no more (False).

    ``hurry`` is called when somebody waits for it: what nobody waits for may be written a little later.
    """

    __slots__ = ("_futures", "_guard", "done", "entry", "error", "fatal", "hurry", "line", "marks", "sync")

    def __init__(
        self,
        line: bytes,
        *,
        guard: threading.Lock,
        entry: Entry | None,
        sync: bool,
        marks: bool | None,
    ) -> None:
        self.line = line
        self.entry = entry
        self.sync = sync
        self.marks = marks
        self.done = False
        self.fatal = False
        self.error: SessionError | None = None
        self.hurry: Callable[[], None] | None = None
        self._futures: list[asyncio.Future[None]] = []
        self._guard = guard

    def __await__(self) -> Generator[object, None, None]:
        with self._guard:
            if self.error is not None:
                raise type(self.error)(str(self.error))
            if self.done:
                return
            future = asyncio.get_running_loop().create_future()
            self._futures.append(future)
        if self.hurry is not None:
            self.hurry()
        yield from future.__await__()

    # -- the rest is the writer's, with the guard held -------------------------------------------------------------------------

    def waiters(self) -> list[asyncio.Future[None]]:
        """Hand over those who wait; they will not be told twice."""
        waiting, self._futures = self._futures, []
        return waiting


def answer(futures: Iterable[asyncio.Future[None]], error: SessionError | None) -> None:
    """Tell those who wait, each in its loop, from any thread."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in futures:
        loops.setdefault(future.get_loop(), []).append(future)
    for loop, mine in loops.items():
        tell(loop, lambda mine=mine: _resolve(mine, error))


def _resolve(futures: list[asyncio.Future[None]], error: SessionError | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(type(error)(str(error)))
