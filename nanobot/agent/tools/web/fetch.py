"""``web_fetch``: a page as text."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, CutPolicy, Sourced, ToolContext
from nanobot.session.entries import Effect

if TYPE_CHECKING:
    from nanobot.agent.tools.web.pages import Pages


class WebFetchArguments(ToolArguments):
    url: str = Field(description="http or https")
    raw: bool = Field(default=False, description="The source of an HTML page instead of its main text")


class WebFetch(BaseTool[WebFetchArguments]):
    """Fetches and reads.

    Args:
        make_pages: makes what brings pages and reads them, when it is first needed.
        timeout_s: for both.
    """

    name = "web_fetch"
    description = (
        "Fetch a URL and return its main text as Markdown (HTML), its text (plain, JSON, PDF), or what it is. "
        "Only reads (GET). Addresses inside this machine or its networks are refused unless the owner allows them."
    )
    arguments = WebFetchArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True
    cut: CutPolicy = "tail"
    outward = True
    summary_fields = ("url",)

    def __init__(self, make_pages: "Callable[[], Pages]", *, timeout_s: float) -> None:
        self._make_pages = make_pages
        self._pages: Pages | None = None
        self.timeout_s: float | None = timeout_s

    async def run(self, arguments: WebFetchArguments, context: ToolContext) -> Sourced:
        """Return the page's text behind a line about where it came from."""
        if self._pages is None:
            self._pages = self._make_pages()
        return await self._pages.read(arguments.url, raw=arguments.raw)
