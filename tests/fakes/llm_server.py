"""The strict local model server: what tests import, and a program to run by hand.

``async with LLMServer([Reply("hello")]) as server`` in a test; ``python -m tests.fakes.llm_server --port 8089`` in a terminal,
where it answers by itself (see ``tests.fakes.llm.play``) and says why it refuses what it refuses.
"""

import argparse
import asyncio
import contextlib
import sys
from dataclasses import replace

from tests.fakes.llm.play import play
from tests.fakes.llm.recorded import Recorded
from tests.fakes.llm.script import Call, Hang, Oddity, Reply, Tokens
from tests.fakes.llm.server import LLMServer, Responder

__all__ = ["Call", "Hang", "LLMServer", "Oddity", "Recorded", "Reply", "Responder", "Tokens", "main"]

_CONFIG = """\
A model server for playing, on both wires, at {url}
It echoes; "run: CMD", "read: PATH" and "what time is it" call a matching tool.  Ctrl-C ends it.

Point nanobot at it with these lines in its config:

providers:
  local:
    type: openai            # or anthropic, then with base_url: {url}
    api_key: {key}
    base_url: {url}/v1
agent:
  model: local/test-model
"""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fakes.llm_server", description="A strict local model server."
    )
    parser.add_argument("--port", type=int, default=8089, help="0 takes a free one")
    parser.add_argument("--api-key", default=None, help="refuse clients that show another")
    parser.add_argument("--window-tokens", type=int, default=None, help="refuse longer prompts")
    parser.add_argument("--strict-roles", action="store_true", help="refuse what chat templates of local models refuse")
    parser.add_argument("--delay-s", type=float, default=0.05, help="pause before each delta")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))


async def _serve(options: argparse.Namespace) -> None:
    server = LLMServer(
        port=options.port,
        api_key=options.api_key,
        window_tokens=options.window_tokens,
        strict_roles=options.strict_roles,
    )
    server.responder = lambda recorded: replace(play(recorded), delay_s=options.delay_s)
    server.observer = _tell
    async with server:
        sys.stdout.write(_CONFIG.format(url=server.url, key=options.api_key or "any"))
        sys.stdout.flush()
        await server.serve_forever()


def _tell(recorded: Recorded) -> None:
    line = f"{recorded.method} {recorded.path} {recorded.status}  prompt {recorded.prompt_tokens} cached {recorded.cached_tokens}"
    sys.stderr.write(line + (f"  refused: {recorded.refusal}" if recorded.refusal else "") + "\n")


if __name__ == "__main__":
    main()
