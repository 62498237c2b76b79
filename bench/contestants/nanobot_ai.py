"""``nanobot-ai``: ``Nanobot.from_config(path).run(message, session_key=…)``, as its documentation shows."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from driver import Job, Turn, main


@asynccontextmanager
async def opened(job: Job) -> AsyncGenerator[Turn]:
    """Yield Turns of a bot with the default settings."""
    package: Any = import_module("nanobot")  # Any: not installed where this is checked
    folder = Path(job.folder)
    config = folder / "config.json"
    defaults = {"workspace": str(folder / "workspace"), "model": "bench", "provider": "custom"}
    config.write_text(
        json.dumps(
            {
                "agents": {"defaults": {**defaults, "contextWindowTokens": job.window}},
                "providers": {"custom": {"apiKey": "k", "apiBase": f"{job.url}/v1"}},
            }
        )
    )
    bot = package.Nanobot.from_config(config)
    if job.history:
        session = bot._loop.sessions.get_or_create("bench:s0")
        session.messages += [_message(number) for number in range(job.history)]
        bot._loop.sessions.save(session)

    async def turn(key: str, text: str) -> None:
        result = await bot.run(text, session_key=f"bench:{key}")
        assert "considered" in result.content, result.content

    yield turn


def _message(number: int) -> dict[str, str]:
    at = "2026-11-30T12:00:00"
    if number % 2:
        return {"role": "assistant", "content": f"About {number} I would say that it is what it is.", "timestamp": at}
    return {"role": "user", "content": f"Question {number}: what do you make of it?", "timestamp": at}


if __name__ == "__main__":
    main(opened)
