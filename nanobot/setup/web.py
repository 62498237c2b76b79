"""Ask a server one thing and get JSON back, with the standard library alone: setting up needs no SDK.

Errors never hold an address: a bot's address holds its token.
"""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, Protocol, cast

from nanobot.messages import JsonObject
from nanobot.values import frozen

MAX_BYTES = 4_000_000


class Unreachable(Exception):
    """There was no answer; the text says why in a few words."""


@frozen(kw_only=True)
class Answer:
    """A server's answer.  ``body`` is empty where it was no JSON object; ``date`` is the server's clock, if it told."""

    status: int
    body: JsonObject = field(default_factory=dict[str, Any])
    date: datetime | None = None


class Fetch(Protocol):
    """How servers are asked; a parameter, so that tests can answer."""

    def __call__(self, url: str, *, data: Mapping[str, object] | None = None, timeout_s: float = 10.0) -> Answer:
        """Get, or post ``data`` as JSON.

        Raises:
            Unreachable: there was no answer.
        """
        ...


def fetch(url: str, *, data: Mapping[str, object] | None = None, timeout_s: float = 10.0) -> Answer:
    """Ask over the network; servers on this machine are never asked through a proxy."""
    from nanobot.providers.endpoint import is_private

    body = None if data is None else json.dumps(data).encode()
    headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_private(url) else []))
    try:
        with opener.open(urllib.request.Request(url, body, headers), timeout=timeout_s) as response:
            return _answer(int(response.status), response.read(MAX_BYTES), cast("Mapping[str, str]", response.headers))
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error.read(MAX_BYTES), cast("Mapping[str, str]", error.headers))
    except urllib.error.URLError as error:
        raise Unreachable(_why(error.reason)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(_why(error)) from None


def _answer(status: int, raw: bytes, headers: Mapping[str, str]) -> Answer:
    try:
        found: Any = json.loads(raw.decode("utf-8", "replace"))  # Any: checked below
    except ValueError:
        found = {}
    return Answer(status=status, body=cast("JsonObject", found) if isinstance(found, dict) else {}, date=_date(headers))


def _date(headers: Mapping[str, str]) -> datetime | None:
    try:
        return parsedate_to_datetime(headers["Date"]) if headers.get("Date") else None
    except ValueError:
        return None


def _why(reason: object) -> str:
    match reason:
        case TimeoutError():
            return "it does not answer in time"
        case socket.gaierror():
            return "its name cannot be looked up"
        case ConnectionRefusedError():
            return "nothing listens there"
        case OSError() if reason.strerror:
            return reason.strerror
        case _:
            return type(reason).__name__
