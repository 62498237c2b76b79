"""A child process from outside: how long it takes, its CPU and its peak memory, as the operating system counts them."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent

# A process begins with the memory of the one that started it, and the system counts that: so a small one starts what is measured.
_LAUNCHER = """\
import os, sys, time
null = os.open(os.devnull, os.O_RDWR)
files = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=files)
_, status, used = os.wait4(pid, 0)
wall = (time.perf_counter() - began) * 1000
print(os.waitstatus_to_exitcode(status), wall, (used.ru_utime + used.ru_stime) * 1000, used.ru_maxrss / 1024)
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run to its end."""

    wall_ms: float
    cpu_ms: float
    peak_mb: float


def ran(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path = _ROOT) -> Ran:
    """Run the command to its end and return what it took.

    Raises:
        RuntimeError: it failed.
    """
    launcher = [sys.executable, "-S", "-E", "-c", _LAUNCHER, *command]
    done = subprocess.run(launcher, check=True, capture_output=True, text=True, env=env, cwd=cwd)
    code, wall, cpu, peak = map(float, done.stdout.split())
    if code:
        raise RuntimeError(f"{' '.join(command)} ended with {code:g}")
    return Ran(wall, cpu, peak)


def memory_mb(pid: int) -> float:
    """Return a living process's resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def cpu_ms(pid: int) -> float:
    """Return the CPU that a living process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def switches(pid: int) -> int:
    """Return how often all threads of a living process gave up the processor of their own will: its wake-ups."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        found += next(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
    return found
