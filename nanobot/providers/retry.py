"""Try a failed model call again, when its error says that this may help.

``Retrying`` is a provider around a provider.  It decides by the error's type alone (``retryable``), waits as the server asks or
ever longer, tells ``emit`` each time, and takes back what was shown of a failed answer (``TextReset``) before it asks again.
"""

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable

from nanobot.bus import runtime_events
from nanobot.bus.runtime_events import ModelEvent, ReasoningDelta, TextDelta, TextReset
from nanobot.errors import ProviderError, StreamStalled
from nanobot.providers.around import Around
from nanobot.providers.base import Emit, LLMProvider, LLMRequest, LLMResponse
from nanobot.providers.settings import RetrySettings

STALL_ATTEMPTS = 2  # a stall has already cost its whole limit: more than one repeat would try anybody's patience


def retry_delay(attempt: int, *, base_s: float, cap_s: float, retry_after_s: float | None = None) -> float | None:
    """Return how long to wait after ``attempt`` failed tries, or None to give up.

    The server's own word wins; if it is longer than ``cap_s``, waiting is not worth it.  Without one the wait doubles from
    ``base_s``. Pure: the caller adds jitter and sleeps.

    Args:
        attempt: failed tries so far, at least 1.
        base_s: first wait, in seconds.
        cap_s: longest wait, in seconds.
        retry_after_s: what the server asked for, if it did.

    Raises:
        ValueError: ``attempt`` is below 1.
    """
    if attempt < 1:
        raise ValueError("attempt counts from 1")
    if retry_after_s is not None:
        return retry_after_s if retry_after_s <= cap_s else None
    return min(cap_s, base_s * 2 ** min(attempt - 1, 32))


class Shown:
    """An ``emit`` that remembers whether anything of the current answer was shown."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.anything = False

    def __call__(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            self.anything = True
        elif isinstance(event, TextReset):
            self.anything = False
        self._emit(event)

    def take_back(self) -> None:
        """Void what was shown, if anything was."""
        if self.anything:
            self(TextReset())


class Retrying(Around):
    """An ``LLMProvider`` that asks ``provider`` up to ``policy.attempts`` times.

    Args:
        provider: who is asked.
        policy: how often, how patiently.
        sleep: waits that many seconds.
        jitter: returns a number from 0 to 1.
    """

    def __init__(
        self,
        provider: LLMProvider,
        policy: RetrySettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(provider)
        self._policy = policy
        self._sleep = sleep
        self._jitter = jitter

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        shown = Shown(emit)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._provider.stream(request, shown)
            except ProviderError as error:
                delay_s = self._delay(error, attempt)
                emit(runtime_events.Retrying(why=str(error), attempt=attempt, delay_s=delay_s))
            await self._sleep(delay_s)
            shown.take_back()

    def _delay(self, error: ProviderError, attempt: int) -> float:
        """Return the wait before the next try; raise ``error`` if there is none."""
        policy = self._policy
        allowed = min(policy.attempts, STALL_ATTEMPTS) if isinstance(error, StreamStalled) else policy.attempts
        if not error.retryable or attempt >= allowed:
            raise error
        asked: float | None = getattr(error, "retry_after_s", None)
        delay_s = retry_delay(attempt, base_s=policy.base_s, cap_s=policy.cap_s, retry_after_s=asked)
        if delay_s is None:
            raise restated(
                error, f"{error} It asks to wait {asked:.0f} s, and we wait {policy.cap_s:g} s at most."
            ) from error
        if asked is not None:
            return delay_s * (1 + 0.1 * self._jitter())  # never earlier than asked
        return delay_s * (0.5 + 0.5 * self._jitter())


def restated(error: ProviderError, text: str) -> ProviderError:
    """Return the same error with another sentence."""
    new = copy.copy(error)
    new.args = (text,)
    return new
