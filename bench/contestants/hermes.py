"""``hermes-agent``: ``AIAgent(...).run_conversation(message)``, as its documentation shows; synchronous, so in threads."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from driver import Job, Turn, main


@asynccontextmanager
async def opened(job: Job) -> AsyncGenerator[Turn]:
    """Yield runs of one agent a session, without its web, browser and terminal toolsets."""
    os.environ["HERMES_HOME"] = job.folder
    agents: dict[str, Any] = {}
    make: Any = await asyncio.to_thread(lambda: import_module("run_agent").AIAgent)  # Any: not installed here

    def run(key: str, text: str) -> None:
        if key not in agents:
            agents[key] = make(
                base_url=f"{job.url}/v1",
                api_key="k",
                model="bench",
                quiet_mode=True,
                enabled_toolsets=["file"],
                session_id=key,
                skip_memory=True,
            )
        answer = agents[key].run_conversation(text)
        assert "considered" in answer["final_response"], answer

    async def turn(key: str, text: str) -> None:
        await asyncio.to_thread(run, key, text)

    yield turn


if __name__ == "__main__":
    main(opened)
