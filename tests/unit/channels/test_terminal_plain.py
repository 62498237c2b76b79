"""Lines in, answers out: pipes and dumb terminals."""

import io
import os
from collections.abc import Generator
from contextlib import contextmanager

from nanobot.channels.terminal.plain import PlainTerminal
from nanobot.channels.terminal.view import Segment


@contextmanager
def terminal(data: bytes, *, prompt: str = "") -> Generator[tuple[PlainTerminal, io.BytesIO, io.BytesIO]]:
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    out, err = io.BytesIO(), io.BytesIO()
    try:
        yield PlainTerminal(stdin=reader, out=out, err=err, interrupt=lambda: "(hint)", prompt=prompt), out, err
    finally:
        os.close(reader)


async def test_lines_are_read_to_the_end() -> None:
    """The last line counts without its newline, and bytes that are no UTF-8 do not stop the reading."""
    with terminal("eins ü\r\n\n".encode() + b"\xff\nlast") as (plain, _, _):
        lines = [await plain.read() for _ in range(5)]

    assert lines == ["eins ü", "", "�", "last", None]


async def test_an_empty_input_ends_at_once() -> None:
    """``</dev/null`` is an end, not an error."""
    with terminal(b"") as (plain, _, _):
        assert await plain.read() is None


async def test_j07_answers_and_everything_else_have_their_own_stream() -> None:
    """No escape reaches a pipe, and a reader of the answers reads nothing else."""
    with terminal(b"x\n", prompt="> ") as (plain, out, err):
        await plain.read()
        await plain.show(
            [
                Segment("markdown", "**answer** \x1b[31mred 日本"),
                Segment("tool", "grep x"),
                Segment("failed tool", "exec y"),
                Segment("error", "No key."),
                Segment("reasoning", "hm"),
            ]
        )
        plain.on_interrupt()

    assert out.getvalue().decode() == "**answer** red 日本\n"
    assert err.getvalue().decode() == "> ✓ grep x\n✗ exec y\nNo key.\n(hint)\n"
