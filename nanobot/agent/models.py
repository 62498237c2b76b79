"""Which models this agent can use: a reference like ``openai/gpt-5`` resolved to a provider that is ready to be asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nanobot.providers.base import LLMProvider


@dataclass(frozen=True, slots=True, kw_only=True)
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
