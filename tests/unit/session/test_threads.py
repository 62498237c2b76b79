"""A crew of threads: short jobs one after the other, and none held up by one that hangs."""

import asyncio
import threading
import time

from nanobot.session.threads import Crew


async def test_short_jobs_have_their_turn_alone() -> None:
    """Jobs that come together run one after the other, in several threads or not."""
    crew, running, most = Crew("test", 8, alone_s=5.0), 0, 0

    def job() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.001)  # gives the others the chance
        running -= 1

    await asyncio.gather(*(crew.call(job) for _ in range(20)))
    crew.stop()

    assert most == 1


async def test_a_job_that_hangs_holds_up_the_next_ones_for_a_moment_and_later_ones_not_at_all() -> None:
    """Whoever waited long enough goes on without it."""
    crew, end = Crew("test", 8, alone_s=0.05), threading.Event()
    hanging = crew.call(lambda: end.wait(30))
    try:
        first = await asyncio.wait_for(asyncio.gather(*(crew.call(lambda: 1) for _ in range(4))), 5)
        begin = time.monotonic()
        for _ in range(20):
            await crew.call(lambda: 1)
        took = time.monotonic() - begin
    finally:
        end.set()
        await hanging
        crew.stop()

    assert first == [1] * 4
    assert took < 20 * 0.05 / 2


async def test_slow_jobs_run_beside_each_other() -> None:
    """A disk that takes long is waited for by all at once."""
    crew, barrier = Crew("test", 4, alone_s=0.01), threading.Barrier(4)

    await asyncio.wait_for(asyncio.gather(*(crew.call(lambda: barrier.wait(10)) for _ in range(4))), 10)
    crew.stop()
