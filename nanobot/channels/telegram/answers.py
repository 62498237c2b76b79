"""Give out the parts of an answer: into the draft that people have seen, or anew where a message must not stay where it is.

A message cannot become a file, cannot move below one, and does not ring when it is edited.  What was reserved is then taken away
*before* something is sent in its place: after a crash, what is edited is the only copy, and where there is nothing left to edit,
the part is sent and says that it may be a repeat.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from nanobot.channels.base import OutboundPart
from nanobot.channels.splitting import piece
from nanobot.channels.telegram.code import code_file, has_file
from nanobot.channels.telegram.drafts import Drafts
from nanobot.channels.telegram.errors import ChatGone
from nanobot.channels.telegram.format import MAY_BE_REPEAT, Rendered, prefixed, render, split_answer
from nanobot.channels.telegram.live import LiveDraft
from nanobot.channels.telegram.outbox import Outbox
from nanobot.channels.telegram.uploads import Uploads
from nanobot.errors import ChannelError, SendRejected

log = logging.getLogger(__name__)


class Answers:
    """The way of one channel's answers into their chats.

    Args:
        name: the channel's.
        outbox: places messages.
        drafts: what people have seen so far.
        ring_after_s: a Turn that took longer has its answer sent anew; None: never.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        name: str,
        outbox: Outbox,
        drafts: Drafts,
        *,
        ring_after_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._outbox = outbox
        self._uploads = Uploads(outbox)
        self._drafts = drafts
        self._ring_after_s = ring_after_s
        self._clock = clock

    async def send(self, part: OutboundPart) -> str | None:
        """Send one part, or edit it into its draft.  Raises as a channel's ``send`` does."""
        if part.media is not None:
            return await self._uploads.send(part, part.media)
        live = await self._drafts.settle(part.session_key, part.out)
        file = code_file(part.text)
        if file is not None or part.anew or has_file(part.before):
            part = await self._below(part, live)
        elif live is not None and self._should_ring(live):
            part = await self._anew(part, live)
        ref = await (self._send_file(part, file, _notice(part, live)) if file else self._place(part, live))
        if live is not None and part.index + 1 == part.count:
            await self._drafts.finish(live, kept=part.count)
        for left in part.surplus if live is None else ():
            with suppress(ChannelError):  # one message too many is the worst that comes of it
                await self._outbox.take_away(part.route, left)
        return ref

    async def _place(self, part: OutboundPart, live: LiveDraft | None) -> str | None:
        rendered = _rendered(part)
        if not rendered.text.strip():
            return None
        ref = part.ref if live is None else live.ref(part.index) or part.ref
        if ref is not None and live is not None and ref == live.ref(part.index) and live.shows(part.index, rendered):
            return ref
        notice = _notice(part, live)
        return await self._outbox.place(part.route, rendered, ref=ref, notice=notice, first=not part.index)

    # -- making room -----------------------------------------------------------------------------------------------------------

    def _should_ring(self, live: LiveDraft) -> bool:
        """Say whether the answer took so long that it should be a new message, which makes the phone ring.  Decided once."""
        if live.rings is None:
            live.rings = self._ring_after_s is not None and self._clock() - live.began >= self._ring_after_s
        return live.rings

    async def _anew(self, part: OutboundPart, live: LiveDraft) -> OutboundPart:
        """Take the draft away from this part on; where that cannot be, the answer is edited in and does not ring."""
        try:
            await self._cut(live, kept=part.index)
        except ChatGone:
            raise
        except SendRejected as error:
            log.info("channel %s: the answer does not ring: %s", self._name, error)
            live.rings = False
            return part
        return replace(part, ref=None)

    async def _below(self, part: OutboundPart, live: LiveDraft | None) -> OutboundPart:
        """Take away what was reserved for a file and for what follows it."""
        try:
            if live is not None:
                await self._cut(live, kept=part.index)
            elif part.ref is not None:
                await self._outbox.take_away(part.route, part.ref)
        except ChatGone:
            raise
        except SendRejected as error:
            log.warning("channel %s: a draft stays above its answer: %s", self._name, error)
            if live is not None:
                live.forget(kept=part.index)
        return replace(part, ref=None)

    async def _cut(self, live: LiveDraft, *, kept: int) -> None:
        """Take messages away, the last one first: whatever fails in between, those that are left stand in order."""
        while len(live.refs) > kept:
            await self._outbox.take_away(live.route, live.refs[-1])
            live.forget(kept=len(live.refs) - 1)

    # -- files -----------------------------------------------------------------------------------------------------------------

    async def _send_file(self, part: OutboundPart, file: Rendered, notice: str) -> str | None:
        """Send a long block of code as a document; where those are not allowed, as messages."""
        try:
            return await self._outbox.place(part.route, file, ref=None, notice=notice, first=not part.index)
        except SendRejected as error:
            log.warning("channel %s: %s; the code goes out as messages", self._name, error)
        ref: str | None = None
        for start, end in split_answer(part.text):
            rendered = prefixed(notice, render(piece(part.text, start, end)))
            ref = await self._outbox.place(part.route, rendered, ref=None, notice="", first=False)
            notice = ""
        return ref


def _rendered(part: OutboundPart) -> Rendered:
    start = len(part.before)
    return render(piece(part.before + part.text, start, start + len(part.text)))


def _notice(part: OutboundPart, live: LiveDraft | None) -> str:
    in_doubt = live is not None and live.doubt == part.index
    return MAY_BE_REPEAT if part.may_be_repeat or in_doubt else ""
