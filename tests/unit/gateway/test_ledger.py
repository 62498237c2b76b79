"""Owed answers, seen on their way."""

import asyncio
from collections.abc import AsyncIterator

from nanobot.bus.events import OutboundMessage, Route
from nanobot.channels.base import Accept, Capabilities, OutboundPart
from nanobot.channels.manager import open_parts
from nanobot.gateway.health import OutboxFacts
from nanobot.gateway.ledger import Ledger

KEY = "telegram:1"


def answer(out: str, parts: int = 1, states: tuple[str, ...] = ()) -> OutboundMessage:
    spans = tuple((index, index + 1) for index in range(parts))
    return OutboundMessage(
        out=out, session_key=KEY, route=Route("telegram", "1"), text="x" * parts, parts=spans, states=states
    )


class Hanging:
    """A channel whose sends never end."""

    name = "telegram"
    capabilities = Capabilities()

    async def listen(self, accept: Accept) -> None:
        return

    async def send(self, part: OutboundPart) -> str | None:
        await asyncio.Event().wait()


class Setting:
    """A ledger with a clock, and what was really recorded."""

    def __init__(self) -> None:
        self.now = 0.0
        self.recorded: list[tuple[str, int, str]] = []
        self.ledger = Ledger(self._record, clock=lambda: self.now)

    async def _record(self, out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        self.recorded.append((out, part, state))

    async def take(self, *messages: OutboundMessage) -> list[str]:
        async def given() -> AsyncIterator[OutboundMessage]:
            for message in messages:
                yield message

        return [message.out async for message in self.ledger.watch(given())]


async def test_an_answer_is_owed_until_all_its_parts_are_settled() -> None:
    """Parts are crossed off one by one; every state is written where it belongs all the same."""
    setting = Setting()
    passed = await setting.take(answer("o1", parts=2))
    setting.now = 5.0
    await setting.ledger.record("o1", KEY, 0, "sending", None)
    await setting.ledger.record("o1", KEY, 0, "sent", "7")
    setting.now = 8.0
    half = setting.ledger.facts()
    await setting.ledger.record("o1", KEY, 1, "refused", None)

    assert passed == ["o1"]
    assert half == {"telegram": OutboxFacts(owed=1, oldest_s=8.0)}
    assert setting.ledger.facts() == {}
    assert setting.recorded == [("o1", 0, "sending"), ("o1", 0, "sent"), ("o1", 1, "refused")]


async def test_a_send_that_does_not_end_is_seen() -> None:
    """A send under way has an age, and none when it is over, however it ends."""
    setting = Setting()
    await setting.take(answer("o1"))
    channel = Hanging()
    timed = setting.ledger.timed(channel)
    sending = asyncio.create_task(timed.send(open_parts(answer("o1"))[0]))
    await asyncio.sleep(0)
    setting.now = 700.0
    during = setting.ledger.facts()["telegram"].sending_s
    sending.cancel()
    await asyncio.wait({sending})

    assert during == 700.0
    assert setting.ledger.facts()["telegram"].sending_s == 0.0


async def test_what_is_settled_already_is_not_owed() -> None:
    """A recovered answer counts with the parts it still owes, and not at all without any."""
    setting = Setting()
    await setting.take(
        answer("o1", parts=2, states=("sent", "sent")), answer("o2", parts=2, states=("sent", "sending"))
    )

    assert setting.ledger.facts()["telegram"].owed == 1


async def test_an_undone_answer_is_forgotten() -> None:
    """What the log no longer owes is no outbox problem, though no delivery ever says so."""
    setting = Setting()
    await setting.take(answer("o1"), answer("o2"))

    setting.ledger.keep_only(lambda key, out: out == "o2")

    assert setting.ledger.facts()["telegram"].owed == 1
