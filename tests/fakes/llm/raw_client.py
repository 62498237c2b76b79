"""As little client as shows what is on the wire, for the server's own tests."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2

from tests.fakes.llm.recorded import ANTHROPIC_CHAT, OPENAI_CHAT
from tests.fakes.llm.script import Reply
from tests.fakes.llm.server import LLMServer

OPENAI, ANTHROPIC = OPENAI_CHAT, ANTHROPIC_CHAT
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


class RawClient:
    """Sends bodies as they are and returns events as they came."""

    def __init__(self, http: httpx2.AsyncClient):
        self.http = http

    def request(
        self, server: LLMServer, path: str, *, timeout_s: float = 5, **fields: Any
    ) -> httpx2.Request:  # Any: JSON
        """Build a small legal request, with ``fields`` added or replaced."""
        body: dict[str, Any] = {"model": "m", "messages": HI}
        headers: dict[str, str] = {}
        if path == ANTHROPIC:
            body["max_tokens"] = 99
            headers["anthropic-version"] = "2023-06-01"
        url = server.url + path
        return self.http.build_request("POST", url, json={**body, **fields}, headers=headers, timeout=timeout_s)

    async def ask(
        self, server: LLMServer, path: str, *, timeout_s: float = 5, **fields: Any
    ) -> httpx2.Response:  # Any: JSON
        """Return the whole answer."""
        return await self.http.send(self.request(server, path, timeout_s=timeout_s, **fields))

    async def events(self, server: LLMServer, path: str, **fields: Any) -> list[dict[str, Any]]:  # Any: JSON
        """Return the events of a streamed answer, without the ``[DONE]``."""
        response = await self.ask(server, path, stream=True, **fields)
        assert response.status_code == 200
        lines = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    async def calls(self, server: LLMServer, reply: Reply) -> list[dict[str, Any]]:
        """Return the tool call deltas of one streamed answer of Chat Completions."""
        server.queue(reply)
        deltas = [choice["delta"] for event in await self.events(server, OPENAI) for choice in event["choices"]]
        return [call for delta in deltas for call in delta.get("tool_calls", [])]


def openai_text(events: list[dict[str, Any]], field: str = "content") -> str:
    """Return the text of a stream, or another field of its deltas."""
    rows: list[list[dict[str, Any]] | None] = [event["choices"] for event in events]
    return "".join(choice["delta"].get(field) or "" for choices in rows for choice in choices or [])


def anthropic_text(events: list[dict[str, Any]], field: str = "text") -> str:
    """Return the text of a stream, or another field of its deltas."""
    return "".join(event["delta"].get(field, "") for event in events if event["type"] == "content_block_delta")


async def until(condition: Callable[[], bool]) -> None:
    """Wait at most two seconds for something that the server does by itself."""
    async with asyncio.timeout(2):
        while not condition():  # noqa: ASYNC110  # the server has no event for it, and only tests would want one
            await asyncio.sleep(0.001)
