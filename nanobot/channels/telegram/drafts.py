"""Show answers while they are written, by editing one message.

The message is reserved before anything else: its id is written down, and the finished answer becomes its last edit.  So a draft
never stands beside its answer, whatever fails.  Edits are only as frequent as the chat takes them; what a draft shows is worked out
when it is edited, never per event.  A draft that outgrows one message goes on in the next.

Nothing here may fail a Turn or hold up an answer: a draft in trouble simply stops moving.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from nanobot.bus.events import Route, SessionKey, route_of
from nanobot.bus.runtime_events import RuntimeEvent, TurnFinished, TurnStarted, Waiting
from nanobot.channels.base import Record
from nanobot.channels.draft import fold
from nanobot.channels.telegram.errors import ChatGone, NotModified
from nanobot.channels.telegram.format import Rendered
from nanobot.channels.telegram.live import LiveDraft
from nanobot.channels.telegram.pace import pace_for
from nanobot.errors import ChannelError, SendFailed, SendRejected, SessionError

log = logging.getLogger(__name__)

TYPING_AFTER_S = 0.25  # an answer that is there by then needs no sign, and no call that counts against the limits
TYPING_S = 4.0  # Telegram shows an action for five seconds
TYPING_MAX_S = 1_800.0
HICCUP_S = 2.0
SETTLE_S = 90.0
KEPT_DRAFTS = 1_000


class Messages(Protocol):
    """The calls that drafts need."""

    async def send(
        self, chat: str, rendered: Rendered, *, topic: str | None = None, reply_to: str | None = None
    ) -> str: ...
    async def edit(self, chat: str, ref: str, rendered: Rendered) -> None: ...
    async def delete(self, chat: str, ref: str) -> None: ...
    async def typing(self, chat: str, topic: str | None) -> None: ...


class Drafts:
    """The drafts of one channel.

    Args:
        name: the channel's.
        messages: calls to the platform.
        record: where reservations are written.
        platform_chat: the id that Telegram knows a chat by now.
        reply_to: the message that a session's next answer belongs to.
        streams: whether drafts are shown at all; without, only the typing sign.
        least_gap_s: least time between two edits of one draft.
        typing_after_s: how long a Turn runs before the typing sign is shown.
        typing_s: how often it is shown again.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        name: str,
        messages: Messages,
        *,
        record: Record,
        platform_chat: Callable[[str], str] = lambda chat: chat,
        reply_to: Callable[[SessionKey], str | None] = lambda key: None,
        streams: bool = True,
        least_gap_s: float = 1.0,
        typing_after_s: float = TYPING_AFTER_S,
        typing_s: float = TYPING_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._messages = messages
        self._record = record
        self._platform_chat = platform_chat
        self._reply_to = reply_to
        self._streams = streams
        self._least_gap_s = least_gap_s
        self._typing_after_s = typing_after_s
        self._typing_s = typing_s
        self._clock = clock
        self._by_session: dict[SessionKey, LiveDraft] = {}
        self._by_out: dict[str, LiveDraft] = {}
        self._group: asyncio.TaskGroup | None = None
        self._in_flight: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Keep drafts moving until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await asyncio.Event().wait()
        finally:
            self._group = None

    async def close(self) -> None:
        """Wait for reservations that are under way: their ids must not be lost."""
        if self._in_flight:
            await asyncio.wait(set(self._in_flight), timeout=SETTLE_S)

    def on_event(self, event: RuntimeEvent) -> None:
        """Take a runtime event in.  Never waits."""
        key = getattr(event, "session_key", "")
        if not isinstance(key, str) or not key.startswith(f"{self._name}:"):
            return
        if isinstance(event, TurnStarted):
            self._begin(event)
        live = self._by_session.get(key)
        if live is None:
            return
        if isinstance(event, Waiting):  # the question has a message of its own
            event = replace(event, question="")
        live.draft = fold(live.draft, event, at=self._clock())
        live.changed.set()
        if isinstance(event, TurnFinished) and event.turn == live.draft.turn:
            del self._by_session[key]
            live.closing.set()

    def _begin(self, event: TurnStarted) -> None:
        route = route_of(event.session_key)
        if self._group is None or route is None or not event.turn[1:].isdigit():
            return  # nobody keeps it moving, or a command, which answers at once
        is_group = route.chat.startswith("-")
        live = LiveDraft(
            out=f"{event.turn}.0",
            session_key=event.session_key,
            route=Route(route.channel, route.chat, route.topic, self._reply_to(event.session_key)),
            began=self._clock(),
            pace=pace_for(is_group=is_group, least_s=self._least_gap_s),
        )
        self._by_session[event.session_key] = live
        self._group.create_task(self._type(live), name=f"typing {event.session_key}")
        if self._streams and not event.resumed:  # a resumed Turn's answer goes into the message reserved before
            self._by_out[_place(live)] = live
            while len(self._by_out) > KEPT_DRAFTS:
                del self._by_out[next(iter(self._by_out))]
            self._group.create_task(self._stream(live), name=f"draft {event.session_key}")
        else:
            live.still.set()

    # -- moving ----------------------------------------------------------------------------------------------------------------

    async def _type(self, live: LiveDraft) -> None:
        chat = self._platform_chat(live.route.chat)
        pause_s = self._typing_after_s
        for _ in range(int(TYPING_MAX_S / self._typing_s)):
            await live.pause(pause_s)
            if live.closing.is_set():
                return
            pause_s = self._typing_s
            try:
                await self._messages.typing(chat, live.route.topic)
            except ChatGone:
                return
            except SendFailed as error:
                pause_s = max(self._typing_s, error.retry_after_s or 0.0)
            except ChannelError:
                pass  # only a sign

    async def _stream(self, live: LiveDraft) -> None:
        try:
            await self._keep_moving(live)
        except Exception:  # a fault in showing one draft must not stop the others, nor the channel
            log.exception("the draft in %s stands still", live.session_key)
        finally:
            live.still.set()

    async def _keep_moving(self, live: LiveDraft) -> None:
        try:
            while not live.closing.is_set() and not live.is_broken:
                await _first_of(live.changed, live.closing)
                await live.pause(live.pace.wait_s(self._clock()))
                if live.closing.is_set():
                    break
                live.changed.clear()
                await self._show(live)
            await live.closing.wait()
        finally:
            live.still.set()
        await self._end(live)

    async def _show(self, live: LiveDraft) -> None:
        try:
            for index, rendered in enumerate(live.view()):
                if index >= len(live.refs):
                    await self._reserve(live, index, rendered)
                elif not live.shows(index, rendered):
                    await self._edit(live, index, rendered)
        except SendFailed as error:
            live.pace = live.pace.flooded(self._clock(), error.retry_after_s or HICCUP_S)
            live.changed.set()
        except ChannelError as error:
            log.info("the draft in %s stands still: %s", live.session_key, error)
            live.is_broken = True

    async def _edit(self, live: LiveDraft, index: int, rendered: Rendered) -> None:
        live.shown[index] = None  # until it is known what came of it
        with suppress(NotModified):
            await self._messages.edit(self._platform_chat(live.route.chat), live.refs[index], rendered)
        live.shown[index] = rendered
        live.pace = live.pace.went(self._clock())

    async def _reserve(self, live: LiveDraft, index: int, rendered: Rendered) -> None:
        """Send the draft's next message, in a task of its own: once it is sent, its id must not be lost to a cancellation."""
        task = asyncio.create_task(self._send_first(live, index, rendered), name=f"reserve {live.session_key}")
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)
        await asyncio.shield(task)

    async def _send_first(self, live: LiveDraft, index: int, rendered: Rendered) -> None:
        await self._note(live, index, "reserving", None)
        try:
            ref = await self._messages.send(
                self._platform_chat(live.route.chat),
                rendered,
                topic=live.route.topic,
                reply_to=live.route.reply_to if index == 0 else None,
            )
        except SendFailed as error:
            if error.maybe_sent:  # a second try could show two drafts
                live.doubt, live.is_broken = index, True
            else:
                await self._note(live, index, "owed", None)  # surely not there: nothing will be a repeat
            raise
        except SendRejected:
            await self._note(live, index, "owed", None)
            raise
        live.refs.append(ref)
        live.shown.append(rendered)
        live.pace = live.pace.went(self._clock())
        await self._note(live, index, "reserved", ref)

    async def _note(self, live: LiveDraft, index: int, state: str, ref: str | None) -> None:
        try:
            await self._record(live.out, live.session_key, index, state, ref)
        except SessionError as error:
            log.warning("the state %r of the draft in %s could not be recorded: %s", state, live.session_key, error)

    # -- ending ----------------------------------------------------------------------------------------------------------------

    async def settle(self, session_key: SessionKey, out: str) -> LiveDraft | None:
        """Let the draft of an answer stand still, for good, and return it; None if there is none."""
        live = self._by_out.get(f"{session_key} {out}")
        if live is None:
            return None
        live.closing.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await live.still.wait()
                await self.close()
        return live

    async def finish(self, live: LiveDraft, *, kept: int) -> None:
        """Forget the draft, whose first ``kept`` messages are the answer now, and take away the others."""
        self._by_out.pop(_place(live), None)
        for ref in live.refs[kept:]:
            with suppress(ChannelError):  # one message too many is the worst that comes of it
                await self._messages.delete(self._platform_chat(live.route.chat), ref)

    async def _end(self, live: LiveDraft) -> None:
        """See that no draft is left over by a Turn that owes no answer."""
        ended = live.draft.finished
        if ended is None or ended.stop_reason == "shutdown":
            return
        if not (live.refs or live.doubt is not None):
            self._by_out.pop(_place(live), None)
        elif not (ended.content or ended.error):
            await self.finish(live, kept=0)


def _place(live: LiveDraft) -> str:
    return f"{live.session_key} {live.out}"


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
