"""nanobot itself, as scripts use it: ``process_direct``, with durability on."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.contestants.driver import Job, Turn, main, save
from bench.history import seed
from bench.rig import Bare, Recording
from nanobot import Nanobot
from nanobot.config.settings import Settings
from nanobot.providers.adapter import resolve
from nanobot.providers.anthropic import AnthropicWire
from nanobot.providers.base import LLMProvider
from nanobot.providers.openai import OpenAIWire
from nanobot.providers.settings import AnthropicSettings, OpenAISettings


@asynccontextmanager
async def opened(job: Job) -> AsyncGenerator[Turn]:
    """Yield Turns of a bot with the default settings."""
    folder, recorded = Path(job.folder), list[Recording]()
    if job.history:
        await seed(folder / "data", job.history, key="bench:s0")

    def around(provider: LLMProvider) -> Recording:
        recorded.append(Recording(provider, keep=bool(job.bodies)))
        return recorded[-1]

    async with Nanobot(_settings(job, folder), environ={}, around=around) as bot:

        async def turn(key: str, text: str) -> None:
            result = await bot.process_direct(text, session_key=f"bench:{key}")
            assert result.error is None, result.error

        yield turn
    if job.bodies:
        requests = [request for one in recorded for request in one.requests][-job.turns * job.sessions * job.requests :]
        bare = _bare(job)
        save(job.bodies, [bare.body(request) for request in requests])
        await bare.close()


def _settings(job: Job, folder: Path) -> Settings:
    url = job.url if job.wire == "anthropic" else f"{job.url}/v1"
    agent = {"model": "local/bench", "context_window": job.window, "concurrency": job.slots}
    return Settings.model_validate(
        {
            "workspace": folder / "workspace",
            "data_dir": folder / "data",
            "providers": {"local": {"type": job.wire, "api_key": "k", "base_url": url}},
            "agent": agent,
        }
    )


def _bare(job: Job) -> Bare:
    if job.wire == "anthropic":
        settings = AnthropicSettings(base_url=job.url)
        remote = resolve("local", settings, base_url=job.url, key_variable="", environ={})
        return Bare(AnthropicWire(settings, remote, environ={}))
    settings = OpenAISettings(base_url=f"{job.url}/v1")
    remote = resolve("local", settings, base_url=f"{job.url}/v1", key_variable="", environ={})
    return Bare(OpenAIWire(settings, remote, environ={}))


if __name__ == "__main__":
    main(opened)
