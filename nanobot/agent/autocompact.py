"""Idle sessions are compacted once, and not again until something new was said.

One heap and one task for all sessions: a Turn's end sets its session's timer, and only timers that ran out are looked at.  Nothing
scans session files.  A session in which a Turn runs is left alone; its end sets the timer anew.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable
from time import monotonic

from nanobot.agent.compaction import Consolidator
from nanobot.agent.models import Model
from nanobot.bus.events import SessionKey
from nanobot.errors import NanobotError
from nanobot.session.manager import Session, SessionManager

log = logging.getLogger(__name__)


class AutoCompact:
    """A ``Compactor`` that does what the consolidator does, and watches the clock.

    Args:
        consolidator: makes the summaries.
        sessions: opens a session whose time has come.
        ttl_s: how long nothing must have been said.
        clock: seconds, rising.
    """

    def __init__(
        self,
        consolidator: Consolidator,
        *,
        sessions: SessionManager,
        ttl_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._consolidator = consolidator
        self._sessions = sessions
        self._ttl_s = ttl_s
        self._clock = clock
        self._due: dict[SessionKey, tuple[float, Model]] = {}
        self._heap: list[tuple[float, SessionKey]] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- a Compactor -----------------------------------------------------------------------------------------------------------

    async def at_border(self, session: Session) -> None:
        """Swap in a summary that is ready."""
        await self._consolidator.at_border(session)

    def after_turn(self, session: Session, model: Model) -> None:
        """Begin a summary beside the chat, if one is due, and set the session's timer."""
        self._consolidator.after_turn(session, model)
        due = self._clock() + self._ttl_s
        self._due[session.key] = (due, model)
        heapq.heappush(self._heap, (due, session.key))
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="compact idle sessions")

    async def now(self, session: Session, model: Model, rest: str) -> str:
        """Carry out ``/compact``."""
        return await self._consolidator.now(session, model, rest)

    # -- the timers ------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the task; what is idle stays as it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def compact_due(self) -> None:
        """Begin the summaries of all sessions whose time has come."""
        while self._heap and self._heap[0][0] <= self._clock():
            due, key = heapq.heappop(self._heap)
            latest = self._due.get(key)
            if latest is None or latest[0] != due:
                continue  # something was said since
            del self._due[key]
            try:
                async with self._sessions.open(key) as session:
                    await session.restore()
                    self._consolidator.when_idle(session, latest[1])
            except NanobotError as error:
                log.info("idle session %r was not compacted: %s", key, error)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            await self.compact_due()
            wait_s = self._heap[0][0] - self._clock() if self._heap else None
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
