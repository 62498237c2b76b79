"""Narrowing of parsed JSON, the one way a rule refuses, and JSON as bytes."""

import json
from dataclasses import dataclass, field
from typing import TypeAlias, cast

Object: TypeAlias = dict[str, object]

_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_escaped = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


class Refused(Exception):
    """A request that the vendor would not take."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "", param: str | None = None, code: str | None = None
    ):
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code


@dataclass(slots=True)
class Policy:
    """How strict one wire of one server is.  ``known`` holds the hashes of messages already found legal by themselves."""

    window_tokens: int | None = None
    strict_roles: bool = False
    strict_thinking: bool = False
    lenient_fields: frozenset[str] = frozenset()
    known: set[int] = field(default_factory=set[int])


def names(text: str) -> frozenset[str]:
    """Return the words of ``text``."""
    return frozenset(text.split())


def obj(value: object) -> Object | None:
    """Return ``value`` if it is a JSON object."""
    return cast("Object", value) if isinstance(value, dict) else None


def arr(value: object) -> list[object] | None:
    """Return ``value`` if it is a JSON array."""
    return cast("list[object]", value) if isinstance(value, list) else None


def objs(value: object) -> list[Object]:
    """Return the objects in ``value`` if it is an array, else none."""
    return [cast("Object", item) for item in arr(value) or [] if isinstance(item, dict)]


def whole(value: object) -> int | None:
    """Return ``value`` if it is an integer and no boolean."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def to_bytes(value: object) -> bytes:
    """Encode as JSON in UTF-8; what holds lone surrogates is escaped, as some servers do."""
    try:
        return _plain.encode(value).encode()
    except UnicodeEncodeError:
        return _escaped.encode(value).encode()
