"""What nanobot costs: ratios against a floor of the same run.  ``make bench``, or ``make bench ARGS="text start"``.

Absolute figures say more about the machine than about the program, so every row has a floor that was measured beside it: the same
request through the bare SDK, a bare Python, a bare fsync.  CPU is that of this process with all its threads; the model server runs
in another one.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from bench import context, durable, many, start, text
from bench.table import Row, rendered

PARTS: Mapping[str, Callable[[], Awaitable[Sequence[Row]]]] = {
    "text": text.short_session,
    "long": text.long_session,
    "many": many.sessions_at_once,
    "start": start.startup,
    "durable": durable.latency,
    "context": context.long_session,
    "build": context.build_cost,
    "beside": context.summaries_beside,
}


async def main(names: Sequence[str]) -> int:
    """Run the named parts, all of them when none is named; return 1 if a target was missed."""
    if unknown := [name for name in names if name not in PARTS]:
        sys.stderr.write(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}\n")
        return 2
    missed = False
    for name in names or PARTS:
        rows = await PARTS[name]()
        sys.stdout.write(rendered(rows))
        sys.stdout.flush()
        missed |= any(row.missed for row in rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
