"""The values in a configuration that must never show, for the redactor.  Pure."""

import re
from collections.abc import Iterator
from typing import cast

from pydantic import BaseModel, SecretStr

from nanobot.agent.tools.mcp.settings import McpServerSettings
from nanobot.redaction import parts_of, password_in

_NAMED = re.compile(r"(?:key|token|secret|password|authorization)$", re.IGNORECASE)


def secrets_in(value: object) -> list[str]:
    """Return the values that must never show, wherever in the settings they stand."""
    return list(dict.fromkeys(_found(value)))


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
