"""``pydantic-ai``: ``Agent.run_stream`` with the history in memory, as its documentation shows; it keeps no sessions itself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from driver import Job, Turn, main


@asynccontextmanager
async def opened(job: Job) -> AsyncGenerator[Turn]:
    """Yield runs of an agent with one tool."""
    ai: Any = import_module("pydantic_ai")  # Any: not installed where this is checked
    model: Any = import_module("pydantic_ai.models.openai").OpenAIChatModel
    provider: Any = import_module("pydantic_ai.providers.openai").OpenAIProvider
    agent = ai.Agent(model("bench", provider=provider(base_url=f"{job.url}/v1", api_key="k")))
    histories: dict[str, Any] = {}

    def list_dir(path: str) -> str:
        """List a directory."""
        return "\n".join(sorted(entry.name for entry in Path(job.folder, "workspace", path).iterdir()))

    agent.tool_plain(list_dir)
    if job.history:
        histories["s0"] = _history(import_module("pydantic_ai.messages"), job.history)

    async def turn(key: str, text: str) -> None:
        async with agent.run_stream(text, message_history=histories.get(key)) as result:
            assert "considered" in await result.get_output()
        histories[key] = result.all_messages()

    yield turn


def _history(messages: Any, count: int) -> list[Any]:
    out: list[Any] = []
    for number in range(count // 2):
        asked = messages.UserPromptPart(f"Question {number}: what do you make of it?")
        said = messages.TextPart(f"About {number} I would say that it is what it is.")
        out += [messages.ModelRequest(parts=[asked]), messages.ModelResponse(parts=[said])]
    return out


if __name__ == "__main__":
    main(opened)
