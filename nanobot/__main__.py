"""``python -m nanobot`` and the ``nanobot`` command."""

import errno
import gc
import sys

from nanobot.cli.app import app
from nanobot.cli.streams import output_failed, write_err

_GARBAGE_AFTER = 10_000  # new objects; Python's own 700 makes a start look 130 times, for 8 % of its CPU time


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_GARBAGE_AFTER)
    try:
        app()
    except OSError as error:  # --help and the like write by themselves
        if sys.stdout is None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
            raise
        write_err(f"nanobot: {output_failed(error)}\n")
        sys.exit(1)
    finally:
        gc.freeze()  # Python looks at all objects once more before it ends, for 40 ms; the system takes them back at once


if __name__ == "__main__":
    main()
