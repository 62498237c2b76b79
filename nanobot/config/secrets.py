"""The values in a configuration that must never show, for the redactor.  Pure."""

import re
from collections.abc import Iterator
from typing import cast
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretStr

from nanobot.agent.tools.mcp.settings import McpServerSettings

_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Bot|ApiKey) +(\S+)", re.IGNORECASE)  # before a key in a header
_NAMED = re.compile(r"(?:key|token|secret|password|authorization)$", re.IGNORECASE)


def secrets_in(value: object) -> list[str]:
    """Return the values that must never show, wherever in the settings they stand."""
    return list(dict.fromkeys(_found(value)))


def _found(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield from _parts(value.get_secret_value())
        case McpServerSettings():  # it knows which of its many values are secrets
            for secret in value.secrets():
                yield from _parts(secret)
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
            yield from _password(value)
        case _:
            return


def _parts(secret: str) -> Iterator[str]:
    """Yield a secret, and what is secret about it by itself: a proxy's password, the key after ``Bearer``."""
    yield secret
    yield from _password(secret)
    if found := _SCHEME.fullmatch(secret):
        yield found[1]


def _password(url: str) -> Iterator[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
