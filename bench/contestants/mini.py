"""``agent-mini``: its loop and its session files, as its ``chat`` command uses them; it has no documented Python interface."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from driver import Job, Turn, main


@asynccontextmanager
async def opened(job: Job) -> AsyncGenerator[Turn]:
    """Yield runs of its loop, each session saved after each, as ``chat`` does."""
    os.environ["AGENT_MINI_HOME"] = job.folder
    loop: Any = import_module("agent_mini.loop")  # Any: not installed where this is checked
    sessions: Any = import_module("agent_mini.sessions")
    memory: Any = import_module("agent_mini.memory")
    settings: Any = import_module("agent_mini.config")
    workspace = Path(job.folder, "workspace")
    local = {"baseUrl": f"{job.url}/v1", "model": "bench", "apiKey": "k"}
    config = settings.with_defaults(
        {
            "provider": "local",
            "providers": {"local": local},
            "workspace": str(workspace),
            "agent": {"contextWindow": job.window},
        }
    )
    provider = import_module("agent_mini.providers").create_provider(config)
    agent = loop.AgentLoop(provider, config, memory.Memory(Path(job.folder, "memory.json"), max_entries=1000))
    talks: dict[str, list[dict[str, str]]] = {"s0": [_message(number) for number in range(job.history)]}

    async def ignore(delta: str) -> None:
        """Take a piece of the answer."""

    async def turn(key: str, text: str) -> None:
        talk = talks.setdefault(key, [])
        answer = await agent.run(text, talk, on_stream=ignore)
        assert "considered" in answer, answer
        sessions.save_session(key, talk)

    yield turn
    await agent.close()


def _message(number: int) -> dict[str, str]:
    if number % 2:
        return {"role": "assistant", "content": f"About {number} I would say that it is what it is."}
    return {"role": "user", "content": f"Question {number}: what do you make of it?"}


if __name__ == "__main__":
    main(opened)
