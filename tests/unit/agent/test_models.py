"""Which window a reference has: the smallest of those that may have to answer."""

from nanobot.agent.models import ConfiguredModels
from nanobot.agent.settings import AgentSettings
from nanobot.providers.settings import OpenAISettings
from tests.fakes.provider import ScriptedProvider


def _models(*refs: str, window: int | None = None) -> ConfiguredModels:
    settings = {
        "big": OpenAISettings(context_window=200_000),
        "small": OpenAISettings(context_window=32_000),
    }
    return ConfiguredModels(
        refs,
        settings,
        agent=AgentSettings(context_window=window),
        environ={},
        instead=ScriptedProvider(),
        around=lambda provider: provider,
    )


def test_a_chain_has_the_window_of_its_smallest_model() -> None:
    """A request that fits the first model alone would overflow when the fallback has to answer it."""
    models = _models("big/a", "small/b")

    assert models.resolve(None).window == 32_000
    assert models.resolve("big/a").window == 200_000


def test_the_agents_own_window_wins() -> None:
    """What a person configured is believed."""
    assert _models("big/a", "small/b", window=64_000).resolve(None).window == 64_000
