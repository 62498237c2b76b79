"""Ask one thing: the answer on stdout as it is, everything else on stderr."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict

from nanobot.bus.events import Media
from nanobot.bus.runtime_events import RuntimeEvent, TurnFinished
from nanobot.cli.bot import Bot, Result
from nanobot.cli.streams import is_shown, write_err, write_out

ANSWERED = 0
FAILED = 1


async def ask(bot: Bot, text: str, *, session_key: str, as_json: bool) -> int:
    """Run one Turn and print how it ended; return the exit code: 0 answered, 1 failed, 128 + n stopped by signal n."""
    with _signals() as caught:
        async with bot:
            end = bot.events.observe(_Progress(session_key)) if sys.stderr and sys.stderr.isatty() else None
            try:
                result = await _run(bot, text, session_key, caught)
            finally:
                if end:
                    end()
    if caught.number:
        write_err("nanobot: stopped\n")
        return 128 + caught.number
    _print(result, as_json=as_json)
    return FAILED if result is None or result.error else ANSWERED


def as_json_line(result: Result) -> str:
    """Return the whole result as one line of JSON."""
    return json.dumps(
        {
            "content": result.content,
            "stop_reason": result.stop_reason,
            "usage": asdict(result.usage),
            "tools_used": list(result.tools_used),
            "iterations": result.iterations,
            "error": result.error,
            "session_key": result.session_key,
            "files": [_file(media) for media in result.files],
        },
        ensure_ascii=False,
    )


def _file(media: Media) -> dict[str, object]:
    """Return a file that was sent: where it lies, and what it is called."""
    names = ("path", "name", "media_type", "size_bytes", "caption")
    return {name: getattr(media, name) for name in names}


class _Caught:
    """Which signal came, if any."""

    def __init__(self) -> None:
        self.number = 0
        self.came = asyncio.Event()


@contextmanager
def _signals() -> Generator[_Caught]:
    """Catch the first SIGINT or SIGTERM; a second one does what it always does."""
    loop = asyncio.get_running_loop()
    caught = _Caught()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def on_signal(number: int) -> None:
        caught.number = number
        caught.came.set()
        for one in numbers:
            loop.remove_signal_handler(one)

    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield caught
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def _run(bot: Bot, text: str, session_key: str, caught: _Caught) -> Result | None:
    """Run the Turn until it ends; a signal stops it in order."""
    turn = asyncio.create_task(bot.process_direct(text, session_key=session_key), name="turn")
    signalled = asyncio.create_task(caught.came.wait(), name="signal")
    try:
        await asyncio.wait({turn, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if not turn.done() and not await bot.stop(session_key):
            turn.cancel()
        await asyncio.wait({turn})
        return None if turn.cancelled() else turn.result()
    finally:
        signalled.cancel()
        turn.cancel()


def _print(result: Result | None, *, as_json: bool) -> None:
    if result is None:
        return
    if as_json:
        write_out(as_json_line(result) + "\n")
    elif result.content:
        text = _printable(result.content) if is_shown() else result.content
        write_out(text if text.endswith("\n") else text + "\n")
    for media in () if as_json else result.files:
        write_err(f"file: {_printable(media.path)} ({_printable(media.name)})\n")
    if result.error:
        write_err(f"nanobot: {_printable(result.error)}\n")


def _printable(text: str) -> str:
    from nanobot.channels.terminal.text import printable  # lazily: an answer that goes elsewhere stays as it is

    return printable(text)


class _Progress:
    """Shows tool calls on stderr, for a person who waits."""

    def __init__(self, session_key: str) -> None:
        from nanobot.channels.terminal.view import View  # lazily: for a terminal

        self._key = session_key
        self._view = View()

    def __call__(self, event: RuntimeEvent) -> None:
        if getattr(event, "session_key", None) != self._key or isinstance(event, TurnFinished):
            return
        for segment in self._view.take(event, at=time.monotonic()):
            if segment.kind in ("tool", "failed tool", "notice"):
                write_err(_printable(segment.text) + "\n")
