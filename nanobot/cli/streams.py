"""Standard streams as bytes: UTF-8 whatever the locale says, and quiet when a reader goes away."""

import os
import select
import sys
from typing import BinaryIO

STDIN_MAX_BYTES = 16_000_000
QUIET_S = 2.0  # how long a silent pipe may hold us up before we say so


def write_out(text: str) -> None:
    """Write to stdout; if nobody reads it any more, that is their choice and no error."""
    _write(sys.stdout.buffer, sys.stdout.fileno(), text)


def write_err(text: str) -> None:
    """Write to stderr, with the same forbearance."""
    _write(sys.stderr.buffer, sys.stderr.fileno(), text)


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


def _write(stream: BinaryIO, descriptor: int, text: str) -> None:
    try:
        stream.write(text.encode("utf-8", "replace"))
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)  # or the flush at exit would fail again
