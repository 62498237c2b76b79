"""Callers of ``process_direct``: who waits for which message, and what a message that was answered before came to."""

import asyncio
from collections.abc import Iterable

from nanobot.agent.closing import content_of
from nanobot.agent.turn import TurnResult
from nanobot.bus.events import SessionKey
from nanobot.errors import MisuseError
from nanobot.session.log import SessionLog
from nanobot.session.manager import Session
from nanobot.session.rows import Recorded

_SEARCHED_ENTRIES = 5_000  # how far back a repeated call looks for its recorded result


class Waiting:
    """Who waits for one message: so many callers, for one result."""

    def __init__(self, key: SessionKey, message_id: str) -> None:
        self.key = key
        self.message_id = message_id
        self.callers = 0
        self.result: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()

    def settle(self, result: TurnResult) -> None:
        """Give them the result, unless they have one."""
        if not self.result.done():
            self.result.set_result(result)


class Callers:
    """All who wait, over all sessions."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[SessionKey, str], Waiting] = {}

    def join(self, key: SessionKey, message_id: str) -> Waiting:
        """Wait for a message, with whoever does already; count down ``callers`` and ``forget`` afterwards."""
        waiting = self._waiting.setdefault((key, message_id), Waiting(key, message_id))
        waiting.callers += 1
        return waiting

    def forget(self, waiting: Waiting) -> None:
        """Drop it, if no caller is left."""
        place = (waiting.key, waiting.message_id)
        if not waiting.callers and self._waiting.get(place) is waiting:
            del self._waiting[place]

    def wait_for(self, key: SessionKey, message_id: str) -> bool:
        """Say whether anybody waits for this message."""
        return (key, message_id) in self._waiting

    def settle(self, result: TurnResult, message_ids: Iterable[str]) -> None:
        """Give those who wait for these messages of the result's session the result."""
        for message_id in message_ids:
            if (waiting := self._waiting.get((result.session_key, message_id))) is not None:
                waiting.settle(result)

    def of(self, key: SessionKey | None = None) -> list[Waiting]:
        """Return all who wait, in one session or in any."""
        return [waiting for waiting in self._waiting.values() if key in (None, waiting.key)]


async def recorded_result(session: Session, message_id: str) -> TurnResult | None:
    """Return the result of a direct message that was answered before; None if it is still being worked on.

    Raises:
        MisuseError: it was answered so long ago that its result is out of reach.
    """
    open_ids = session.log.open.inbound if session.log.open else []
    if message_id in session.log.pending or message_id in open_ids:
        return None
    found = session.log.recorded.get(message_id)
    if found is None:
        older = SessionLog(session.key)
        older.extend(reversed(await session.read(limit=_SEARCHED_ENTRIES)))
        found = older.recorded.get(message_id)
    if found is None:
        raise MisuseError(f"message {message_id!r} was answered before, but its result is no longer at hand")
    return _result(session.key, found)


def _result(key: SessionKey, recorded: Recorded) -> TurnResult:
    finished = recorded.finished
    return TurnResult(
        content=content_of(recorded.content, stop_reason=finished.stop_reason, error=finished.error),
        stop_reason=finished.stop_reason,
        usage=finished.usage,
        tools_used=recorded.tools_used,
        iterations=finished.iterations,
        error=finished.error,
        session_key=key,
        files=recorded.files,
    )
