"""The terminal channel: a person's lines, Ctrl-C, and answers by event and by delivery."""

import asyncio
from collections.abc import Iterable

from nanobot.bus.events import Acceptance, Accepted, InboundMessage, Route, Unkept
from nanobot.bus.queue import Mailbox
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import TextDelta, TurnFinished, TurnStarted
from nanobot.channels.base import OutboundPart
from nanobot.channels.cli import TerminalChannel, route_of
from nanobot.channels.terminal.view import Segment
from nanobot.errors import SessionBusy

KEY = "cli:direct"


class Person:
    """A terminal with somebody at it, whom a test moves; ``seen`` is what was printed."""

    def __init__(self, *, one_by_one: bool = False) -> None:
        self.events = RuntimeEventBus()
        self.seen: list[Segment] = []
        self.stops: list[str] = []
        self.accepted: list[InboundMessage] = []
        self.answer: Acceptance | Exception = Accepted()
        self._lines: Mailbox[str] = Mailbox(100)
        self._input = self._lines.__aiter__()
        self.channel = TerminalChannel(
            session_key=KEY, events=self.events, stop=self._stop, one_by_one=one_by_one, clock=lambda: 0.0
        )
        self.channel.attach(self)

    def types(self, line: str) -> None:
        self._lines.put(line)

    def leaves(self) -> None:
        self._lines.close()

    async def read(self) -> str | None:
        return await anext(self._input, None)

    async def show(self, segments: Iterable[Segment]) -> None:
        self.seen += segments

    def refresh(self) -> None:
        return

    async def accept(self, message: InboundMessage) -> Acceptance:
        if isinstance(self.answer, Exception):
            raise self.answer
        self.accepted.append(message)
        return self.answer

    async def _stop(self, key: str) -> bool:
        self.stops.append(key)
        return True


def delivery(text: str) -> OutboundPart:
    return OutboundPart(out="o1", session_key=KEY, route=Route("cli", "direct"), index=0, count=1, text=text)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_j08_ctrl_c_stops_the_turn_and_not_the_chat() -> None:
    """During a Turn Ctrl-C stops it, and the next line is read as ever; without one it is a hint."""
    person = Person()
    listening = asyncio.create_task(person.channel.listen(person.accept))
    await settle()
    hint = person.channel.interrupt()
    person.events.publish(TurnStarted(turn="t1", session_key=KEY))
    during = person.channel.interrupt()
    await settle()
    person.events.publish(TurnFinished("user_stop", "", "Stopped.", turn="t1", session_key=KEY))
    person.types("next")
    person.leaves()
    await listening

    assert hint is not None
    assert during is None
    assert person.stops == [KEY]
    assert [message.text for message in person.accepted] == ["next"]
    assert person.seen == [Segment("notice", "(stopped)")]


async def test_another_sessions_turn_is_not_shown() -> None:
    """A terminal shows its own conversation only."""
    person = Person()
    listening = asyncio.create_task(person.channel.listen(person.accept))
    await settle()
    person.events.publish(TurnStarted(turn="t1", session_key="telegram:1"))
    person.events.publish(TextDelta("secret\n\n", turn="t1", session_key="telegram:1"))
    person.leaves()
    await listening

    assert person.seen == []


async def test_a_delivery_that_overtakes_its_events_is_shown_once() -> None:
    """Deltas that were published but not drawn yet count as seen."""
    person = Person()
    listening = asyncio.create_task(person.channel.listen(person.accept))
    await settle()
    person.events.publish(TurnStarted(turn="t1", session_key=KEY))
    person.events.publish(TextDelta("the answer", turn="t1", session_key=KEY))
    await person.channel.send(delivery("the answer"))
    person.events.publish(TurnFinished("completed", "the answer", turn="t1", session_key=KEY))
    person.leaves()
    await listening

    assert person.seen == [Segment("markdown", "the answer")]


async def test_what_is_live_never_runs_ahead_of_what_is_printed() -> None:
    """Between two frames no line is missing: the live part changes with the lines above it."""
    person = Person()
    listening = asyncio.create_task(person.channel.listen(person.accept))
    await settle()
    person.events.publish(TurnStarted(turn="t1", session_key=KEY))
    person.events.publish(TextDelta("one\n\ntwo", turn="t1", session_key=KEY))
    before = (person.channel.live().text, list(person.seen))
    await settle()
    after = (person.channel.live().text, person.seen)
    person.leaves()
    await listening

    assert before == ("", [])
    assert after == ("two", [Segment("markdown", "one")])


async def test_input_that_is_no_person_waits_for_each_answer() -> None:
    """From a file, the second line is asked after the first was answered."""
    person = Person(one_by_one=True)
    listening = asyncio.create_task(person.channel.listen(person.accept))
    person.types("one")
    person.types("two")
    person.leaves()
    await settle()
    before = [message.text for message in person.accepted]
    await person.channel.send(delivery("1"))
    await settle()
    await person.channel.send(delivery("2"))
    await listening

    assert before == ["one"]
    assert [message.text for message in person.accepted] == ["one", "two"]


async def test_a_message_that_is_not_taken_is_explained() -> None:
    """A session held elsewhere, or a refusing disk, is a sentence and not the end of the chat."""
    person = Person()
    listening = asyncio.create_task(person.channel.listen(person.accept))
    person.answer = SessionBusy("Held by gateway 17.", owner="gateway 17")
    person.types("one")
    await settle()
    person.answer = Unkept("disk full")
    person.types("two")
    person.leaves()
    await listening

    assert [(segment.kind, segment.text) for segment in person.seen] == [
        ("error", "Held by gateway 17."),
        ("notice", "(this message is not on disk: disk full)"),
    ]


def test_any_session_can_be_talked_to() -> None:
    """Answers to another channel's session still come to this terminal."""
    assert route_of("cli:work") == Route("cli", "work")
    assert route_of("telegram:42") == Route("cli", "telegram:42")
