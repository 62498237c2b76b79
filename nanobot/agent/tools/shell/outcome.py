"""What a command printed and how it ended, as the model reads it.  Pure."""

import signal

from nanobot.agent.tools.files.decode import Text, is_unended_escape, printable, readable, sniff
from nanobot.agent.tools.shell.supervised import Ended
from nanobot.supervisor.ring import Captured
from nanobot.values import frozen

_LINE_SEARCH = 4096
_ESCAPE_BYTES = 64


@frozen
class Piece:
    """A part of an output: readable, and where the next one begins."""

    text: str
    next: int


def whole_text(captured: Captured) -> str:
    """Return an output from beginning to end, with a line for what is lost between them."""
    if not captured.left_out:
        return printable(captured.head + captured.tail).rstrip("\n")
    cut = captured.tail.find(b"\n", 0, _LINE_SEARCH) + 1  # begin the end at a line
    head = printable(_whole_lines(captured.head))
    return f"{head}\n{_left_out(captured.left_out + cut)}\n{printable(captured.tail[cut:])}".rstrip("\n")


def piece_since(captured: Captured, since: int, *, over: bool) -> Piece:
    """Return what is new from an offset on.

    Args:
        captured: the output so far.
        since: where the reader had come to.
        over: no more comes; otherwise a torn character or escape sequence at the end is left for the next piece.
    """
    lost, data = captured.since(max(since, 0))
    data = data[: len(data) - (0 if over else _torn_bytes(data))]
    following = min(captured.total, max(since, 0)) + lost + len(data)
    if lost:
        cut = data.find(b"\n", 0, _LINE_SEARCH) + 1
        lost, data = lost + cut, data[cut:]
    text = _decoded(data, captured.head, at=following - len(data))
    return Piece(f"{_left_out(lost)}\n{text}" if lost else text, following)


def how(ended: Ended, limit_s: float | None) -> str:
    """Return in a few words how a command ended."""
    after = f"after {ended.duration_s:.1f} s"
    return f"{_verdict(ended, limit_s, after)}{_rest(ended)}{_lost(ended)}"


def _verdict(ended: Ended, limit_s: float | None, after: str) -> str:
    if ended.reason == "timeout":
        limit = f" (limit {limit_s:g} s)" if limit_s else ""
        return f"timed out {after}{limit} and was killed with all its children"
    if ended.reason == "stopped":
        return f"stopped {after}"
    if ended.reason == "killed":
        return f"ended by exec_kill {after}"
    if ended.reason == "failed":
        return f"could not be run: {ended.error}"
    if ended.signal is not None:
        return f"killed by {_signal_name(ended.signal)} {after}"
    return f"exit {ended.exit} {after}"


def _rest(ended: Ended) -> str:
    if not ended.rest:
        return ""
    processes = (
        "1 process that it had left running was"
        if ended.rest == 1
        else f"{ended.rest} processes that it had left running were"
    )
    return f"; {processes} ended too: background: true keeps a command running"


def _lost(ended: Ended) -> str:
    return f"; output was lost: {ended.lost}" if ended.lost else ""


def _left_out(count: int) -> str:
    return f"[… {count:,} bytes of output left out here; redirect to a file to keep all …]"


def _whole_lines(head: bytes) -> bytes:
    """Cut at the last line end, so that no character is torn."""
    end = head.rfind(b"\n", len(head) - _LINE_SEARCH)
    return head[: end + 1] if end >= 0 else head


def _torn_bytes(data: bytes) -> int:
    """Return how many bytes at the end are the beginning of a character or of an escape sequence, as far as one can tell."""
    escape = data.rfind(b"\x1b", max(len(data) - _ESCAPE_BYTES, 0))
    if escape >= 0 and is_unended_escape(data[escape:]):
        return len(data) - escape
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # begins a character of two to four bytes
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < size else 0
        if byte < 0x80:
            return 0
    return 0


def _decoded(data: bytes, head: bytes, *, at: int) -> str:
    """Decode a part that begins at ``at``; whether the whole is UTF-16 is seen at its beginning only."""
    form = sniff(head[:8192], complete=False)
    if isinstance(form, Text) and form.encoding.startswith("utf-16"):
        odd = at % 2
        skip = len(form.bom) if at == 0 else odd
        return readable(data[skip:].decode(form.codec, "replace"))
    return printable(data)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
