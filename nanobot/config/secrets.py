"""The values in a configuration that must never show, for the redactor.  Pure."""

import re
from collections.abc import Iterator
from typing import cast

from pydantic import BaseModel, SecretStr

from nanobot.agent.tools.mcp.settings import McpServerSettings
from nanobot.redaction import parts_of, password_in

# What servers that want no key are given in its place: taken out of texts, they would take ordinary words along.
_PLACEHOLDERS = frozenset(
    (
        *("ollama", "lm-studio", "lmstudio", "llama.cpp", "llamacpp", "vllm", "localai", "local", "localhost"),
        *(
            "not-needed",
            "notneeded",
            "not-required",
            "no-key",
            "no-key-needed",
            "no-key-required",
            "unused",
            "anything",
        ),
        *("dummy", "dummy-key", "placeholder", "changeme", "api-key", "apikey", "your-api-key", "nothing", "secret"),
    )
)
_NAMED = re.compile(r"(?:key|token|secret|password|authorization)$", re.IGNORECASE)


def secrets_in(value: object) -> list[str]:
    """Return the values that must never show, wherever in the settings they stand."""
    return [secret for secret in dict.fromkeys(_found(value)) if secret.casefold() not in _PLACEHOLDERS]


def _found(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield from parts_of(value.get_secret_value())
        case McpServerSettings():  # it knows which of its many values are secrets
            for secret in value.secrets():
                yield from parts_of(secret)
        case BaseModel():
            for name in type(value).model_fields:
                yield from _found(getattr(value, name))
        case dict():
            for name, item in cast("dict[object, object]", value).items():
                if isinstance(item, str) and _NAMED.search(str(name)):
                    yield item
                yield from _found(item)
        case list() | tuple():
            for item in cast("list[object]", value):
                yield from _found(item)
        case str() if "://" in value:
            yield from password_in(value)
        case _:
            return
