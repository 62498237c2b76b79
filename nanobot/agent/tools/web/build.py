"""The web tools, from their settings."""

from collections.abc import Mapping
from typing import Any

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.web.extraction import Extractor
from nanobot.agent.tools.web.fetch import WebFetch
from nanobot.agent.tools.web.fetching import Fetcher
from nanobot.agent.tools.web.guard import Guard, Resolve, system_resolve
from nanobot.agent.tools.web.search import WebSearch, by_ddgs, by_engine
from nanobot.agent.tools.web.settings import WebSettings
from nanobot.agent.tools.web.wire import MakeTransport, Wire
from nanobot.providers.endpoint import usable_proxy


def web_tools(
    settings: WebSettings,
    *,
    environ: Mapping[str, str],
    resolve: Resolve = system_resolve,
    make_transport: MakeTransport | None = None,
) -> list[Tool[Any]]:
    """Return the tools that the settings want.

    Args:
        settings: ``tools.web``.
        environ: our environment: certificates, and what Python needs; proxies and keys of it are not used.
        resolve: finds a host's addresses.
        make_transport: carries requests.

    Raises:
        ConfigError: the proxy cannot be used.
    """
    proxy = usable_proxy(settings.proxy.get_secret_value(), "tools.web.proxy") if settings.proxy else None
    wire = Wire(environ, make_transport=make_transport)
    tools: list[Tool[Any]] = []
    if settings.enabled:
        fetcher = Fetcher(
            Guard(settings.allow, resolve=resolve),
            wire,
            max_bytes=settings.max_bytes,
            timeout_s=settings.timeout_s,
            proxy=proxy,
        )
        extractor = Extractor(environ)
        # Others' documents may be before ours: the wait for a turn counts too
        tools.append(WebFetch(fetcher, extractor, timeout_s=settings.timeout_s + 2 * extractor.longest_s))
    if (service := settings.search.provider) is not None:
        search = by_ddgs(proxy=proxy) if service == "ddgs" else by_engine(service, settings.search, wire, proxy=proxy)
        tools.append(WebSearch(search, service=service))
    return tools
