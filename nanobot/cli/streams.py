"""Standard streams as bytes: UTF-8 whatever the locale says, and quiet when a reader goes away.

An output that cannot be written to (a full disk, a closed descriptor) is one sentence on stderr and the exit code 1.
"""

import os
import select
import sys
from contextlib import suppress
from typing import TextIO

from nanobot.errors import NanobotError

STDIN_MAX_BYTES = 16_000_000
QUIET_S = 2.0  # how long a silent pipe may hold us up before we say so


class OutputFailed(NanobotError):
    """Standard output cannot be written to; the text says why."""


def write_out(text: str) -> None:
    """Write to stdout; if nobody reads it any more, that is their choice and no error.

    Raises:
        OutputFailed: it is closed, or does not take the text.
    """
    must_have_out()
    try:
        _write(sys.stdout, text)
    except OSError as error:
        raise output_failed(error) from error


def write_err(text: str) -> None:
    """Write to stderr, with the same forbearance; there is nobody to tell if it cannot be written to."""
    if sys.stderr is not None and not sys.stderr.closed:
        with suppress(OSError):
            _write(sys.stderr, text)


def must_have_out() -> None:
    """Raise ``OutputFailed`` if stdout is closed."""
    if sys.stdout is None or sys.stdout.closed:  # None after >&-
        raise OutputFailed("standard output is closed, so nothing can be written to it")


def output_failed(error: OSError) -> OutputFailed:
    """Return what to say of a stdout that refused text; what Python still holds of that is dropped, or exit fails again."""
    _drop(sys.stdout)
    return OutputFailed(f"standard output cannot be written to: {error.strerror or error}")


def is_shown() -> bool:
    """Say whether stdout is a terminal."""
    return sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()


def piped_input() -> str:
    """Return what is piped into us: empty when stdin is a terminal or closed.

    At most ``STDIN_MAX_BYTES``, and the text says so when there was more.  Bytes that are no UTF-8 become U+FFFD.
    """
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():  # None after <&-
        return ""
    _say_if_silent(sys.stdin.fileno())
    raw = sys.stdin.buffer.read(STDIN_MAX_BYTES + 1)
    text = raw[:STDIN_MAX_BYTES].decode("utf-8", "replace").removeprefix("\ufeff")
    if len(raw) > STDIN_MAX_BYTES:
        text += f"\n[cut here: only the first {STDIN_MAX_BYTES:,} bytes of the piped input were read]"
    return text


def is_person() -> bool:
    """Say whether somebody sits at stdin."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _say_if_silent(descriptor: int) -> None:
    """Tell a person why nothing happens when an open pipe brings nothing."""
    try:
        ready, _, _ = select.select([descriptor], [], [], QUIET_S)
    except (OSError, ValueError):
        return  # not selectable: it will not block either
    if not ready:
        write_err("nanobot: waiting for the end of the piped input; add </dev/null if there is none\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.buffer.write(text.encode("utf-8", "replace"))
        stream.flush()
    except BrokenPipeError:
        _drop(stream)


def _drop(stream: TextIO) -> None:
    """Send what is still to be written nowhere, or the flush at exit would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
