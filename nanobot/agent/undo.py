"""Taking back the files that a Turn wrote through our tools: all of them, or none.

The Turn's intents say what each file was before and after; the calls' scratch directories hold the old contents.  A file that is
neither as the Turn left it nor as it was before has been changed by somebody else since: then nothing is touched.  Doing it twice
is doing it once, so a crash between the files and the log's line for the undo is harmless.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from nanobot.agent.tools.files.changes import FileChange, current_sha256, old_content, put_back, recorded
from nanobot.agent.tools.files.writing import Version, read_version, remove, write_atomic
from nanobot.errors import NotUndone, ToolError
from nanobot.messages import ToolMessage
from nanobot.session.entries import Entry, Finished, Intent, Step

_MAX_BYTES = 1 << 30


def file_changes(entries: Iterable[Entry], *, turn: str, scratch: Path) -> list[FileChange]:
    """Return what the Turn did to files, one change a file, in the order of the first write.

    Args:
        entries: the Turn's entries, oldest first; others are ignored.
        turn: its id.
        scratch: the Turn's scratch directory.
    """
    intents: dict[str, Intent] = {}
    failed: set[str] = set()
    for entry in entries:
        match entry:
            case Intent(turn=of, effect="verifiable", call=call) if of == turn and entry.before and entry.after:
                intents[call] = entry
            case Step(turn=of, message=ToolMessage(is_error=True) as message) if of == turn:
                failed.add(message.call_id)
            case Finished(turn=of) if of == turn:
                break
            case _:
                pass
    changes: dict[Path, FileChange] = {}
    for call, intent in intents.items():
        if call in failed:
            continue
        for change in recorded(intent.before, intent.after, scratch / call.replace(".", "_")):
            first = changes.get(change.path, change)
            changes[change.path] = replace(first, after_sha256=change.after_sha256)
    return list(changes.values())


def take_back(changes: Sequence[FileChange]) -> list[Path]:
    """Put every file back as it was; return those that were changed by this.  Blocks: call it off the event loop.

    Raises:
        NotUndone: a file was changed since, its old content is gone, or a write failed; all files are as they were then.
    """
    undone: list[tuple[Path, Version | None]] = []
    try:
        wanted = [change for change in changes if _needs_undo(change)]
        for change in wanted:
            old_content(change)
        for change in wanted:
            now = read_version(change.path, change.path.name, max_bytes=_MAX_BYTES)
            put_back(change)
            undone.append((change.path, now))
    except (OSError, ToolError) as error:
        for path, version in reversed(undone):
            _put(path, version)
        raise NotUndone(f"{error}".rstrip(".")) from error
    return [path for path, _ in undone]


def _needs_undo(change: FileChange) -> bool:
    now = current_sha256(change.path)
    if now == change.before_sha256:
        return False
    if now != change.after_sha256:
        raise NotUndone(f"{change.path.name} was changed since")
    return True


def _put(path: Path, version: Version | None) -> None:
    if version is None:
        remove(path, path.name, even_read_only=True)
    else:
        write_atomic(path, path.name, version.content, mode=version.mode, even_read_only=True)
