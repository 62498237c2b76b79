"""Turn Markdown and styled lines into text with colours, for one width.  The only user of rich.

rich's own reading is changed where it would hide what the model wrote: HTML is shown as text, single line breaks stay, and links
show their address.
"""

import io
import re
from collections.abc import Iterator
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from nanobot.channels.terminal.text import printable

_PARSER = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
_TRAILING = re.compile(r"[ ]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_THEME = Theme({"markdown.code": "cyan", "markdown.block_quote": "dim"})


class _PlainHeading(Heading):
    """A heading at the left edge, bold: rich centres it, in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold" if self.tag != "h1" else "bold underline")
        yield self.text


class _BareCode(CodeBlock):
    """Code without rich's padding, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip("\n"), self.lexer_name, theme=self.theme, word_wrap=True)


class _EdgelessTable(TableElement):
    """A table without rich's empty lines around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class _ChatMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _PlainHeading,
        "fence": _BareCode,
        "code_block": _BareCode,
        "table_open": _EdgelessTable,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.markup = text
        self.parsed = list(_keep_breaks(_PARSER.parse(text)))


def _keep_breaks(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
        yield token


class Ink:
    """Renders for one terminal.  ``colour=False`` leaves bold and dim, which NO_COLOR allows, and takes the colours."""

    def __init__(self, *, colour: bool = True) -> None:
        self._colour = colour

    def markdown(self, text: str, columns: int) -> str:
        """Return the text's blocks as lines of at most ``columns``, with one newline at the end."""
        return self._render(_ChatMarkdown(printable(text)), columns)

    def line(self, text: str, style: str, columns: int) -> str:
        """Return plain text in one style; the text is never read as markup."""
        return self._render(Text(printable(text), style=style), columns)

    def _render(self, what: Markdown | Text, columns: int) -> str:
        out = io.StringIO()
        console = Console(
            file=out,
            force_terminal=True,
            color_system="standard",
            no_color=not self._colour,
            width=max(columns, 8),
            highlight=False,
            markup=False,
            theme=_THEME,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )
        console.print(what)
        return _TRAILING.sub(r"\1", out.getvalue()).strip("\n") + "\n"
