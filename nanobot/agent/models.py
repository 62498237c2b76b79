"""Which models this agent can use: a reference like ``openai/gpt-5`` resolved to a provider that is ready to be asked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from nanobot.agent.settings import AgentSettings
from nanobot.providers.base import LLMProvider
from nanobot.providers.factory import build, context_window
from nanobot.providers.settings import ProviderSettings
from nanobot.values import frozen


@frozen(kw_only=True)
class Model:
    """A model ready to be asked.

    ``ref`` is ``<provider name>/<model id>`` as configured; ``window`` counts prompt and answer together, in tokens.
    """

    provider: LLMProvider
    model: str
    ref: str
    window: int


class Models(Protocol):
    """Resolves references."""

    @property
    def refs(self) -> Sequence[str]:
        """The configured references, the default first."""
        ...

    @property
    def providers(self) -> Sequence[str]:
        """The names of the configured providers: any model of theirs can be asked for."""
        ...

    def resolve(self, ref: str | None) -> Model:
        """Return the model of a reference; None is the default, with its fallbacks.

        Raises:
            ConfigError: there is no such provider.
        """
        ...


class ConfiguredModels:
    """The ``Models`` of a configuration, each built when it is first asked for.

    Args:
        refs: the default model's reference, then its fallbacks'.
        providers: the configured providers by name.
        agent: the agent's settings, for retries and a window that wins over all others.
        environ: the environment, for proxies and certificates only.
        instead: answers for every reference, in the place of the configured providers.
        around: what each provider is wrapped into.
    """

    def __init__(
        self,
        refs: Sequence[str],
        providers: Mapping[str, ProviderSettings],
        *,
        agent: AgentSettings,
        environ: Mapping[str, str],
        instead: LLMProvider | None,
        around: Callable[[LLMProvider], LLMProvider],
    ) -> None:
        self.refs = refs
        self.providers = list(providers)
        self._settings = providers
        self._agent = agent
        self._environ = environ
        self._instead = instead
        self._around = around
        self._built: dict[str | None, Model] = {}

    def resolve(self, ref: str | None) -> Model:
        """See ``Models.resolve``."""
        if ref not in self._built:
            self._built[ref] = self._build(ref)
        return self._built[ref]

    async def close(self) -> None:
        """Close the providers that were built."""
        for model in self._built.values():
            await model.provider.close()

    def _build(self, ref: str | None) -> Model:
        refs = [ref] if ref else self.refs
        name = refs[0]
        smallest = min(context_window(self._settings, one) for one in refs)  # any of a chain may have to answer
        window = self._agent.context_window or smallest
        if self._instead is not None:
            provider, model = self._instead, name.partition("/")[2]
        else:
            provider, model = build(self._settings, refs, environ=self._environ, retry=self._agent.retry)
        return Model(provider=self._around(provider), model=model, ref=name, window=window)
