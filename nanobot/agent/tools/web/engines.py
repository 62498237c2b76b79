"""What the search services are asked, and what their answers say.  Pure: requests and answers are values.

Brave (api.search.brave.com), Tavily (api.tavily.com), Exa (api.exa.ai), and SearXNG, which people run themselves.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, cast
from urllib.parse import urlencode

from nanobot.messages import JsonObject
from nanobot.values import frozen

MAX_SNIPPET_CHARS = 400
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


@frozen
class Hit:
    """One result, in somebody else's words."""

    title: str
    url: str
    snippet: str


@frozen
class Asking:
    """A request: the address with its query, and for a POST its body."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None


@frozen
class Engine:
    """One service: how it is asked for ``count`` results, and where its answer holds them.

    ``names`` are the fields of title, address and snippet; the first that is there counts.
    """

    base_url: str
    ask: Callable[[str, int, str, str], Asking]
    where: tuple[str, ...]
    names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

    def hits(self, answer: object, count: int) -> list[Hit]:
        """Return the results of an answer; what has no address is left out, and what is no answer has none."""
        for step in self.where:
            answer = cast("JsonObject", answer).get(step) if isinstance(answer, dict) else None
        return list(self._hits(answer))[:count]

    def _hits(self, items: object) -> Iterator[Hit]:
        for item in cast("list[object]", items) if isinstance(items, list) else ():
            if not isinstance(item, dict):
                continue
            title, url, snippet = (_first(cast("JsonObject", item), names) for names in self.names)
            if re.match(r"https?://[^\s]+$", url):
                yield Hit(tidy(title) or url, url, tidy(snippet))


def tidy(text: str) -> str:
    """Return a service's text on one line, without its tags, and not a long one."""
    line = " ".join(html.unescape(_TAG.sub("", text[: 20 * MAX_SNIPPET_CHARS])).split())
    return line if len(line) <= MAX_SNIPPET_CHARS else line[: MAX_SNIPPET_CHARS - 1] + "…"


def _first(item: JsonObject, names: tuple[str, ...]) -> str:
    for name in names:
        value: Any = item.get(name)
        if isinstance(value, list):  # Exa's highlights
            value = " … ".join(str(one) for one in cast("list[object]", value))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _brave(query: str, count: int, key: str, base_url: str) -> Asking:
    asked = urlencode({"q": query, "count": min(count, 20)})
    return Asking(f"{base_url}/res/v1/web/search?{asked}", {"X-Subscription-Token": key})


def _searxng(query: str, count: int, key: str, base_url: str) -> Asking:
    asked = urlencode({"q": query, "format": "json"})
    return Asking(f"{base_url}/search?{asked}", {"Authorization": f"Bearer {key}"} if key else {})


def _tavily(query: str, count: int, key: str, base_url: str) -> Asking:
    body: JsonObject = {"query": query, "max_results": count}
    return _post(f"{base_url}/search", {"Authorization": f"Bearer {key}"}, body)


def _exa(query: str, count: int, key: str, base_url: str) -> Asking:
    body: JsonObject = {"query": query, "numResults": count, "contents": {"highlights": {"numSentences": 2}}}
    return _post(f"{base_url}/search", {"x-api-key": key}, body)


def _post(url: str, headers: Mapping[str, str], body: JsonObject) -> Asking:
    return Asking(url, {**headers, "Content-Type": "application/json"}, json.dumps(body).encode())


_USUAL = (("title",), ("url",), ("content",))
ENGINES = {
    "brave": Engine(
        "https://api.search.brave.com", _brave, ("web", "results"), (("title",), ("url",), ("description",))
    ),
    "tavily": Engine("https://api.tavily.com", _tavily, ("results",), _USUAL),
    "searxng": Engine("", _searxng, ("results",), _USUAL),
    "exa": Engine("https://api.exa.ai", _exa, ("results",), (("title",), ("url",), ("highlights", "summary", "text"))),
}
