"""Where tools do their blocking work.

Not the event loop's own threads: those are few, everybody needs them, and they are waited for when the interpreter ends, so that
one tool that hangs in a dead disk, or in somebody's own function, would hold up all of that.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import ParamSpec, Protocol, TypeVar

from nanobot.session.threads import Crew

_END_S = 10.0  # a disk that takes longer is not waited for
_THREADS = 32
_crew = Crew("tool", _THREADS, alone_s=0.005)

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs work in a thread, as ``in_thread`` does."""

    async def __call__(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what it returned."""
        ...


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread, with our context variables; cancelling the wait does not stop it."""
    run = copy_context().run
    return await _crew.call(lambda: run(work, *args, **kwargs))


async def to_its_end(run: InThread, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run work in a thread that has an end, also when nobody waits for it any more.

    When cancelled, wait for it, so that nothing changes once the cancellation is out.
    """
    running = asyncio.create_task(run(work, *args, **kwargs), name="work to its end")
    try:
        return await asyncio.shield(running)
    finally:
        await asyncio.wait([running], timeout=_END_S)
