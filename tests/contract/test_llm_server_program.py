"""The local model server as a program to run by hand."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fakes.llm.play import play
from tests.fakes.llm.recorded import Recorded

EXEC: dict[str, Any] = {
    "type": "function",
    "function": {"name": "exec", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
}


@asynccontextmanager
async def program(*arguments: str) -> AsyncGenerator[str]:
    """Run the program and yield what it prints at the start."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.llm_server", "--port", "0", *arguments),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout
        async with asyncio.timeout(20):
            yield (await process.stdout.readuntil(b"model: local/test-model\n")).decode()
    finally:
        process.terminate()
        await process.communicate()


async def ask(url: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    async with httpx2.AsyncClient(trust_env=False) as http:
        response = await http.post(url, json={"model": "m", "tools": [EXEC], "messages": messages})
        return response.json()["choices"][0]["message"]


async def test_it_runs_by_hand_and_plays() -> None:
    """The program prints what to configure, calls a tool when asked to, and tells what the tool said."""
    asked = [{"role": "user", "content": "run: ls -l"}]

    async with program("--delay-s", "0") as told:
        base_url = next(line.split("base_url: ")[1] for line in told.splitlines() if line.startswith("    base_url: "))
        message = await ask(f"{base_url}/chat/completions", asked)
        call = message["tool_calls"][0]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "a.txt"}
        answer = await ask(f"{base_url}/chat/completions", [*asked, message, result])

    assert json.loads(call["function"]["arguments"]) == {"command": "ls -l"}
    assert answer["content"] == "The tool said:\na.txt"


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("hello", None),
        ("sometimes\nLocal time: 12:00", None),
        ("what time is it?", ("exec", {"command": "date"})),
        ("Local time: 12:00\nrun: ls", ("exec", {"command": "ls"})),
        ("read: a b.txt", ("read_file", {"path": "a b.txt"})),
    ],
)
def test_phrases_call_matching_tools(text: str, called: tuple[str, dict[str, str]] | None) -> None:
    """Only the known phrases call a tool, with its first required argument."""
    schema: dict[str, Any] = {"type": "object", "properties": {"limit": {}, "path": {}}, "required": ["path"]}
    read: dict[str, Any] = {"name": "read_file", "input_schema": schema}
    body = {"tools": [EXEC, read], "messages": [{"role": "user", "content": text}]}
    recorded = Recorded("openai", "POST", "/v1/chat/completions", {}, json.dumps(body).encode())

    reply = play(recorded)

    assert [(call.name, call.arguments) for call in reply.tool_calls] == ([called] if called else [])
