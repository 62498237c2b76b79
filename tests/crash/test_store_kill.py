"""A writer killed at any moment: what it was told is on disk is on disk."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings

ROUNDS = 8
KEYS = 5

CHILD = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from nanobot.bus.events import InboundMessage
from nanobot.session.entries import Finished
from nanobot.session.jsonl import JsonlStore
from nanobot.session.settings import SessionSettings

async def chat(store, key, round):
    n = 0
    while True:
        n += 1
        message = InboundMessage(id=f"{round}:{n}", session_key=key, sender="me", text="x" * (n % 9000), at=datetime.now(UTC))
        await store.accept(key, message)
        print(key, message.id, flush=True)
        claim = await store.claim(key, "child")
        for i in range(n % 5):
            store.append(claim, Finished(id=f"e{round}{n:06}{i}"), sync=False)
        await store.append(claim, Finished(id=f"e{round}{n:06}9", inbound=(message.id,)), sync=n % 2 == 0)
        print(key, f"e{round}{n:06}9", flush=True)
        await store.release(claim)

async def main():
    store = JsonlStore(Path(sys.argv[1]), settings=SessionSettings(), owner="child")
    await asyncio.gather(*(chat(store, f"cli:{k}", sys.argv[2]) for k in range(int(sys.argv[3]))))

asyncio.run(main())
"""


def run_and_kill(root: Path, number: int, lives_s: float) -> list[tuple[str, str]]:
    """Let a child write until it is killed; return the (key, id) pairs that it was told are kept."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), str(number), str(KEYS)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child.stdout as told:
        first = told.readline()
        time.sleep(lives_s)
        os.kill(child.pid, signal.SIGKILL)
        rest = told.read()
    child.wait(10)
    assert first, "the child wrote nothing"
    lines = (first + rest).rpartition("\n")[0].splitlines()
    return [(key, entry) for key, _, entry in (line.partition(" ") for line in lines)]


async def test_a11_kill_9_at_random_moments_loses_nothing_reported(tmp_path: Path) -> None:
    """After each of several kills, every id that the writer reported is in the log, once, and the next one writes on."""
    chance = random.Random(11)
    told: list[tuple[str, str]] = []
    for number in range(ROUNDS):
        told += run_and_kill(tmp_path, number, chance.uniform(0.0, 0.15))
        store = JsonlStore(tmp_path, settings=SessionSettings(), owner="parent")
        found = [(key, entry.id) for key in await store.keys() for entry in (await store.claim(key, "parent")).entries]
        await store.close()

        assert len(found) == len(set(found))
        assert set(told) <= set(found)
    assert len(told) > ROUNDS * 10


async def test_c11_a_dead_holder_holds_nothing(tmp_path: Path) -> None:
    """A lock ends with its process, so that a lock file left behind stops nobody."""
    run_and_kill(tmp_path, 0, 0.02)
    store = JsonlStore(tmp_path, settings=SessionSettings(), owner="parent")
    claims = [await store.claim(f"cli:{k}", "parent") for k in range(KEYS)]
    await store.close()

    assert len(claims) == KEYS
