"""How a server is, how patiently it is started again, and one connection's life as requests see it."""

import asyncio
from typing import Literal

from nanobot.agent.tools.mcp.remote import Connection, Lost
from nanobot.values import frozen


@frozen(kw_only=True)
class Backoff:
    """How patiently a server is started again, in seconds.

    A call may have it tried at once, but never sooner than ``least_s`` after the try before.  One that was up for ``steady_s`` is
    good again.
    """

    least_s: float = 1.0
    base_s: float = 1.0
    cap_s: float = 300.0
    steady_s: float = 30.0

    def delay_s(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row, at least one."""
        return min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, 30))


@frozen(kw_only=True)
class Condition:
    """How a server is, since when, and why; ``next_at`` is when it is tried again."""

    word: Literal["starting", "up", "down"]
    since: float
    why: str = ""
    next_at: float | None = None


class Session:
    """One connection's life, as requests see it; ``over`` holds why it ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.up: asyncio.Future[Connection] = loop.create_future()
        self.broken: asyncio.Future[Lost] = loop.create_future()
        self.over: asyncio.Future[Lost] = loop.create_future()
        self.is_retired = False  # no request may begin with it

    def lose(self, lost: Lost) -> None:
        """Have it ended: somebody found out that it is of no use."""
        if not self.broken.done():
            self.broken.set_result(lost)


def told(condition: Condition, *, now: float) -> str:
    """Say in a few words how a server is."""
    match condition.word:
        case "up":
            return "up"
        case "starting":
            before = f" after it was down: {condition.why}" if condition.why else ""
            return f"starting for {now - condition.since:.0f} s{before}"
        case "down":
            again = f"; tried again in {max(0.0, condition.next_at - now):.0f} s" if condition.next_at else ""
            return f"down: {condition.why}{again}"
