"""Talk to a pipe, a file or a dumb terminal: lines in, answers out, no escapes.  Answers have one stream, the rest another."""

import asyncio
import codecs
import os
import threading
from collections.abc import Callable, Iterable
from typing import BinaryIO

from nanobot.channels.terminal.text import printable
from nanobot.channels.terminal.view import Segment

_SIGNS = {"tool": "✓ ", "failed tool": "✗ "}


class PlainTerminal:
    """Lines from a file descriptor.

    Args:
        stdin: read without Python's buffer, whose lock a blocked reader would hold at exit.
        out: for answers.
        err: for everything else.
        prompt: printed to ``err`` before each line, for a person at a dumb terminal.
        interrupt: told of Ctrl-C; it answers with a hint, or None.
    """

    def __init__(
        self, *, stdin: int, out: BinaryIO, err: BinaryIO, interrupt: Callable[[], str | None], prompt: str = ""
    ) -> None:
        self._stdin = stdin
        self._out = out
        self._err = err
        self._prompt = prompt
        self._interrupt = interrupt
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = ""
        self._at_end = False

    async def read(self) -> str | None:
        """Return the next line, or None at the end."""
        _write(self._err, self._prompt)
        while "\n" not in self._buffer and not self._at_end:
            chunk = await _read_chunk(self._stdin)
            self._at_end = not chunk
            self._buffer += self._decoder.decode(chunk, final=self._at_end)
        line, _, self._buffer = self._buffer.partition("\n")
        return None if self._at_end and not line and not self._buffer else line.rstrip("\r")

    async def show(self, segments: Iterable[Segment]) -> None:
        """Print answers as they are, but for what a terminal would obey."""
        for segment in segments:
            if segment.kind == "markdown":
                _write(self._out, printable(segment.text) + "\n")
            elif segment.kind != "reasoning":
                _write(self._err, _SIGNS.get(segment.kind, "") + printable(segment.text) + "\n")

    def refresh(self) -> None:
        """Nothing moves here."""

    def on_interrupt(self) -> None:
        """Do what Ctrl-C does."""
        hint = self._interrupt()
        if hint:
            _write(self._err, hint + "\n")


def _write(stream: BinaryIO, text: str) -> None:
    if text:
        stream.write(text.encode("utf-8", "replace"))
        stream.flush()


async def _read_chunk(descriptor: int) -> bytes:
    """Read in a thread of its own: a blocked read cannot be cancelled, and must not hold up the exit as a pool's thread would."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[bytes] = loop.create_future()

    def settle(chunk: bytes) -> None:
        if not result.done():
            result.set_result(chunk)

    def read() -> None:
        try:
            chunk = os.read(descriptor, 65_536)
        except OSError:
            chunk = b""  # a terminal that went away is the end of the input
        try:
            loop.call_soon_threadsafe(settle, chunk)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return await result
