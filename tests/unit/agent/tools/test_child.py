"""Programs that are run for their output."""

import sys
import time

from nanobot.agent.tools.child import run_child

FLOOD = """
import fcntl, sys, time
fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)
sys.stdout.buffer.write(b"y" * (1 << 20))
sys.stdout.flush()
time.sleep(60)  # it does not end by itself: who waits for that, waits for long
"""


async def test_a_program_that_says_too_much_at_once_is_ended_at_once() -> None:
    """What it said and nobody will read does not keep us from seeing its end."""
    begin = time.monotonic()
    found = await run_child([sys.executable, "-c", FLOOD], timeout_s=20, max_bytes=1_000)

    assert found.stopped == "output"
    assert time.monotonic() - begin < 10
