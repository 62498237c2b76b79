"""What nanobot costs, beside a floor of the same run: ``make bench``, or ``make bench ARGS="text cold"``.

Absolute figures say more about the machine than about the program, so every row has its floor measured beside it: the same requests
through the bare SDK, a bare Python, a bare fsync.  ``--peers`` runs other projects beside it (``make bench-peers`` installs them),
``--json FILE`` keeps the figures, and ``python -m bench.report FILE`` writes docs/performance.md from them.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import cold, context, disk, durable, gateway, size, stream, turns
from bench.table import Row, as_json, rendered

PARTS: Mapping[str, Callable[[bool], Awaitable[Sequence[Row]]]] = {
    "size": lambda peers: size.installed(peers=peers),
    "cold": lambda peers: cold.command_line(peers=peers),
    "gateway": lambda peers: gateway.daemon(),
    "text": lambda peers: turns.text_turn(peers=peers),
    "tools": lambda peers: turns.tool_turn(peers=peers),
    "growth": lambda peers: turns.growth(peers=peers),
    "many": lambda peers: turns.in_flight(peers=peers),
    "idle": lambda peers: disk.idle_sessions(),
    "stream": lambda peers: stream.deltas(),
    "restore": lambda peers: disk.restore(),
    "durable": lambda peers: durable.latency(),
    "context": lambda peers: context.long_session(),
    "build": lambda peers: context.build_cost(),
    "beside": lambda peers: context.summaries_beside(),
}


async def measure(names: Sequence[str], *, peers: bool) -> dict[str, Sequence[Row]]:
    """Run the parts and print each as it is done."""
    found: dict[str, Sequence[Row]] = {}
    for name in names:
        found[name] = await PARTS[name](peers)
        sys.stdout.write(f"\n{name}\n{rendered(found[name])}")
        sys.stdout.flush()
    return found


def machine() -> dict[str, object]:
    """Return where this was measured."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Measure what was named, all of it when nothing was; return 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help=f"what to measure: {', '.join(PARTS)}")
    parser.add_argument("--peers", action="store_true", help="run the installed peers too")
    parser.add_argument("--json", type=Path, help="write the figures to this file; parts it holds already are replaced")
    options = parser.parse_args()
    started = machine()
    found = asyncio.run(measure(options.parts or list(PARTS), peers=options.peers))
    if options.json:
        kept: dict[str, object] = json.loads(options.json.read_text())["parts"] if options.json.exists() else {}
        kept.update({name: as_json(rows) for name, rows in found.items()})
        options.json.write_text(json.dumps({"machine": started, "parts": kept}, indent=1) + "\n")
    return int(any(row.missed for rows in found.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
