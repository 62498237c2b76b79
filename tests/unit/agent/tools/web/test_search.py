"""web_search: who is asked what, and what the model sees of the answers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.settings import ToolSettings
from nanobot.agent.tools.web.build import web_tools
from nanobot.agent.tools.web.engines import ENGINES
from nanobot.agent.tools.web.search import WebSearch, by_ddgs
from nanobot.agent.tools.web.settings import SearchSettings, WebSettings
from tests.fakes.web import WebServer, reply
from tests.unit.agent.tools.conftest import Bench

_HIT = {"title": "Rye", "url": "https://a.test/"}
_BRAVE_HIT = {"title": "<strong>Rye</strong>", "url": "https://a.test/", "description": "About &amp; more"}
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "brave": ("/res/v1/web/search?q=rye+bread&count=2", {"web": {"results": [_BRAVE_HIT]}}),
    "searxng": ("/search?q=rye+bread&format=json", {"results": [{**_HIT, "content": "About & more"}]}),
    "tavily": ("/search", {"results": [{**_HIT, "content": "About & more"}]}),
    "exa": ("/search", {"results": [{**_HIT, "highlights": ["About & more"]}]}),
}
_NAMES = st.sampled_from(["web", "results", "title", "url", "content", "highlights"])
_JSON = st.recursive(
    st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(_NAMES, inner)
)
KEY = "k-123456789"


def search_tool(provider: str, web: WebServer) -> Tool[Any]:
    """Return web_search through a service on this machine, under a path."""
    search = {"provider": provider, "api_key": KEY, "base_url": web.url("/api/")}
    (tool,) = web_tools(WebSettings.model_validate({"enabled": False, "search": search}), environ={})
    return tool


@pytest.mark.parametrize("provider", ANSWERS)
async def test_each_service_is_asked_in_its_way(bench: Bench, web: WebServer, provider: str) -> None:
    """With the key where it belongs, and never in the address."""
    path, answer = ANSWERS[provider]
    web.pages[f"/api{path}"] = reply(json.dumps(answer), kind="application/json")

    text = await bench.text(search_tool(provider, web), query="rye bread", count=2)

    assert text == "1. Rye\n   https://a.test/\n   About & more"
    (asked,) = web.requests
    assert KEY in asked
    assert KEY not in asked.splitlines()[0]
    if asked.startswith("POST"):
        assert json.loads(asked.partition("\r\n\r\n")[2])["query"] == "rye bread"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("401 No", "does not take the key"), ("429 Slow", "no more searches"), ("500 Oh", "problem of its own"),
        ("404 No", "did not accept"), ("302 Found", "did not accept"),
    ],
)  # fmt: skip
async def test_refusals_are_said(bench: Bench, web: WebServer, status: str, said: str) -> None:
    """In a way that tells the model whether to go on, and without the key."""
    web.pages["/api/search"] = reply("no", status=status)

    error = await bench.error(search_tool("tavily", web), query="x")

    assert said in error
    assert KEY not in error


async def test_an_answer_that_is_none_is_said(bench: Bench, web: WebServer) -> None:
    """And so is an empty one."""
    web.pages["/api/search"] = reply("<html>login</html>")
    assert "no JSON" in await bench.error(search_tool("exa", web), query="x")

    web.pages["/api/search"] = reply('{"results": []}', kind="application/json")
    assert "Nothing was found" in await bench.text(search_tool("exa", web), query="x")


@given(_JSON)
def test_any_answer_is_read(answer: object) -> None:
    """Whatever JSON a service sends."""
    for engine in ENGINES.values():
        assert all(hit.url.startswith("http") for hit in engine.hits(answer, 5))


class FakeDdgs:
    """Answers as the package does."""

    def __init__(self, *, proxy: str | None, timeout: int) -> None:
        self.timeout = timeout

    def text(self, query: str, *, max_results: int) -> list[dict[str, str]]:
        if query == "nothing":
            raise RuntimeError("No results found.")
        if query == "blocked":
            raise RuntimeError("403 Ratelimit from <server's words>")
        return [{"title": "Rye", "href": "https://a.test/", "body": "About"}] * (max_results + 1)


async def test_the_search_without_a_key(bench: Bench) -> None:
    """Runs in a thread; its errors are said without a server's words."""
    tool = WebSearch(by_ddgs(proxy=None, load=lambda: FakeDdgs), service="ddgs")

    assert await bench.text(tool, query="rye", count=1) == "1. Rye\n   https://a.test/\n   About"
    assert "Nothing was found" in await bench.text(tool, query="nothing")
    error = await bench.error(tool, query="blocked")
    assert "did not answer (RuntimeError)" in error
    assert "server's words" not in error


def test_nobody_is_asked_unless_chosen() -> None:
    """Without a provider there is no web_search."""
    names = {tool.name for tool in builtin_tools(ToolSettings(), environ={})}

    assert "web_fetch" in names
    assert "web_search" not in names


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"provider": "brave"}, "api_key"),
        ({"provider": "searxng"}, "base_url"),
        ({"provider": "bing"}, "provider"),
    ],
)
def test_half_a_choice_is_refused(given: dict[str, str], missing: str) -> None:
    """At the start, not at the first search."""
    with pytest.raises(ValidationError, match=missing):
        SearchSettings.model_validate(given)
