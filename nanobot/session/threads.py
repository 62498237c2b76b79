"""Threads for blocking work.

Not the event loop's own pool: that one is shared with everybody, and its threads are waited for when the interpreter ends, so one
call that hangs in a dead disk would hang the shutdown.  These are daemons, started when needed.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Job = Callable[[], None]


class Crew:
    """Up to ``size`` threads that take jobs in order.

    With ``alone_s``, a job has that long to itself before the next one runs beside it: many short ones at once fight for the
    interpreter at each system call, and take several times as long as one after the other.
    """

    def __init__(self, name: str, size: int, *, alone_s: float = 0.0) -> None:
        self._name = name
        self._size = size
        self._alone_s = alone_s
        self._turn = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._started = 0
        self._unfinished = 0

    def submit(self, job: Job) -> None:
        """Queue a job, which must not raise."""
        with self._guard:
            self._unfinished += 1
            if self._unfinished > self._started and self._started < self._size:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._jobs.put(job)

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run ``function`` in a thread; the future is the running loop's.  Cancelling it does not stop the function."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - handed to whoever awaits the call
                raised = error
                tell(loop, lambda: None if future.done() else future.set_exception(raised))
            else:
                tell(loop, lambda: None if future.done() else future.set_result(result))

        self.submit(job)
        return future

    def stop(self) -> None:
        """Let the threads end after the jobs that are queued.  Does not wait."""
        with self._guard:
            for _ in range(self._started):
                self._jobs.put(None)
            self._started = self._size  # nothing starts any more

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._run(job)
            with self._guard:
                self._unfinished -= 1

    def _run(self, job: Job) -> None:
        if not self._alone_s:
            job()
            return
        turn = self._turn
        if not turn.acquire(timeout=self._alone_s):  # who has it may have it for long, or for ever
            self._turn = turn = threading.Lock()
            turn.acquire()
        job()
        turn.release()


def tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Run ``callback`` in the loop, from any thread; a loop that is closed hears nothing more."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:  # closed: nobody waits there any more
        return
