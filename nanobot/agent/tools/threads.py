"""Where tools do their blocking work."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

_END_S = 10.0  # a disk that takes longer is not waited for

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs work in a thread, as ``asyncio.to_thread`` does."""

    async def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what it returned."""
        ...


async def to_its_end(in_thread: InThread, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread that has an end, also when nobody waits for it any more.

    When cancelled, wait for it, so that nothing changes once the cancellation is out.
    """
    running = asyncio.create_task(in_thread(work, *args, **kwargs), name="work to its end")
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait([running], timeout=_END_S)
