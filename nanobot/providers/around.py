"""A provider around another: what ``Retrying`` and those like it hand on as it is."""

from collections.abc import Awaitable, Callable

from nanobot.providers.base import LLMProvider, LLMRequest, counted_tokens


class Around:
    """All of an ``LLMProvider`` but ``stream``, as the one inside does it."""

    def __init__(self, provider: LLMProvider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name

    async def count_tokens(self, request: LLMRequest) -> int | None:
        return await counted_tokens(self._provider, request)

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        return await self._provider.encoded(request)

    async def warm(self) -> None:
        """Load what the first request would otherwise wait for."""
        await warm(self._provider)

    async def close(self) -> None:
        await self._provider.close()


async def warm(provider: LLMProvider) -> None:
    """Load what ``provider``'s first request would otherwise wait for, if it has such a thing."""
    load: Callable[[], Awaitable[None]] | None = getattr(provider, "warm", None)
    if load is not None:
        await load()
