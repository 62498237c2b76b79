"""A provider around a provider that tells how long calls take and how they fail."""

import time
from collections.abc import Callable

from nanobot.bus.runtime_events import ModelEvent, ReasoningDelta, TextDelta, Usage
from nanobot.errors import ProviderError
from nanobot.gateway.metrics import Metrics
from nanobot.gateway.prices import Prices
from nanobot.providers.around import Around
from nanobot.providers.base import Emit, LLMProvider, LLMRequest, LLMResponse


class Measured(Around):
    """An ``LLMProvider`` that behaves as the one inside."""

    def __init__(
        self,
        provider: LLMProvider,
        metrics: Metrics,
        *,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(provider)
        self._prices = prices
        self._metrics = metrics
        self._clock = clock

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        began = self._clock()
        first: list[float] = []

        def timed(event: ModelEvent) -> None:
            if not first and isinstance(event, TextDelta | ReasoningDelta):
                first.append(self._clock() - began)
            emit(event)

        try:
            response = await self._provider.stream(request, timed)
        except ProviderError as error:
            name = error.provider or self.name
            self._metrics.count("nanobot_model_errors_total", provider=name, error=type(error).__name__)
            raise
        provider = response.provider or self.name
        self._metrics.time("nanobot_model_seconds", self._clock() - began, provider=provider)
        if first:
            self._metrics.time("nanobot_model_first_seconds", first[0], provider=provider)
        self._price(provider, response.model or request.model, response.usage)
        return response

    def _price(self, provider: str, model: str, usage: Usage | None) -> None:
        usd = self._prices.usd(provider, model, usage) if self._prices is not None and usage is not None else None
        if usd is not None:
            self._metrics.count("nanobot_cost_usd_total", usd, provider=provider)
