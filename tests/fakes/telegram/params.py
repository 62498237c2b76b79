"""A request's parameters, however they came: form, multipart or JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, cast
from urllib.parse import parse_qsl

from tests.fakes.telegram.rules import Refusal


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that came with a request."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters by name.  Forms carry text only, and structured values as JSON; the readers take both."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])  # Any: a request's own JSON
    files: Mapping[str, Upload] = field(default_factory=dict[str, Upload])

    def text(self, name: str, default: str = "") -> str:
        """Return a text parameter."""
        value = self.values.get(name, default)
        return value if isinstance(value, str) else json.dumps(value)

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a whole number."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        try:
            return int(value)
        except (TypeError, ValueError):
            raise Refusal(400, f'can\'t parse parameter "{name}": expected a number') from None

    def required(self, name: str) -> int:
        """Return a whole number that must be there."""
        value = self.number(name)
        if value is None:
            raise Refusal(400, f'parameter "{name}" is required')
        return value

    def flag(self, name: str) -> bool:
        """Return a yes or no, ``no`` by default."""
        return self.values.get(name) in (True, "true", "True", "1", 1)

    def parsed(self, name: str) -> Any:  # Any: whatever JSON the client sent
        """Return a structured value; None when it is missing."""
        value = self.values.get(name)
        if not isinstance(value, str) or not value:
            return value or None
        try:
            return json.loads(value)
        except ValueError:
            raise Refusal(400, f'can\'t parse "{name}" JSON object') from None


def read_params(headers: Mapping[str, str], body: bytes) -> Params:
    """Return what a request's body says."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body:
        return Params()
    if kind == "application/json":
        value = json.loads(body)
        return Params(cast("dict[str, Any]", value) if isinstance(value, dict) else {})
    if kind == "multipart/form-data":
        return _multipart(headers["content-type"], body)
    if kind == "application/x-www-form-urlencoded":
        return Params(dict(parse_qsl(body.decode(), keep_blank_values=True)))
    raise Refusal(400, f"unsupported content type {kind!r}")


def _multipart(content_type: str, body: bytes) -> Params:
    message = BytesParser(policy=HTTP).parsebytes(b"content-type: " + content_type.encode() + b"\r\n\r\n" + body)
    values: dict[str, str] = {}
    files: dict[str, Upload] = {}
    for part in message.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = cast("bytes", part.get_payload(decode=True))
        file_name = part.get_filename()
        if file_name is None:
            values[name] = data.decode()
        else:
            files[name] = Upload(file_name, data)
    return Params(values, files)
