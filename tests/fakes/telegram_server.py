"""The strict local Bot API server: what tests import, and a program to run by hand.

``async with TelegramServer("42:TEST") as server`` in a test; ``python -m tests.fakes.telegram_server --port 8081`` in a terminal,
where each line typed is a message from chat 1 and everything the bot does is printed.
"""

import argparse
import asyncio
import contextlib
import sys

from tests.fakes.telegram.chats import ChatRoom, Seen
from tests.fakes.telegram.server import Call, TelegramServer

__all__ = ["Call", "ChatRoom", "Seen", "TelegramServer", "main"]

_CONFIG = """\
A Bot API server for playing.  Type a line to say it in chat 1; Ctrl-C ends it.

Point nanobot at it with these lines in its config:

channels:
  telegram:
    type: telegram
    token: "{token}"
    base_url: {url}
    allow_from: [1]
"""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fakes.telegram_server", description="A strict local Bot API."
    )
    parser.add_argument("--port", type=int, default=8081, help="0 takes a free one")
    parser.add_argument("--token", default="42:TEST")
    parser.add_argument("--message-gap-s", type=float, default=None, help="answer 429 to messages closer than this")
    parser.add_argument("--edit-gap-s", type=float, default=None, help="answer 429 to edits closer than this")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


async def _serve(options: argparse.Namespace) -> None:
    server = TelegramServer(
        options.token, port=options.port, message_gap_s=options.message_gap_s, edit_gap_s=options.edit_gap_s
    )
    server.observer = _tell
    async with server:
        sys.stdout.write(_CONFIG.format(url=server.base_url, token=server.token))
        sys.stdout.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            server.push_text(1, line.rstrip("\n"))
        await server.serve_forever()


def _tell(call: Call) -> None:
    if call.method.lower() != "getupdates":
        sys.stderr.write(
            f"{call.method} {dict(call.params.values)}" + (f"  refused: {call.error}" if call.error else "") + "\n"
        )


if __name__ == "__main__":
    main()
