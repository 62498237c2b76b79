"""Follow a URL to its end, each step checked, in limited time and space."""

import asyncio
import re
from typing import TYPE_CHECKING

from nanobot.agent.tools.web.guard import Guard
from nanobot.agent.tools.web.targets import Target, parse_url, resolve_reference
from nanobot.agent.tools.web.wire import Wire, take
from nanobot.errors import ToolError
from nanobot.values import frozen

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 10
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_ACCEPT = "text/html,application/xhtml+xml,application/json,text/*;q=0.9,application/pdf;q=0.9,*/*;q=0.5"
_UNREAD = re.compile(r"(?:image|audio|video|font)/|application/(?:zip|gzip|x-tar|vnd\.|msword|wasm|x-executable)")


@frozen(kw_only=True)
class Page:
    """What a URL led to.

    ``hops`` are the URLs that redirected, in order; ``body`` is unpacked and empty when the type is not read; ``note`` says that it
    is not whole, and why.
    """

    target: Target
    hops: tuple[Target, ...]
    status: int
    content_type: str
    body: bytes
    length: int | None
    note: str


class Fetcher:
    """Fetches pages.

    Args:
        guard: decides what is connected to.
        wire: sends.
        max_bytes: most bytes of a page, on the wire and unpacked.
        timeout_s: for everything until the body is here.
        proxy: connect through it, except to what the owner opened by name or address; it resolves names itself.
    """

    def __init__(self, guard: Guard, wire: Wire, *, max_bytes: int, timeout_s: float, proxy: str | None = None) -> None:
        self._guard = guard
        self._wire = wire
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._proxy = proxy

    async def fetch(self, url: str) -> Page:
        """Return the page.

        Raises:
            ToolError: it is refused, or was not to be had.
        """
        target = parse_url(url)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(target)
        except TimeoutError:
            raise ToolError(f"it took longer than {self._timeout_s:g} s and was given up.") from None

    async def _follow(self, target: Target) -> Page:
        hops: list[Target] = []
        while True:
            step = await self._step(target, tuple(hops))
            if isinstance(step, Page):
                return step
            hops.append(target)
            if step in hops:
                raise ToolError(f"{step.authority} redirects in a circle; it may want cookies, which are not kept.")
            if len(hops) > MAX_REDIRECTS:
                raise ToolError(f"there were more than {MAX_REDIRECTS} redirects; the last led to {step.authority}.")
            target = step

    async def _step(self, target: Target, hops: tuple[Target, ...]) -> Page | Target:
        """Send one request; return the page, or where it redirects to."""
        proxied = self._proxy is not None and not self._is_opened(target)
        try:
            addresses = self._guard.check_name(target) if proxied else await self._guard.addresses(target)
        except ToolError as error:
            raise ToolError(f"after {len(hops)} redirects: {error}" if hops else str(error)) from None
        proxy = self._proxy if proxied else None
        async with self._wire.send(target, addresses, headers={"Accept": _ACCEPT}, proxy=proxy) as response:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return resolve_reference(target, location)
            return await self._page(target, hops, response)

    def _is_opened(self, target: Target) -> bool:
        allow = self._guard.allow
        by_address = target.literal is not None and allow.has_address(target.literal, target.port)
        return by_address or allow.has_name(target)

    async def _page(self, target: Target, hops: tuple[Target, ...], response: "httpx2.Response") -> Page:
        content_type = _printable(response.headers.get("content-type", ""))
        declared = response.headers.get("content-length", "")
        length = int(declared) if re.fullmatch(r"[0-9]{1,15}", declared) else None
        body, note = b"", ""
        if not _UNREAD.match(content_type.lower()):
            taken, is_broken = await take(response, max_bytes=self._max_bytes)
            body, length = bytes(taken.data), taken.received if length is None else length
            if taken.is_cut:
                note = f"only the first {len(body):,} bytes; tools.web.max_bytes is the limit"
            elif is_broken:
                note = "the connection broke before the end"
        return Page(
            target=target,
            hops=hops,
            status=response.status_code,
            content_type=content_type,
            body=body,
            length=length,
            note=note,
        )


def _printable(text: str) -> str:
    return "".join(c for c in text[:100] if c.isascii() and c.isprintable())
