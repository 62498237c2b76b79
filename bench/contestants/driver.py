"""What every contestant shares: a job in, figures out.  Standard library only, as each runs in its own environment.

A contestant is a script that calls ``main(opened)``.  ``opened(job)`` is an async context manager that yields ``turn(key, text)``,
which runs one Turn through the product's documented interface.  The job is the JSON object in ``argv[1]``; the figures are a JSON
object on the last line of stdout.  CPU and memory are the whole process's, as the operating system counts them.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

_SETTLES = 3
_PATIENCE = 300  # looks

Turn = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True)
class Job:
    """What to run.

    Args:
        url: the model server's, without ``/v1``.
        folder: empty and this run's own.
        text: what each Turn says; it holds the mark that the model server obeys.
        wire: ``openai`` or ``anthropic``, for whoever speaks both.
        warm: Turns before anything is measured.
        turns: Turns a session.
        sessions: sessions at once.
        slots: Turns that may run at once; nanobot's default.
        requests: model requests a Turn.
        fresh: each Turn in a session of its own.
        history: messages that the session holds already.
        window: the model's context window, in tokens.
        bodies: a file with the requests to send again, for a floor; where to write them, for nanobot.
    """

    url: str = ""
    folder: str = ""
    text: str = "What do you make of it?"
    wire: str = "openai"
    warm: int = 3
    turns: int = 20
    requests: int = 1
    sessions: int = 1
    slots: int = 8
    fresh: bool = False
    history: int = 0
    window: int = 200_000
    bodies: str = ""


@dataclass(frozen=True)
class Figures:
    """What it took, a Turn."""

    cpu_ms: float
    wall_ms: float
    turns_a_second: float
    p99_ms: float
    written_bytes: float
    read_bytes: float
    idle_mb: float
    peak_mb: float
    lag_p99_ms: float


def main(opened: Callable[[Job], AbstractAsyncContextManager[Turn]]) -> None:
    """Run the job from the command line and print the figures."""
    job = Job(**json.loads(sys.argv[1]))
    figures = asyncio.run(_run(job, opened))
    print(json.dumps(asdict(figures)))  # noqa: T201  # the protocol


async def _run(job: Job, opened: Callable[[Job], AbstractAsyncContextManager[Turn]]) -> Figures:
    for number in range(10):  # what tools are asked to list
        Path(job.folder, "workspace", f"d{number}").mkdir(parents=True)
    async with opened(job) as turn:
        for index in range(job.warm):
            await turn("warm" if job.fresh or job.sessions > 1 else "s0", f"{job.text} {index}")
        for index in range(
            _SETTLES if job.history else 0
        ):  # what a long history sets off runs beside, and is taken over by a Turn
            await _quiet()
            await turn("s0", f"{job.text} {index}")
        idle_mb, before, lags = _rss_mb(), _Spent(), list[float]()
        watching = asyncio.create_task(_watch(lags)) if job.sessions > 1 else None
        taken = await asyncio.gather(*(_session(job, turn, number) for number in range(job.sessions)))
        if watching is not None:
            watching.cancel()
        return before.figures([one for session in taken for one in session], lags, idle_mb)


async def _quiet() -> None:
    """Wait until the process does nothing by itself any more."""
    for _ in range(_PATIENCE):
        before = _cpu_s()
        await asyncio.sleep(0.3)  # what it uses meanwhile is what tells
        if _cpu_s() - before < 0.01:
            return


async def _session(job: Job, turn: Turn, number: int) -> list[float]:
    taken: list[float] = []
    for index in range(job.warm, job.warm + job.turns):
        began = time.perf_counter()
        await turn(f"f{index}" if job.fresh else f"s{number}", f"{job.text} {index}")
        taken.append((time.perf_counter() - began) * 1000)
    return taken


async def _watch(lags: list[float]) -> None:
    """Note how late a timer of 5 ms rings."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)  # how late it rings is the figure
        lags.append((time.perf_counter() - began) * 1000 - 5)


class _Spent:
    """What the process had spent when this was made."""

    def __init__(self) -> None:
        self._io = _io()
        self._cpu = _cpu_s()
        self._wall = time.perf_counter()

    def figures(self, taken: list[float], lags: list[float], idle_mb: float) -> Figures:
        """Return what was spent since, a Turn."""
        wall, cpu, io, count = time.perf_counter() - self._wall, _cpu_s() - self._cpu, _io(), len(taken)
        return Figures(
            cpu_ms=cpu * 1000 / count,
            wall_ms=sorted(taken)[count // 2],
            turns_a_second=count / wall,
            p99_ms=_p99(taken),
            written_bytes=(io["wchar"] - self._io["wchar"]) / count,
            read_bytes=(io["rchar"] - self._io["rchar"]) / count,
            idle_mb=idle_mb,
            peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            lag_p99_ms=_p99(lags),
        )


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, int(len(values) * 0.99) - 1)] if values else 0.0


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _io() -> dict[str, int]:
    """What went through read and write calls, the network's included."""
    lines = (line.split(":") for line in Path("/proc/self/io").read_text().splitlines())
    return {name: int(value) for name, value in lines}


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def load(path: str) -> list[bytes]:
    """Return the requests of a file, each after its length."""
    data, out, at = Path(path).read_bytes(), list[bytes](), 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "big")
        out.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return out


def save(path: str, bodies: list[bytes]) -> None:
    """Write requests as ``load`` reads them."""
    Path(path).write_bytes(b"".join(len(body).to_bytes(8, "big") + body for body in bodies))
