"""``nanobot sessions``: look at logs.  Needs no claim, so it works beside a running gateway."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nanobot.bus.events import shown_key
from nanobot.channels.terminal.text import one_line, printable
from nanobot.cli.streams import is_shown, write_out
from nanobot.cli.transcript import as_markdown, turns
from nanobot.config.explain import closest
from nanobot.config.settings import Settings, load
from nanobot.errors import MisuseError
from nanobot.session.codec import to_line
from nanobot.session.entries import BlobId, Entry, Head
from nanobot.session.jsonl import JsonlStore
from nanobot.session.store import SessionStore

NEWEST = 50  # entries looked at for a session's line in the list


def list_sessions(config: Path | None) -> int:
    """Print one line a session: key, last activity, what was said."""
    write_out(asyncio.run(_listing(load(config))))
    return 0


def export_session(config: Path | None, key: str, form: str) -> int:
    """Print one session as ``turns``, ``jsonl`` or ``markdown``."""
    entries, _ = asyncio.run(read_log(load(config), key))
    text = render(entries, form)
    write_out(printable(text) if is_shown() else text)
    return 0


def render(entries: Sequence[Entry], form: str) -> str:
    """Return a log, oldest first, in one of the three forms."""
    if form == "jsonl":
        return b"".join(to_line(entry) for entry in entries).decode("utf-8", "replace")
    records = turns(entries)
    if form == "turns":
        return "".join(json.dumps(record.as_json(), ensure_ascii=False) + "\n" for record in records)
    return as_markdown(records)


async def _listing(settings: Settings) -> str:
    store = session_store(settings)
    try:
        rows = [(_last_activity(await store.read(key, before=None, limit=NEWEST)), key) for key in await store.keys()]
    finally:
        await store.close()
    rows.sort(reverse=True)
    return "".join(f"{shown_key(key)}\t{at}\t{one_line(said)[:80]}\n" for (at, said), key in rows)


def _last_activity(newest_first: Sequence[Entry]) -> tuple[str, str]:
    records = turns(reversed(newest_first))
    return (records[-1].at, records[-1].prompt) if records else ("", "")


async def read_log(settings: Settings, key: str) -> tuple[list[Entry], dict[BlobId, bytes]]:
    """Return a session's whole log, oldest first, and the blobs of its heads, as far as they are there.

    Raises:
        MisuseError: there is no such session.
    """
    store = session_store(settings)
    try:
        entries = list(await store.read(key, before=None, limit=sys.maxsize))[::-1]
        if not entries:
            await refuse_unknown(store, key)
        blobs: dict[BlobId, bytes] = {}
        for blob in (blob for entry in entries if isinstance(entry, Head) for blob in (entry.system, entry.tools)):
            with suppress(KeyError):
                blobs[blob] = await store.get_blob(key, blob)
    finally:
        await store.close()
    return entries, blobs


async def refuse_unknown(store: SessionStore, key: str) -> None:
    """Raise ``MisuseError`` if there is no such session, with the closest key."""
    keys = await store.keys()
    if key not in keys:
        guess = closest(key, keys)
        hint = f"did you mean {guess!r}?" if guess else "'nanobot sessions list' shows what there is"
        raise MisuseError(f"there is no session {key!r}; {hint}")


def session_store(settings: Settings) -> JsonlStore:
    """Return the store of a configuration."""
    return JsonlStore(settings.data_dir, settings=settings.session, owner="nanobot sessions")
