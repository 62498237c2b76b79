"""A chain of models: when one fails for good, the next one answers.

``Fallback`` is a provider around providers.  It moves on at errors that another model may not have (outage, stall, rate limit, key,
account, a model that is not there any more); a request that is malformed, too long or refused would be so elsewhere too, and is
raised at once.  A model that failed
several times in a row is left out for a while (a circuit breaker), then tried with one request.

Each request answered by another model than the first says so: ``ProviderSwitched`` as it happens, and the response names who
answered.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nanobot.bus.runtime_events import ProviderSwitched
from nanobot.errors import AuthFailed, BadRequest, ContextOverflow, ProviderError, QuotaExhausted, Refused
from nanobot.providers.around import warm
from nanobot.providers.base import Emit, LLMProvider, LLMRequest, LLMResponse, counted_tokens
from nanobot.providers.retry import Shown, restated
from nanobot.values import frozen

OPENS_AFTER = 3
RECOVERS_AFTER_S = 60.0


@dataclass(slots=True)
class Circuit:
    """Whether a model is worth asking; a fold over how its calls ended."""

    failures: int = 0
    opened_at: float | None = None
    probing: bool = False

    def allows(self, now: float, recovers_after_s: float) -> bool:
        """Say whether to ask: it is closed, or it is time for one probe."""
        return self.opened_at is None or (not self.probing and now - self.opened_at >= recovers_after_s)

    def succeeded(self) -> None:
        """Close it."""
        self.failures, self.opened_at = 0, None

    def failed(self, error: ProviderError, now: float, opens_after: int) -> None:
        """Count a failure; open when there were enough, or when trying again soon is pointless."""
        self.failures += 1
        if (
            self.opened_at is not None
            or self.failures >= opens_after
            or isinstance(error, AuthFailed | QuotaExhausted | BadRequest)
        ):
            self.opened_at = now


@frozen
class _Candidate:
    provider: LLMProvider
    model: str
    circuit: Circuit

    @property
    def ref(self) -> str:
        return f"{self.provider.name}/{self.model}"


class Fallback:
    """An ``LLMProvider`` over several (provider, model) pairs, in order of preference.

    The request's own model is not used: the chain says who is asked.

    Args:
        chain: at least one pair.
        opens_after: failures in a row after which a model is left out.
        recovers_after_s: how long it is left out.
        clock: seconds that only rise.

    Raises:
        ValueError: the chain is empty.
    """

    def __init__(
        self,
        chain: Sequence[tuple[LLMProvider, str]],
        *,
        opens_after: int = OPENS_AFTER,
        recovers_after_s: float = RECOVERS_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not chain:
            raise ValueError("a fallback chain needs at least one model")
        self._chain = [_Candidate(provider, model, Circuit()) for provider, model in chain]
        self._opens_after = opens_after
        self._recovers_after_s = recovers_after_s
        self._clock = clock

    @property
    def name(self) -> str:
        return self._chain[0].provider.name

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        shown = Shown(emit)
        failed: list[tuple[_Candidate, ProviderError]] = []
        before = self._chain[0]
        for candidate in self._worth_asking():
            if candidate is not before:
                why = str(failed[-1][1]) if failed else f"{before.ref} failed repeatedly and is left out for now."
                emit(ProviderSwitched(from_model=before.ref, to_model=candidate.ref, why=why))
                shown.take_back()
            try:
                return await self._ask(candidate, request, shown)
            except ProviderError as error:
                if _everywhere(error):
                    raise
                failed.append((candidate, error))
                before = candidate
        raise _summary(failed)

    async def count_tokens(self, request: LLMRequest) -> int | None:
        """As the model counts that would be asked now."""
        candidate = self._worth_asking()[0]
        return await counted_tokens(candidate.provider, replace(request, model=candidate.model))

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        """As the model encodes it that would be asked now."""
        candidate = self._worth_asking()[0]
        return await candidate.provider.encoded(replace(request, model=candidate.model))

    async def warm(self) -> None:
        """Load what the first request would otherwise wait for; the others load when they are needed."""
        await warm(self._chain[0].provider)

    async def close(self) -> None:
        for candidate in self._chain:
            await candidate.provider.close()

    def _worth_asking(self) -> list[_Candidate]:
        now = self._clock()
        allowed = [c for c in self._chain if c.circuit.allows(now, self._recovers_after_s)]
        return allowed or self._chain[:1]  # all left out: better a try than none

    async def _ask(self, candidate: _Candidate, request: LLMRequest, emit: Emit) -> LLMResponse:
        circuit = candidate.circuit
        probe = circuit.opened_at is not None
        circuit.probing = circuit.probing or probe
        try:
            response = await candidate.provider.stream(replace(request, model=candidate.model), emit)
        except ProviderError as error:
            if _everywhere(error):
                circuit.succeeded()  # it works, whatever it thinks of this request
                raise
            circuit.failed(error, self._clock(), self._opens_after)
            raise
        else:
            circuit.succeeded()
            return response
        finally:
            if probe:
                circuit.probing = False


def _everywhere(error: ProviderError) -> bool:
    """Say whether any other model would refuse the request, too."""
    if isinstance(error, BadRequest):
        return not error.is_elsewhere
    return isinstance(error, ContextOverflow | Refused)


def _summary(failed: Sequence[tuple[_Candidate, ProviderError]]) -> ProviderError:
    """Return the preferred model's error, which also tells how the others failed."""
    first = failed[0][1]
    if len(failed) == 1:
        return first
    others = " ".join(f"Then {candidate.ref}: {error}" for candidate, error in failed[1:])
    return restated(first, f"{first} {others}")
