"""What a running Turn looks like on a terminal: lines that are printed once and stay, and a live part that is drawn again.

Finished Markdown blocks, ended calls and ended reasoning stay; the open block, running calls and a status line are live.
Nothing is drawn here, and no clock is read: times come in.
"""

import re
from typing import Literal, TypeAlias

from nanobot.bus.runtime_events import (
    Lagged,
    ProviderSwitched,
    RuntimeEvent,
    TextDelta,
    TextReset,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Waiting,
)
from nanobot.channels.draft import Draft, ToolLine, fold, seconds_text, tool_text
from nanobot.channels.terminal.text import Scan, one_line, scan
from nanobot.values import frozen

Kind: TypeAlias = Literal["markdown", "reasoning", "tool", "failed tool", "notice", "error"]
REASONING_LINES = 8


@frozen
class Segment:
    """Something that is printed once and stays.  ``text`` may hold control characters: whoever prints it takes them out."""

    kind: Kind
    text: str


@frozen(kw_only=True)
class Live:
    """What is drawn until it changes: the open block (in a code block if ``fence``), thoughts, running calls, and a status."""

    text: str = ""
    fence: str = ""
    reasoning: str = ""
    tools: tuple[str, ...] = ()
    status: str = ""


class View:
    """The fold's printing side: remembers what of the draft was printed."""

    def __init__(self) -> None:
        self.draft = Draft()
        self._printed = 0  # of draft.text, in characters
        self._scan = Scan()  # of draft.text
        self._seen = ""  # an answer that one of its two ways to the screen has brought: event or delivery

    def take(self, event: RuntimeEvent, *, at: float) -> list[Segment]:
        """Fold one event of the session in and return what it makes final."""
        before = self.draft
        if isinstance(event, Lagged):
            return [Segment("notice", f"({event.count} events were not shown)")]
        self.draft = fold(before, event, at=at)
        if self.draft is before:
            return []
        match event:
            case TurnStarted():
                self._seen = ""
                self._begin_text()
                return []
            case TextDelta():
                return self._thoughts(before) + self._finished_blocks()
            case TextReset():
                return self._taken_back()
            case ToolStarted():
                said = self._thoughts(before) + self._rest(before)
                self._begin_text()
                return said
            case ToolFinished():
                return self._ended_tool(event.call_id, at)
            case Waiting():
                return [*self._rest(before), *_asked(event)]
            case ProviderSwitched():
                return [Segment("notice", f"({self.draft.note})")]
            case TurnFinished():
                return self._thoughts(before) + self._rest(before) + _cut_short(before, at) + self._outcome(event)
            case _:
                return []

    def answer(self, text: str) -> list[Segment]:
        """Take a delivered answer.  What was streamed, or came by the Turn's last event, is not printed again."""
        if self._was_seen(text):
            return []
        self._seen = text if self.draft.is_running else ""
        return self._bring(text, "markdown")

    def live(self, *, at: float) -> Live:
        """Return what is still moving."""
        draft = self.draft
        if not draft.is_running:
            return Live()
        text = draft.text[self._printed :]
        status = draft.note or ("" if draft.running_tools or text else "thinking")
        elapsed = seconds_text(at - draft.started_at)
        return Live(
            text=text,
            fence=self._scan.fence,
            reasoning="" if draft.text else draft.reasoning,
            tools=tuple(one_line(tool_text(tool, at=at)) for tool in draft.running_tools),
            status=" · ".join(filter(None, (one_line(status), elapsed, "Ctrl-C stops"))),
        )

    def _outcome(self, event: TurnFinished) -> list[Segment]:
        is_stop = event.stop_reason == "user_stop"
        error = "" if is_stop and event.content else event.error or ""
        whole = "\n\n".join(filter(None, (event.content, error)))  # what is delivered, too
        said: list[Segment] = []
        if whole and not self._was_seen(whole):
            self._seen = whole
            said += self._bring(event.content, "markdown") if event.content else []
            said += [Segment("error", error)] if error and not is_stop else []
        return [*said, Segment("notice", "(stopped)")] if is_stop else said

    def _was_seen(self, text: str) -> bool:
        if not _same(self._seen, text):
            return False
        self._seen = ""
        return True

    def _bring(self, text: str, kind: Kind) -> list[Segment]:
        streamed = (self.draft.text, "".join((*self.draft.earlier, self.draft.text)))
        rest = self._rest(self.draft)
        return rest if any(_same(one, text) for one in streamed) else [*rest, Segment(kind, text)]

    def _begin_text(self) -> None:
        self._printed, self._scan = 0, Scan()

    def _finished_blocks(self) -> list[Segment]:
        self._scan = scan(self._scan, self.draft.text)
        return self._print_to(self._scan.done, self.draft.text)

    def _rest(self, draft: Draft) -> list[Segment]:
        return self._print_to(len(draft.text), draft.text)

    def _print_to(self, end: int, text: str) -> list[Segment]:
        block = text[self._printed : end]
        self._printed = max(self._printed, end)
        return [Segment("markdown", block.strip("\n"))] if block.strip() else []

    def _taken_back(self) -> list[Segment]:
        was_printed = self._printed > 0
        self._begin_text()
        return [Segment("notice", "(this did not end well: the answer starts again)")] if was_printed else []

    def _thoughts(self, before: Draft) -> list[Segment]:
        """Return the reasoning that ends here: at the first text after it, a call, or the end."""
        if not before.reasoning.strip() or before.text:
            return []
        return [Segment("reasoning", last_lines(before.reasoning.strip(), REASONING_LINES))]

    def _ended_tool(self, call_id: str, at: float) -> list[Segment]:
        ended = next((tool for tool in self.draft.tools if tool.call_id == call_id), None)
        return [_tool_segment(ended, at)] if ended else []


def _asked(event: Waiting) -> list[Segment]:
    """Return a question with all of what would run: nobody should allow what they have not seen."""
    fence = "`" * (max(map(len, re.findall("`+", event.details)), default=0) + 3)
    call = f"{fence}\n{event.details}\n{fence}" if len(fence) > 2 and event.details else ""
    return [Segment("notice", event.in_full), *([Segment("markdown", call)] if call else [])]


def last_lines(text: str, count: int) -> str:
    """Return the last lines of a text, and how many came before them."""
    lines = text.splitlines()
    hidden = len(lines) - count
    return "\n".join([f"… ({hidden} lines before)", *lines[-count:]]) if hidden > 1 else text


def _tool_segment(tool: ToolLine, at: float) -> Segment:
    return Segment("failed tool" if tool.is_error else "tool", one_line(tool_text(tool, at=at)))


def _cut_short(draft: Draft, at: float) -> list[Segment]:
    """Return a line for each call that the end of the Turn found running."""
    return [
        Segment("failed tool", one_line(f"{tool_text(tool, at=at)} · not finished")) for tool in draft.running_tools
    ]


def _same(shown: str, answer: str) -> bool:
    return bool(answer.strip()) and _words(shown) == _words(answer)


def _words(text: str) -> list[str]:
    """Return the words without the sign that a delivered error has."""
    return [word for word in text.split() if word != "⚠"]
