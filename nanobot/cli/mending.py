"""``nanobot sessions repair`` and ``nanobot sessions fork``: the commands that write logs.

Both work beside a running gateway: a session that it holds is left alone and named.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from nanobot.bus.events import is_plain_key, shown_key
from nanobot.channels.terminal.text import one_line
from nanobot.cli.sessions import refuse_unknown, session_store
from nanobot.cli.streams import write_err, write_out
from nanobot.config.settings import Settings, load
from nanobot.errors import MisuseError, SessionError
from nanobot.session.disk import Disk
from nanobot.session.files import Layout
from nanobot.session.fork import fork
from nanobot.session.mending import Findings, mend
from nanobot.session.repair import Opener

OWNER = "nanobot sessions"
_FAILED = 1
_MOST_FORKS = 1_000  # of one Turn, with names that we choose


def repair_sessions(config: Path | None, key: str | None) -> int:
    """Show what is wrong in one log, or in all, and mend it; return 1 if something stays wrong."""
    settings = load(config)
    keys, nameless = asyncio.run(_which(settings, key))
    at = Layout(settings.data_dir)
    opener = Opener(
        disk=Disk(),
        at=at,
        owner=OWNER,
        sync=settings.session.sync != "off",
        now=lambda: datetime.now(UTC),
    )
    lines = [f"{path}: no line says whose log this is; `nanobot sessions repair KEY` mends it" for path in nameless]
    is_left = bool(nameless)
    for one in keys:
        said, left = _repair(opener, one)
        lines += said
        is_left |= left
    if not lines:
        lines = [f"{keys[0]}: nothing to mend" if key else f"{len(keys)} sessions, nothing to mend"]
    write_out("".join(f"{line}\n" for line in lines))
    return _FAILED if is_left else 0


def fork_session(config: Path | None, key: str, at: str, new_key: str | None) -> int:
    """Copy a session up to a Turn to a new key, and print that key."""
    made, count = asyncio.run(_fork(load(config), key, at, new_key))
    write_out(f"{made}\n")
    write_err(f"{count} entries copied; `nanobot agent --session '{made}'` goes on with it\n")
    return 0


async def _which(settings: Settings, key: str | None) -> tuple[list[str], list[Path]]:
    """Return the sessions to look at, and the logs that no key was found for."""
    at = Layout(settings.data_dir)
    store = session_store(settings)
    try:
        if key is not None:
            if not await asyncio.to_thread(at.log(key).exists):
                await refuse_unknown(store, key)
            return [key], []
        keys = sorted(await store.keys())
    finally:
        await store.close()
    named = {at.log(one) for one in keys}
    return keys, sorted(path for path in at.sessions.glob("*.jsonl") if path not in named)


def _repair(opener: Opener, key: str) -> tuple[Sequence[str], bool]:
    """Return what to say about one session, and whether something stays wrong."""
    try:
        found = mend(opener, key)
    except SessionError as error:
        return [f"{one_line(key)}: {error}"], True
    return [f"{one_line(key)}: {line}" for line in _told(found)], bool(found.left)


def _told(found: Findings) -> list[str]:
    return [
        *(f"was set aside before: {line}" for line in found.before),
        *(f"mended: {line}" for line in found.mended),
        *(f"not mended: {line}" for line in found.left),
    ]


async def _fork(settings: Settings, key: str, at: str, new_key: str | None) -> tuple[str, int]:
    if new_key and not is_plain_key(new_key):
        raise MisuseError(f"--as holds a control character: {shown_key(new_key)}; leave it out")
    store = session_store(settings)
    turn = f"t{at}" if at.isdecimal() else at
    try:
        keys = await store.keys()
        if key not in keys:
            await refuse_unknown(store, key)
        made = new_key or _free_name(f"fork:{shown_key(key)}:{turn}", keys)
        return made, await fork(store, key, made, at=turn, owner=OWNER)
    finally:
        await store.close()


def _free_name(name: str, taken: Sequence[str]) -> str:
    for number in range(1, _MOST_FORKS):
        candidate = name if number == 1 else f"{name}:{number}"
        if candidate not in taken:
            return candidate
    raise MisuseError(f"there are too many forks of {name!r}; name this one with --as")
