"""``web_search``: a few results of the service that the owner chose."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.agent.tools.web.engines import ENGINES, Asking, Hit, tidy
from nanobot.agent.tools.web.settings import SearchSettings
from nanobot.agent.tools.web.targets import parse_url
from nanobot.agent.tools.web.wire import Wire, take
from nanobot.errors import ToolError
from nanobot.session.entries import Effect

SEARCH_S = 20.0
_MAX_BYTES = 2_000_000
_MAX_RESULTS = 20

Search: TypeAlias = Callable[[str, int], Awaitable[Sequence[Hit]]]


class WebSearchArguments(ToolArguments):
    query: str = Field(min_length=1, max_length=400)
    count: int = Field(default=8, ge=1, le=_MAX_RESULTS, description="Most results")


class WebSearch(BaseTool[WebSearchArguments]):
    """Searches through one service.

    Args:
        search: asks it.
        service: its name.
    """

    name = "web_search"
    description = "Search the web; return titles, URLs and snippets. Read a page with web_fetch."
    arguments = WebSearchArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    outward = True
    timeout_s: float | None = SEARCH_S + 5
    summary_fields = ("query",)

    def __init__(self, search: Search, *, service: str) -> None:
        self._search = search
        self._service = service

    async def run(self, arguments: WebSearchArguments, context: ToolContext) -> Sourced:
        """Return a numbered list."""
        try:
            async with asyncio.timeout(SEARCH_S):
                hits = await self._search(arguments.query, arguments.count)
        except TimeoutError:
            raise ToolError(f"{self._service} did not answer within {SEARCH_S:g} s.") from None
        return Sourced(_listed(hits), origin=f"web search {self._service}")


def _listed(hits: Sequence[Hit]) -> str:
    if not hits:
        return "Nothing was found; try other words."
    return "\n".join(f"{n}. {hit.title}\n   {hit.url}\n   {hit.snippet}".rstrip() for n, hit in enumerate(hits, 1))


# -- services with an interface ------------------------------------------------------------------------------------------------


def by_engine(name: str, settings: SearchSettings, wire: Wire, *, proxy: str | None) -> Search:
    """Return a search through a service that is asked over HTTP.  Where it is, is the owner's choice and not checked."""
    engine = ENGINES[name]
    base_url = (settings.base_url or engine.base_url).rstrip("/")

    async def search(query: str, count: int) -> Sequence[Hit]:
        asking = engine.ask(query, count, settings.key, base_url)
        return engine.hits(await _answer(wire, name, asking, proxy), count)

    return search


async def _answer(wire: Wire, name: str, asking: Asking, proxy: str | None) -> object:
    method = "GET" if asking.body is None else "POST"
    headers = {"Accept": "application/json", **asking.headers}
    async with wire.send(
        parse_url(asking.url), None, method=method, headers=headers, content=asking.body, proxy=proxy
    ) as response:
        if response.status_code != 200:
            raise ToolError(_refusal(name, response.status_code))
        body, _ = await take(response, max_bytes=_MAX_BYTES)
    try:
        return json.loads(bytes(body.data))
    except (ValueError, RecursionError):
        hint = " A SearXNG must allow format json in its settings." if name == "searxng" else ""
        raise ToolError(f"{name} answered with something that is no JSON.{hint}") from None


def _refusal(name: str, status: int) -> str:
    match status:
        case 401 | 403:
            what = "does not take the key; the owner can look at tools.web.search.api_key"
            return f"{name} {what}." + (
                " A SearXNG must allow format json in its settings." if name == "searxng" else ""
            )
        case 402 | 429 | 432 | 433:
            return f"{name} allows no more searches for now; wait, or work with what is known."
        case _ if status >= 500:
            return f"{name} has a problem of its own ({status}); try again later."
        case _:
            return f"{name} did not accept the search ({status}); try other words."


# -- without a key -------------------------------------------------------------------------------------------------------------


def by_ddgs(*, proxy: str | None, load: Callable[[], Any] | None = None) -> Search:
    """Return a search through the ddgs package, which asks public search engines.

    It runs in a thread that cannot be stopped, but has a limit of its own.
    """

    def found(query: str, count: int) -> list[Hit]:
        make = (load or _ddgs)()
        results = cast(
            "list[Mapping[str, object]]", make(proxy=proxy, timeout=int(SEARCH_S / 2)).text(query, max_results=count)
        )
        return [
            Hit(tidy(str(r.get("title", ""))), str(r.get("href", "")), tidy(str(r.get("body", "")))) for r in results
        ]

    async def search(query: str, count: int) -> Sequence[Hit]:
        try:
            return (await asyncio.to_thread(found, query, count))[:count]
        except ToolError:
            raise
        except Exception as error:  # whatever that library raises: it reads pages that change without notice
            if "no results" in str(error).lower():  # its exception for that
                return []
            raise ToolError(
                f"the search engines did not answer ({type(error).__name__}); wait a little, or try other words."
            ) from error

    return search


def _ddgs() -> Any:  # Any: its class; the package is an extra
    try:
        from ddgs import DDGS  # pyright: ignore[reportMissingImports, reportUnknownVariableType]  # lazily: an extra, 28 MB
    except ImportError:
        raise ToolError("web_search through ddgs needs one more package: pip install 'nanobot[web]'") from None
    return DDGS  # pyright: ignore[reportUnknownVariableType]  # as above
