"""How much is installed: nanobot without extras, in a fresh environment, beside the peers."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.contest import PEER_LIST, PEERS
from bench.peers import install_fresh, size
from bench.table import Row


async def installed(*, peers: bool) -> Sequence[Row]:
    """Measure megabytes, byte code included, and distributions."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "venv"
        await asyncio.to_thread(install_fresh, place)
        megabytes, count = size(place)
    theirs = {who.name: size(PEERS / who.name) for who in PEER_LIST if peers and who.is_installed}
    return [
        Row(what="installed size", unit="MB", value=megabytes, beside={name: one[0] for name, one in theirs.items()}),
        Row(what="  distributions", unit="", value=count, beside={name: one[1] for name, one in theirs.items()}),
    ]
