"""What model calls cost, where that is known: the vendors' own models, priced by the optional package ``genai-prices``.

Its prices are data inside it; nothing is fetched.  Servers of one's own, and models it does not know, have no price.
"""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from nanobot.bus.runtime_events import Usage
from nanobot.providers.settings import AnthropicSettings, OpenAISettings, ProviderSettings


class Prices:
    """Prices calls of the configured providers.  Nothing has a price before ``load``, or without the package."""

    def __init__(self, providers: Mapping[str, ProviderSettings]) -> None:
        self._vendors = {
            name: one.type
            for name, one in providers.items()
            if isinstance(one, AnthropicSettings | OpenAISettings) and one.base_url is None
        }
        self._calculate: Callable[[str, str, Usage], float | None] | None = None

    async def load(self) -> None:
        """Load the package, if it is installed and anything can have a price.  It takes half a second, in a thread."""
        if self._vendors:
            self._calculate = await asyncio.to_thread(_load)

    def usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """Return what a call cost, in US dollars, or None."""
        vendor = self._vendors.get(provider)
        return self._calculate(vendor, model, usage) if vendor is not None and self._calculate is not None else None


def _load() -> Callable[[str, str, Usage], float | None] | None:
    try:
        package: Any = importlib.import_module("genai_prices")  # Any: it may not be there
    except ImportError:
        return None

    def calculate(vendor: str, model: str, usage: Usage) -> float | None:
        counted = package.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
        )
        try:
            return float(package.calc_price(counted, model_ref=model, provider_id=vendor).total_price)
        except (LookupError, ValueError):  # an unknown model, or counts that do not add up
            return None

    calculate("anthropic", "warm-up", Usage())  # its first call reads the data
    return calculate
