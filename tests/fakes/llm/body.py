"""A request body, parsed once, with the bytes of every prompt element beside it.

The elements (tools, system, each message) are what a provider's prompt cache sees, so they are kept as written, without the marks
that only steer the cache.
"""

import json
import re
from dataclasses import dataclass
from typing import NamedTuple, cast

from tests.fakes.llm.shapes import Object, arr, obj, objs

_SPACES = frozenset(" \t\n\r")
_space = re.compile(r"[ \t\n\r]*")
_surrogate = re.compile(r"\\u[dD][89a-fA-F]")
_mark = re.compile(r',\s*"cache_control":\s*\{[^{}]*\}|"cache_control":\s*\{[^{}]*\}\s*,')
IMAGE_BYTES = 6_000  # an image counts as much text, whatever its size


class NotJson(ValueError):
    """The body is no JSON object that a vendor would parse."""


class Element(NamedTuple):
    """One part of the prompt: its text as sent, without marks; whether it had one; its size in bytes."""

    raw: str
    marked: bool
    size: int


@dataclass(frozen=True, slots=True)
class Body:
    """The parsed fields, and the elements in the order in which a provider reads them.

    ``rows`` are the texts of the messages as sent, one for each entry of ``fields["messages"]``.
    """

    fields: Object
    elements: list[Element]
    rows: list[str]


def _refuse_constant(name: str) -> object:
    raise NotJson(f"{name} is no JSON value")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def read_body(raw: bytes) -> Body:
    """Parse a request body.

    Raises:
        NotJson: not UTF-8, not JSON, not an object, or with lone surrogates.
    """
    try:
        text = raw.decode()
        fields, parts = _fields(text)
        if _surrogate.search(text):
            json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise NotJson(f"no low surrogate in string: {error.reason}") from error
    except (UnicodeDecodeError, IndexError, RecursionError, json.JSONDecodeError) as error:
        raise NotJson(str(error)) from error
    rows = parts.get("messages", [])
    values = {name: arr(fields.get(name)) or [] for name in ("tools", "messages")}
    elements = [_element(part, value) for part, value in zip(parts.get("tools", []), values["tools"], strict=False)]
    elements += [_element(part, fields["system"]) for part in parts.get("system", [])]
    elements += [_element(part, value) for part, value in zip(rows, values["messages"], strict=False)]
    return Body(fields, elements, rows)


def _fields(text: str) -> tuple[Object, dict[str, list[str]]]:
    fields: Object = {}
    parts: dict[str, list[str]] = {}
    at = _skip(text, 0)
    if text[at : at + 1] != "{":
        raise NotJson("the body must be a JSON object")
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = cast("tuple[object, int]", _decoder.raw_decode(text, at))
        at = _skip(text, _expect(text, _skip(text, at), ":"))
        if not isinstance(key, str):
            raise NotJson("object keys must be strings")
        start = at
        if key in ("messages", "tools") and text[at] == "[":
            fields[key], parts[key], at = _array(text, at)
        else:
            fields[key], at = _decoder.raw_decode(text, at)
            parts[key] = [text[start:at]]
        at = _skip(text, at)
        if text[at] != "}":
            at = _skip(text, _expect(text, at, ","))
            if text[at] == "}":
                raise NotJson("trailing comma")
    if _skip(text, at + 1) != len(text):
        raise NotJson("extra data after the object")
    return fields, parts


def _array(text: str, at: int) -> tuple[list[object], list[str], int]:
    values: list[object] = []
    parts: list[str] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        value, end = cast("tuple[object, int]", _decoder.raw_decode(text, at))
        values.append(value)
        parts.append(text[at:end])
        at = _skip(text, end)
        if text[at] != "]":
            at = _skip(text, _expect(text, at, ","))
            if text[at] == "]":
                raise NotJson("trailing comma")
    return values, parts, at + 1


def _skip(text: str, at: int) -> int:
    if text[at : at + 1] not in _SPACES:
        return at
    match = _space.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, char: str) -> int:
    if text[at] != char:
        raise NotJson(f"expected {char!r} at position {at}")
    return at + 1


def _element(raw: str, value: object) -> Element:
    marked = '"cache_control"' in raw
    if marked:
        raw, count = _mark.subn("", raw)
        marked = count > 0
    size = len(raw) if raw.isascii() else len(raw.encode())
    if "base64" in raw and (row := obj(value)):
        size -= sum(n - IMAGE_BYTES for n in _image_sizes(row.get("content")))
    return Element(raw, marked, size)


def _image_sizes(content: object) -> list[int]:
    sizes: list[int] = []
    for block in objs(content):
        source = obj(block.get("source")) or obj(block.get("image_url")) or {}
        encoded = source.get("data", source.get("url"))
        if isinstance(encoded, str):
            sizes.append(len(encoded))
        sizes += _image_sizes(block.get("content"))
    return sizes
