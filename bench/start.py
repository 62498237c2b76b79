"""Starting: how long ``nanobot --help`` takes, and how much memory an idle bot holds; over a bare Python."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bench.table import Row

_TIMES = 9
_BARE = ("-c", "pass")
_RSS = "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmRSS')))"
_OPEN = """\
import asyncio, sys
from pathlib import Path
from nanobot import Nanobot
from nanobot.config.settings import Settings

async def main():
    folder = Path(sys.argv[1])
    async with Nanobot(Settings(workspace=folder / "workspace", data_dir=folder / "data")) as bot:
        await bot.process_direct("hello")
        {rss}

asyncio.run(main())
"""


async def startup() -> Sequence[Row]:
    """Measure both."""
    bare = _seconds(_BARE)
    with tempfile.TemporaryDirectory() as folder:
        opened = _rss_mb("-c", _OPEN.format(rss=_RSS), folder)
    return [
        Row(
            what="nanobot --help",
            unit="ms",
            value=_seconds(("-m", "nanobot", "--help")) * 1000,
            floor=bare * 1000,
            most=200,
        ),
        Row(
            what="import nanobot.app", unit="ms", value=_seconds(("-c", "import nanobot.app")) * 1000, floor=bare * 1000
        ),
        Row(what="memory of an idle offline bot after a Turn", unit="MB", value=opened, floor=_rss_mb("-c", _RSS)),
        Row(what="  with the anthropic SDK", unit="MB", value=_rss_mb("-c", f"import nanobot.app, anthropic; {_RSS}")),
        Row(what="  with the openai SDK", unit="MB", value=_rss_mb("-c", f"import nanobot.app, openai; {_RSS}")),
    ]


def _seconds(arguments: Sequence[str]) -> float:
    """Return how long this Python takes for the arguments, the quickest of several times."""
    taken: list[float] = []
    for _ in range(_TIMES):
        began = perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=_ROOT)
        taken.append(perf_counter() - began)
    return min(taken)


def _rss_mb(*arguments: str) -> float:
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, cwd=_ROOT)
    return int(done.stdout.split()[-1]) / 1024


_ROOT = Path(__file__).resolve().parent.parent
