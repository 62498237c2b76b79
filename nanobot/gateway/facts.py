"""Look at a running gateway and write down what is seen: the only place where health's facts come from."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from nanobot.app import Nanobot
from nanobot.channels.supervisor import ChannelBoard
from nanobot.gateway.health import Facts
from nanobot.gateway.ledger import Ledger

LAG_WINDOW_S = 60.0


class LoopLag:
    """How late the event loop was in the last minute."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, float]] = deque()
        self._since = clock()

    def note(self, lag_s: float) -> None:
        """Take in by how much a timer was late."""
        now = self._clock()
        self._seen.append((now, max(0.0, lag_s)))
        while self._seen and self._seen[0][0] < now - LAG_WINDOW_S:
            self._seen.popleft()

    @property
    def worst_s(self) -> float:
        """The longest hold-up of the last minute."""
        return max((lag_s for _, lag_s in self._seen), default=0.0)

    @property
    def share(self) -> float:
        """Which part of the last minute the loop was held up."""
        held_up_s = sum(lag_s for _, lag_s in self._seen)
        return min(1.0, held_up_s / LAG_WINDOW_S)


class Observer:
    """Collects facts from the parts of a gateway."""

    def __init__(
        self,
        bot: Nanobot,
        *,
        board: ChannelBoard,
        ledger: Ledger,
        lag: LoopLag,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bot = bot
        self._board = board
        self._ledger = ledger
        self._lag = lag
        self._clock = clock

    def facts(self) -> Facts:
        """Return what is true now."""
        sessions = self._bot.sessions.in_memory
        pending = [message for session in sessions for message in session.log.pending.values()]
        oldest = min((message.at for message in pending), default=None)
        self._ledger.keep_only(self._still_owed)
        return Facts(
            now=self._clock(),
            lag_s=self._lag.worst_s,
            lag_share=self._lag.share,
            channels=dict(self._board.facts),
            outboxes=self._ledger.facts(),
            pending=len(pending),
            oldest_pending_s=max(0.0, (datetime.now(UTC) - oldest).total_seconds()) if oldest else 0.0,
            running=len(self._bot.loop.running),
            tasks=len(asyncio.all_tasks()),
            refusing=next((why for session in sessions if (why := session.refusing)), None),
        )

    def _still_owed(self, key: str, out: str) -> bool:
        """What was undone is owed no more, and no delivery says so."""
        session = self._bot.sessions.loaded(key)
        return session is None or out in session.log.owed
