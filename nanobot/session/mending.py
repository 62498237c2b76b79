"""Look at one whole log, and mend what can be mended: what ``nanobot sessions repair`` does.

Opening a session mends the part of its log that is still needed; this reads all of it, also what lies before the floor, and puts
back the marker of a session that still has something to do.  Nothing is thrown away: see ``session.repair``.  Blocks.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import field

from nanobot.bus.events import SessionKey
from nanobot.session.appending import AppendFile
from nanobot.session.codec import to_line
from nanobot.session.disk import make_dirs, refusal, sync_dir, write_new
from nanobot.session.entries import Entry, Repaired
from nanobot.session.log import SessionLog
from nanobot.session.repair import Opened, Opener, header_line
from nanobot.values import frozen


@frozen
class Findings:
    """What a log looked like.

    ``before`` tells what was set aside earlier, ``mended`` what was wrong and is not any more, ``left`` what stays wrong.
    """

    entries: int = 0
    before: list[str] = field(default_factory=list[str])
    mended: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])


def mend(opener: Opener, key: SessionKey) -> Findings:
    """Read a session's whole log under its lock and mend it.

    Raises:
        SessionBusy: another process holds the session.
        SessionCorrupt: the log is another session's.
        DiskRefused: the log cannot be read, or the disk does not take what mends it.
    """
    found = opener.open(key, whole=True)
    try:
        findings = Findings(entries=len(found.entries), before=[*_set_aside_before(found)])
        can_mend = found.read_only is None and found.lock is not None
        (findings.mended if can_mend else findings.left).extend(found.reports)
        if can_mend:
            try:
                _write(opener, key, found)
                findings.mended.extend(_mark(opener, key, found.entries))
            except OSError as error:
                raise refusal(error, "Mending", opener.at.log(key)) from error
    finally:
        if found.lock is not None:
            found.lock.release()
    return findings


def _set_aside_before(found: Opened) -> Iterator[str]:
    for entry in found.entries:
        if isinstance(entry, Repaired) and to_line(entry) not in found.repairs:
            numbers = ", ".join(map(str, entry.lines[:20]))
            yield f"line {numbers}: {entry.why or 'unreadable'}"


def _write(opener: Opener, key: SessionKey, found: Opened) -> None:
    """Append the lines that say what was set aside."""
    if not found.repairs:
        return
    file = AppendFile(opener.disk, opener.at.log(key), header=lambda: header_line(key, opener.now()), sync=opener.sync)
    try:
        file.append(b"".join(found.repairs))
        if opener.sync and file.fd is not None:
            opener.disk.fsync(file.fd)
    finally:
        file.close()


def _mark(opener: Opener, key: SessionKey, entries: Iterable[Entry]) -> list[str]:
    """See that a session with something to do is found at the next start."""
    log = SessionLog(key)
    log.extend(entries)
    path = opener.at.marker(key)
    if log.settled() or path.exists():
        return []
    make_dirs(opener.disk, path.parent, sync=opener.sync)
    with suppress(FileExistsError):
        write_new(opener.disk, path, json.dumps(key).encode(), sync=opener.sync)
    if opener.sync:
        sync_dir(opener.disk, path.parent)
    return ["it has unfinished work that the next start would not have found; it will now"]
