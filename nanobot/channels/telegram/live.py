"""A running Turn as one chat sees it: what its messages should look like now, and which of them are there.  No I/O."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace

from nanobot.bus.events import Route, SessionKey
from nanobot.channels.draft import Draft
from nanobot.channels.splitting import piece
from nanobot.channels.telegram.format import RESERVE_UNITS, Rendered, render, split_answer, utf16_units
from nanobot.channels.telegram.pace import Pace


@dataclass(slots=True)
class LiveDraft:
    """One Turn as people see it while it runs.

    ``refs`` are its messages, ``shown`` what each of them surely looks like (None: an edit may or may not have been taken).
    ``doubt`` is the number of a message that may be there although its id is not known.  ``rings`` says whether the answer is sent
    anew instead of being edited in, once that is decided.
    """

    out: str
    session_key: SessionKey
    route: Route
    began: float
    pace: Pace
    draft: Draft = field(default_factory=Draft)
    refs: list[str] = field(default_factory=list[str])
    shown: list[Rendered | None] = field(default_factory=list[Rendered | None])
    settled: list[Rendered] = field(default_factory=list[Rendered])
    settled_text: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    still: asyncio.Event = field(default_factory=asyncio.Event)
    is_broken: bool = False
    doubt: int | None = None
    rings: bool | None = None

    async def pause(self, seconds: float) -> None:
        """Wait, but not past the end of the Turn."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.closing.wait()

    def ref(self, index: int) -> str | None:
        """Return the id of a message of the draft, if it is there."""
        return self.refs[index] if index < len(self.refs) else None

    def forget(self, *, kept: int) -> None:
        """Count only the first ``kept`` messages as the draft's."""
        del self.refs[kept:], self.shown[kept:]

    def shows(self, index: int, rendered: Rendered) -> bool:
        """Say whether a message surely looks like this already."""
        return index < len(self.shown) and self.shown[index] == rendered

    def view(self) -> list[Rendered]:
        """Return what the draft's messages should look like now.

        They are cut as the finished answer will be, so that what fills a whole message is not edited again at the end.
        """
        text, status = seen(self.draft)
        if not text.startswith(self.settled_text):
            self.settled, self.settled_text = [], ""
        parts = split_answer(text, start=len(self.settled_text))
        views = [*self.settled, *(render(piece(text, start, end)) for start, end in parts)]
        if len(parts) > 1:  # what fills whole messages is not worked out again
            self.settled, self.settled_text = views[:-1], text[: parts[-1][0]]
        if status:
            last = views.pop() if parts else Rendered("")
            views.append(replace(last, text=f"{last.text}\n\n{status}".lstrip()))
        return [view for view in views if view.text.strip()]


def seen(draft: Draft) -> tuple[str, str]:
    """Return what a draft says now: the answer so far, and one line about what is going on."""
    text = draft.text if draft.text.strip() else next((one for one in reversed(draft.earlier) if one.strip()), "")
    summaries = [tool.summary for tool in draft.running_tools]
    if summaries:
        more = f" (+{len(summaries) - 1})" if len(summaries) > 1 else ""
        return text, _line(f"⏳ {summaries[-1]}{more}")
    return text, _line(f"⏳ {draft.note}") if draft.note else ""


def _line(text: str) -> str:
    line = " ".join(text.split())
    while utf16_units(line) > RESERVE_UNITS - 4:
        line = f"{line[: len(line) * 3 // 4].rstrip()}…"
    return line
