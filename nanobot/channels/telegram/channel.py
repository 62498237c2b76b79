"""Telegram as a channel: our own update loop, answers by sending and editing, drafts, and who may come in.

``listen`` can be cancelled and begun again at any time; ``send`` works without it, so that owed answers still go out at the end.
``close`` ends the connections.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nanobot.bus.events import InboundMessage, Media, Route, SessionKey, session_key
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.channels.access import Refused, Verdict
from nanobot.channels.base import Accept, Capabilities, Decide, Move, OutboundPart, Record
from nanobot.channels.telegram.answers import Answers
from nanobot.channels.telegram.client import Client
from nanobot.channels.telegram.downloads import Downloads
from nanobot.channels.telegram.drafts import Drafts
from nanobot.channels.telegram.files import ChannelState, quarantine, state_path
from nanobot.channels.telegram.format import MAX_TEXT_UNITS, plain
from nanobot.channels.telegram.inbound import Moved, Pressed, Said
from nanobot.channels.telegram.ingress import Ingress, IngressPorts
from nanobot.channels.telegram.outbox import Outbox
from nanobot.channels.telegram.owners import Owners
from nanobot.channels.telegram.polling import ANSWER_S, Persistence, Polling, Progress
from nanobot.channels.telegram.questions import Questions
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.errors import ChannelError, SessionError

log = logging.getLogger(__name__)

STRANGERS_MAX = 1_000  # named in the log once each; more are no news
MENU_TRIES = 5
NAMED_MAX = 3


class TelegramChannel:
    """One bot.

    Args:
        name: the configured name.
        settings: how it behaves.
        events: where Turns are watched.
        record: where reservations of drafts are written.
        decide: hands in what people decide about calls that wait.
        moved: notes that a chat has a new id.
        progress: told after each round with Telegram.
        data_dir: where its files lie, shared with everybody else.
        commands: names and lines of help for the command menu.
        client: the Bot API; made from the settings if None.
        answer_s: how much longer than it asks for a poll may take.
        clock: seconds that only rise.
        sleep: how to wait.
        now: the time on the wall, with its zone.
    """

    capabilities = Capabilities(edit=True, buttons=True, media=True, max_text_units=MAX_TEXT_UNITS, units="utf-16")

    def __init__(
        self,
        name: str,
        settings: TelegramSettings,
        *,
        events: RuntimeEventBus,
        record: Record,
        decide: Decide,
        moved: Move,
        data_dir: Path,
        progress: Progress = lambda error=None: None,
        commands: Mapping[str, str] | None = None,
        client: Client | None = None,
        answer_s: float = ANSWER_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.name = name
        self._settings = settings
        self._events = events
        self._progress = progress
        self._note_moved = moved
        self._data_dir = data_dir
        self._commands = commands or {}
        self._answer_s = answer_s
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._client = client or Client(settings)
        self._downloads = Downloads(name, settings, data_dir / "media", sleep=sleep)
        self._access = settings.access
        self._state = ChannelState(state_path(data_dir, name))
        self._is_loaded = False
        self._reply_to: dict[SessionKey, str] = {}
        self._strangers: set[str] = set()
        self._outbox = Outbox(name, self._client, self._state, moved=self._moved)
        self._drafts = Drafts(
            name,
            self._client,
            record=record,
            platform_chat=self._state.platform_chat,
            reply_to=self._reply_to.get,
            streams=settings.stream_drafts,
            least_gap_s=settings.edit_interval_s,
            clock=clock,
        )
        self._answers = Answers(name, self._outbox, self._drafts, ring_after_s=settings.ring_after_s, clock=clock)
        self._owners = Owners(self._client, self._owner_ids, self._state.platform_chat)
        self._questions = Questions(
            name, self._client, self._outbox, self._state, owners=self._owners, decide=decide, sleep=sleep
        )
        self._stop_asking = events.observe(
            self._questions.on_event
        )  # what a restart asks again comes before ``listen``

    @property
    def note(self) -> str:
        """What the operator should know although the channel is up: chats that take no messages."""
        parked = self._outbox.parked
        named = ", ".join(f"{chat} ({why})" for chat, why in list(parked.items())[-NAMED_MAX:])
        more = f" and {len(parked) - NAMED_MAX} more" if len(parked) > NAMED_MAX else ""
        return f"takes no messages: {named}{more}" if parked else ""

    # -- in --------------------------------------------------------------------------------------------------------------------

    async def listen(self, accept: Accept) -> None:
        """Take messages in until cancelled."""
        poller = self._client.poller()
        stop_watching = self._events.observe(self._drafts.on_event)
        try:
            await self._load()
            persistence = Persistence(self.name, self._progress, self._sleep)
            me = await persistence.until_done(self._client.me)
            ingress = Ingress(
                self.name,
                me,
                accept,
                self._ingress_ports(),
                reruns_edits=self._settings.edits == "rerun",
                listens=self._settings.listen,
            )
            polling = Polling(
                poller,
                ingress,
                persistence,
                timeout_s=self._settings.poll_timeout_s,
                answer_s=self._answer_s,
                sleep=self._sleep,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(self._drafts.run(), name=f"{self.name} drafts")
                group.create_task(self._questions.run(), name=f"{self.name} questions")
                group.create_task(self._fill_menu(), name=f"{self.name} menu")
                group.create_task(polling.run(), name=f"{self.name} polling")
                group.create_task(
                    polling.watch_clocks(lambda: self._now().timestamp(), self._clock), name=f"{self.name} clocks"
                )
        finally:
            stop_watching()
            await poller.close()

    async def close(self) -> None:
        """End what is under way, and the connections."""
        self._stop_asking()
        await self._questions.close()
        await self._drafts.close()
        await self._downloads.close()
        await self._client.close()

    def _ingress_ports(self) -> IngressPorts:
        return IngressPorts(
            judge=self._judge,
            refuse=self._refuse,
            note_move=lambda moved: self._state.move(moved.old, moved.new),
            moved=self._moved,
            session_chat=self._state.session_chat,
            press=self._press,
            decide=self._decide,
            quarantine=self._quarantine,
            intercept=self._intercept,
            heard=self._heard,
            tell=self._tell,
            sleep=self._sleep,
        )

    async def _load(self) -> None:
        if not self._is_loaded:
            await asyncio.to_thread(self._state.load)
            self._is_loaded = True

    def _judge(self, incoming: Said | Pressed) -> Verdict:
        self._questions.note_name(incoming.origin)
        self._owners.note(incoming.origin)
        verdict = self._verdict(incoming)
        if isinstance(verdict, Refused) and self._state.refresh():  # somebody may have been let in from the terminal
            verdict = self._verdict(incoming)
        return verdict

    async def _decide(self, pressed: Pressed, verdict: Verdict, chat: str) -> None:
        reply = await self._questions.press(pressed, verdict, chat)
        with suppress(ChannelError):  # too late is not worth a word: what was pressed is done all the same
            await self._client.answer_press(pressed.query, reply.text, is_alert=reply.is_alert)

    def _verdict(self, incoming: Said | Pressed) -> Verdict:
        access = self._access.with_paired(self._state.pairing.approved)
        origin = incoming.origin
        if origin.chat not in access.roles:
            origin = replace(origin, chat=self._state.session_chat(origin.chat))
        if isinstance(incoming, Pressed):
            return access.admit(origin, mentions_me=True)
        return access.admit(origin, mentions_me=incoming.mentions_me, answers_me=incoming.answers_me)

    def _owner_ids(self) -> tuple[str, ...]:
        """Return the people with an owner's rights, the first one named first."""
        roles = self._access.with_paired(self._state.pairing.approved).roles
        named = (*self._settings.owners, *self._access.roles, *roles)
        return tuple(dict.fromkeys(one for one in named if roles.get(one) == "owner" and not one.startswith("-")))

    async def _refuse(self, incoming: Said | Pressed, why: str) -> None:
        origin = incoming.origin
        if origin.sender not in self._strangers and len(self._strangers) < STRANGERS_MAX:
            self._strangers.add(origin.sender)
            log.warning("channel %s: a message in chat %s was refused: %s", self.name, origin.chat, why)
        if not self._settings.pairing or origin.is_group or origin.is_bot or isinstance(incoming, Pressed):
            return
        now = self._now().timestamp()
        code = await asyncio.to_thread(self._state.change, lambda state: state.ask(origin.sender, now=now))
        if code is None:
            return
        text = (
            f"I do not know you yet. If my owner sends me\n/pair {code}\n"
            f"(or runs `nanobot pair {code}`) within an hour, we can talk."
        )
        await self._tell(Route(self.name, origin.chat), text)

    async def _intercept(self, said: Said, message: InboundMessage) -> bool:
        """Carry out ``/pair CODE``, which concerns this channel alone."""
        word, _, code = (said.command or "").partition(" ")
        if word.lower() != "/pair" or not self._settings.pairing or message.route is None:
            return False
        if message.role != "owner":
            await self._tell(message.route, "Only the owner can let somebody in.")
            return True
        now = self._now().timestamp()
        sender = await asyncio.to_thread(self._state.change, lambda state: state.approve(code, now=now, role="user"))
        await self._tell(message.route, "There is no such code." if sender is None else f"{sender} may talk to me now.")
        if sender is not None:
            await self._tell(Route(self.name, sender), "We can talk now.")
        return True

    async def _moved(self, moved: Moved) -> None:
        """Note a group's new id, in its log first: with that on disk, the move may be heard of again or not."""
        old = Route(self.name, self._state.session_chat(moved.old))
        try:
            await self._note_moved(session_key(old), session_key(Route(self.name, moved.new)))
        except SessionError as error:  # sends to the old id are answered with the new one, so nothing is lost
            log.warning("channel %s: that %s is %s now was not noted: %s", self.name, moved.old, moved.new, error)
        await asyncio.to_thread(self._state.change, lambda state: state.move(moved.old, moved.new))

    def _heard(self, message: InboundMessage) -> None:
        if message.route is not None and message.route.reply_to is not None:
            self._reply_to[message.session_key] = message.route.reply_to

    async def _press(self, query: str) -> None:
        with suppress(ChannelError):  # too late is not worth a word: what was pressed is done all the same
            await self._client.answer_press(query)

    async def _tell(self, route: Route, text: str) -> None:
        with suppress(ChannelError):  # a courtesy; answers go through the outbox
            await self._client.send(self._state.platform_chat(route.chat), plain(text), topic=route.topic)

    async def _quarantine(self, raw: object, why: str) -> None:
        path = await asyncio.to_thread(quarantine, raw, self._data_dir / "quarantine", why)
        log.error("channel %s: an update was put aside as %s: %s", self.name, path.name, why)

    async def _fill_menu(self) -> None:
        """Tell Telegram the commands; nothing depends on it."""
        for tried in range(MENU_TRIES if self._commands else 0):
            try:
                await self._client.set_commands(self._commands)
            except ChannelError as error:
                log.info("channel %s: the command menu could not be set: %s", self.name, error)
                await self._sleep(2.0**tried)
            else:
                return

    async def fetch(self, media: Media) -> Media:
        """Bring a file that somebody sent to the disk.  Raises as the contract says."""
        return await self._downloads.fetch(media)

    # -- out -------------------------------------------------------------------------------------------------------------------

    async def send(self, part: OutboundPart) -> str | None:
        """Send one part, or edit it into the draft that people have seen.  Raises as the contract says."""
        await self._load()
        return await self._answers.send(part)
