"""What calls keep for a crash or an undo: a private directory for each, in one of their Turn's."""

import shutil
from contextlib import suppress
from pathlib import Path

KEPT = "before"  # begins the names of files in a scratch directory that hold old contents
KEPT_TURNS = 20  # per session: how far back old contents and outputs of commands are kept


def clear_scratch(call: Path) -> None:
    """Remove what a call kept for a crash, once its result is written: the raw output of a command may hold secrets.

    The old content of a file stays, for an undo.  Blocks; what cannot be removed goes with its Turn.
    """
    with suppress(OSError):
        for path in call.iterdir():
            if not path.name.startswith(KEPT):
                path.unlink(missing_ok=True)
        call.rmdir()  # only if nothing was kept


def prune_scratch(directory: Path, *, last_turn: int) -> None:
    """Remove what calls of earlier Turns left behind in a session's scratch directory; old contents after a while.  Blocks.

    Of the Turns before ``last_turn``, also what calls kept that were stopped or whose results the disk refused for a time.
    """
    try:
        turns = list(directory.iterdir())
    except OSError:
        return
    for path in turns:
        if path.name[:1] == "t" and path.name[1:].isdigit() and int(path.name[1:]) <= last_turn - KEPT_TURNS:
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != f"t{last_turn}" and path.is_dir():
            for call in path.iterdir():
                clear_scratch(call)
