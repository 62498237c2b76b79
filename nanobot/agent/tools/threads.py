"""Work in a thread that has an end, also when nobody waits for it any more."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_END_S = 10.0  # a disk that takes longer is not waited for

P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a thread; when cancelled, wait for it, so that nothing changes once the cancellation is out."""
    running = asyncio.create_task(asyncio.to_thread(work, *args, **kwargs), name="work to its end")
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait([running], timeout=_END_S)
