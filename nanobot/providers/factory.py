"""Make providers from settings; the only place that knows all kinds.

Importing this imports no SDK, and building imports none either: an adapter loads its SDK at its first request, or in ``warm``.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

from nanobot.errors import ConfigError
from nanobot.providers.base import LLMProvider
from nanobot.providers.fallback import Fallback
from nanobot.providers.models import context_window as known_window
from nanobot.providers.offline import OfflineProvider
from nanobot.providers.retry import Retrying
from nanobot.providers.settings import (
    AnthropicSettings,
    OfflineSettings,
    OpenAISettings,
    ProviderSettings,
    RetrySettings,
)


def split_ref(ref: str, known: Mapping[str, ProviderSettings]) -> tuple[str, str]:
    """Return (provider name, model id) of ``<provider name>/<model id>``; a model id may hold slashes itself.

    Raises:
        ConfigError: it has no such form, or names no configured provider.
    """
    name, slash, model = ref.partition("/")
    if not slash or not name or not model:
        raise ConfigError(f"agent.model must look like <provider name>/<model id>, not {ref!r}.")
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"agent.model names the provider {name!r}, but providers: holds {names}.")
    return name, model


def build_one(name: str, settings: ProviderSettings, *, environ: Mapping[str, str]) -> LLMProvider:
    """Return the bare provider for these settings.

    Raises:
        ConfigError: the settings cannot be used.
    """
    match settings:
        case AnthropicSettings():
            from nanobot.providers.anthropic import anthropic_provider  # lazily: only what the config uses

            return anthropic_provider(name, settings, environ=environ)
        case OpenAISettings():
            from nanobot.providers.openai import openai_provider  # lazily, as above

            return openai_provider(name, settings, environ=environ)
        case OfflineSettings():
            return OfflineProvider(name)
        case _:
            assert_never(settings)


def build(
    settings: Mapping[str, ProviderSettings],
    refs: str | Sequence[str],
    *,
    environ: Mapping[str, str],
    retry: RetrySettings = RetrySettings(),  # noqa: B008  # frozen
) -> tuple[LLMProvider, str]:
    """Return (provider, model id) for the model references; several become a fallback chain, whose first id is returned.

    Args:
        settings: the configured providers by name.
        refs: ``<provider name>/<model id>``, or several in order of preference.
        environ: the environment, for proxies and certificates only.
        retry: how often and how patiently each model is asked again.

    Raises:
        ConfigError: a reference or its settings cannot be used.
    """
    wanted = [split_ref(ref, settings) for ref in ([refs] if isinstance(refs, str) else refs)]
    if not wanted:
        raise ConfigError("agent.model names no model.")
    made: dict[str, LLMProvider] = {}
    for name, _ in wanted:
        if name not in made:
            made[name] = _retrying(build_one(name, settings[name], environ=environ), settings[name], retry)
    first, model = wanted[0]
    if len(wanted) == 1:
        return made[first], model
    return Fallback([(made[name], one) for name, one in wanted]), model


def context_window(settings: Mapping[str, ProviderSettings], ref: str) -> int:
    """Return the window of the referenced model, in tokens: as its provider's settings say, or what is known of the model.

    Raises:
        ConfigError: the reference cannot be used.
    """
    name, model = split_ref(ref, settings)
    one = settings[name]
    own = None if isinstance(one, OfflineSettings) else one.context_window
    return own or known_window(model)


def _retrying(provider: LLMProvider, settings: ProviderSettings, retry: RetrySettings) -> LLMProvider:
    return provider if isinstance(settings, OfflineSettings) else Retrying(provider, retry)
