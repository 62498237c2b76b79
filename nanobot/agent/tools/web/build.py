"""The web tools, from their settings.  What they run with is made, and imported, when they first run."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.web.fetch import WebFetch
from nanobot.agent.tools.web.settings import WebSettings
from nanobot.providers.endpoint import usable_proxy

if TYPE_CHECKING:
    from nanobot.agent.tools.web.guard import Resolve
    from nanobot.agent.tools.web.pages import Pages
    from nanobot.agent.tools.web.wire import MakeTransport

_READING_S = 15.0  # of a document; HTML that is too much is read a second time, in the plain way
_LONGEST_S = 2 * _READING_S + 2


def web_tools(
    settings: WebSettings,
    *,
    environ: Mapping[str, str],
    resolve: "Resolve | None" = None,
    make_transport: "MakeTransport | None" = None,
) -> list[Tool[Any]]:
    """Return the tools that the settings want.

    Args:
        settings: ``tools.web``.
        environ: our environment: certificates, and what Python needs; proxies and keys of it are not used.
        resolve: finds a host's addresses; None asks the system.
        make_transport: carries requests.

    Raises:
        ConfigError: the proxy cannot be used.
    """
    proxy = usable_proxy(settings.proxy.get_secret_value(), "tools.web.proxy") if settings.proxy else None
    tools: list[Tool[Any]] = []
    if settings.enabled:
        # Others' documents may be before ours: the wait for a turn counts too
        make = partial(_pages, settings, environ, proxy, resolve, make_transport)
        tools.append(WebFetch(make, timeout_s=settings.timeout_s + 2 * _LONGEST_S))
    if (service := settings.search.provider) is not None:
        from nanobot.agent.tools.web.search import WebSearch, by_ddgs, by_engine  # lazily: for those who chose one
        from nanobot.agent.tools.web.wire import Wire

        wire = Wire(environ, make_transport=make_transport)
        search = by_ddgs(proxy=proxy) if service == "ddgs" else by_engine(service, settings.search, wire, proxy=proxy)
        tools.append(WebSearch(search, service=service))
    return tools


def _pages(
    settings: WebSettings,
    environ: Mapping[str, str],
    proxy: str | None,
    resolve: "Resolve | None",
    make_transport: "MakeTransport | None",
) -> "Pages":
    from nanobot.agent.tools.web.extraction import Extractor  # lazily: for calls
    from nanobot.agent.tools.web.fetching import Fetcher
    from nanobot.agent.tools.web.guard import Guard, system_resolve
    from nanobot.agent.tools.web.pages import Pages
    from nanobot.agent.tools.web.wire import Wire

    fetcher = Fetcher(
        Guard(settings.allow, resolve=resolve or system_resolve),
        Wire(environ, make_transport=make_transport),
        max_bytes=settings.max_bytes,
        timeout_s=settings.timeout_s,
        proxy=proxy,
    )
    return Pages(fetcher, Extractor(environ, limit_s=_READING_S))
