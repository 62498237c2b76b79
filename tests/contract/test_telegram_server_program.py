"""The local Bot API server can be run by hand."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[2]


def call(url: str, method: str, **parameters: object) -> object:
    request = Request(f"{url}42:TEST/{method}", json.dumps(parameters).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)["result"]


async def test_a_line_typed_is_a_message_and_what_the_bot_does_is_shown() -> None:
    """It prints the config to use, takes what is typed, and tells of calls and refusals."""
    program = [sys.executable, "-m", "tests.fakes.telegram_server", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            url = ""
            while not url:
                line = (await process.stdout.readline()).decode()
                url = line.strip().removeprefix("base_url: ") if "base_url: " in line else ""
            process.stdin.write(b"hello\n")
            updates = await asyncio.to_thread(call, url, "getUpdates", timeout=5)
            await asyncio.to_thread(call, url, "sendMessage", chat_id=1, text="hi")
    finally:
        process.kill()
        _, told = await process.communicate()

    assert isinstance(updates, list)
    assert "hello" in json.dumps(updates)
    assert b"sendMessage {'chat_id': 1, 'text': 'hi'}" in told
