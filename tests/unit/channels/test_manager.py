"""Owed answers reach their channels: in order, with retries, and none is lost to another's fault."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from nanobot.bus.events import OutboundMessage, Route
from nanobot.bus.queue import Mailbox
from nanobot.bus.runtime_events import Delivered, RuntimeEvent
from nanobot.channels.base import Capabilities, OutboundPart
from nanobot.channels.manager import ChannelManager, Patience, open_parts
from nanobot.errors import DiskRefused, SendFailed, SendRejected

Send = Callable[[OutboundPart], None]


class FakeChannel:
    """A channel whose sends a test decides on; ``sent`` is what arrived."""

    name = "fake"
    capabilities = Capabilities()

    def __init__(self, decide: Send = lambda part: None) -> None:
        self.sent: list[OutboundPart] = []
        self._decide = decide

    async def listen(self, accept: object) -> None:
        return

    async def send(self, part: OutboundPart) -> str | None:
        await asyncio.sleep(0)
        self._decide(part)
        self.sent.append(part)
        return f"ref-{part.text}"


class Outbox:
    """Delivers messages through one manager and remembers what it recorded, published and slept."""

    def __init__(
        self,
        channel: FakeChannel,
        *,
        record_error: Exception | None = None,
        patience: Patience = Patience(attempts=3, base_s=1.0, cap_s=1.5, again_s=None),  # noqa: B008  # frozen
    ) -> None:
        self.recorded: list[tuple[str, int, str, str | None]] = []
        self.published: list[RuntimeEvent] = []
        self.slept: list[float] = []
        self._record_error = record_error
        self._manager = ChannelManager(
            [channel],
            record=self._record,
            publish=self.published.append,
            patience=patience,
            sleep=self._sleep,
        )

    async def deliver(self, *messages: OutboundMessage) -> None:
        box: Mailbox[OutboundMessage] = Mailbox(100)
        for message in messages:
            box.put(message)
        box.close()
        await self._manager.run(box)

    async def _record(self, out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        if self._record_error:
            raise self._record_error
        self.recorded.append((out, part, state, ref))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def answer(
    text: str, *, chat: str = "1", channel: str = "fake", parts: int = 1, states: tuple[str, ...] = ()
) -> OutboundMessage:
    size = len(text) // parts
    return OutboundMessage(
        out=f"o-{text}",
        session_key=f"{channel}:{chat}",
        route=Route(channel, chat),
        text=text,
        parts=tuple((i * size, (i + 1) * size) for i in range(parts)),
        states=states,
    )


def always(error: Exception, *, text: str) -> Send:
    def decide(part: OutboundPart) -> None:
        if part.text == text:
            raise error

    return decide


async def test_parts_go_out_in_order_and_are_crossed_off() -> None:
    """Each part is recorded before and after it went, with the platform's id, and published."""
    channel = FakeChannel()
    outbox = Outbox(channel)
    await outbox.deliver(answer("aabb", parts=2))

    assert [part.text for part in channel.sent] == ["aa", "bb"]
    assert outbox.recorded == [
        ("o-aabb", 0, "sending", None),
        ("o-aabb", 0, "sent", "ref-aa"),
        ("o-aabb", 1, "sending", None),
        ("o-aabb", 1, "sent", "ref-bb"),
    ]
    assert outbox.published == [Delivered("fake:1", "o-aabb", 0, "sent"), Delivered("fake:1", "o-aabb", 1, "sent")]


async def test_what_was_confirmed_is_never_sent_again() -> None:
    """After a restart only open parts go out; one that was under way is marked as a possible repeat."""
    channel = FakeChannel()
    await Outbox(channel).deliver(answer("aabbcc", parts=3, states=("sent", "sending", "refused")))

    assert [(part.text, part.may_be_repeat) for part in channel.sent] == [("bb", True)]
    assert [part.index for part in open_parts(answer("aabb", parts=2, states=("sent",)))] == [1]
    assert [part.may_be_repeat for part in open_parts(answer("ab", parts=2, states=("reserving", "reserved")))] == [
        True,
        False,
    ]


async def test_h14_one_bad_message_does_not_stop_the_others() -> None:
    """A channel that blows up on one answer still gets the next, in the same chat and in others."""
    channel = FakeChannel(always(RuntimeError("boom"), text="bad"))
    await Outbox(channel).deliver(
        answer("bad"), answer("good"), answer("other", chat="2"), answer("lost", channel="gone")
    )

    assert sorted(part.text for part in channel.sent) == ["good", "other"]


async def test_a_failed_send_is_tried_again_with_growing_waits() -> None:
    """What may work later is tried a bounded number of times, and then stays owed without being crossed off."""
    channel = FakeChannel(always(SendFailed("down"), text="x"))
    outbox = Outbox(channel)
    await outbox.deliver(answer("x"), answer("y"))

    assert outbox.slept == [1.0, 1.5]
    assert [state for out, _, state, _ in outbox.recorded if out == "o-x"] == ["sending"]
    assert [part.text for part in channel.sent] == ["y"]


async def test_the_platforms_own_wait_wins() -> None:
    """A Retry-After is obeyed, and a try that may have arrived makes the next one a possible repeat."""
    errors = [SendFailed("slow down", retry_after_s=30.0, maybe_sent=True)]

    def decide(part: OutboundPart) -> None:
        if errors:
            raise errors.pop()

    channel = FakeChannel(decide)
    outbox = Outbox(channel)
    await outbox.deliver(answer("x"))

    assert outbox.slept == [30.0]
    assert [part.may_be_repeat for part in channel.sent] == [True]


async def test_a_later_part_waits_for_an_earlier_one() -> None:
    """An answer whose beginning does not go out is not sent without it."""
    channel = FakeChannel(always(SendFailed("down"), text="aa"))
    await Outbox(channel).deliver(answer("aabb", parts=2))

    assert channel.sent == []


async def test_a_refused_part_is_recorded_and_the_rest_goes_on() -> None:
    """What never will work is settled as refused."""
    channel = FakeChannel(always(SendRejected("no"), text="aa"))
    outbox = Outbox(channel)
    await outbox.deliver(answer("aabb", parts=2))

    assert [(part, state) for _, part, state, _ in outbox.recorded] == [
        (0, "sending"),
        (0, "refused"),
        (1, "sending"),
        (1, "sent"),
    ]


async def test_an_answer_is_sent_although_it_cannot_be_crossed_off() -> None:
    """A refusing disk does not keep answers from people."""
    channel = FakeChannel()
    await Outbox(channel, record_error=DiskRefused("full")).deliver(answer("x"))

    assert [part.text for part in channel.sent] == ["x"]


async def test_a_waiting_lane_does_not_hold_up_the_others() -> None:
    """One chat under Retry-After sleeps alone."""
    free = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await free.wait()

    async def record(out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
        return

    channel = FakeChannel(lambda part: None)
    failing = [SendFailed("later")]

    def decide(part: OutboundPart) -> None:
        if part.text == "slow" and failing:
            raise failing.pop()
        if part.text == "quick":
            free.set()

    channel = FakeChannel(decide)
    box: Mailbox[OutboundMessage] = Mailbox(10)
    box.put(answer("slow", chat="1"))
    box.put(answer("after", chat="1"))
    box.put(answer("quick", chat="2"))
    box.close()
    async with asyncio.timeout(5):
        await ChannelManager([channel], record=record, sleep=sleep).run(box)

    assert [part.text for part in channel.sent] == ["quick", "slow", "after"]


async def test_d08_what_may_have_arrived_is_sent_a_few_times_at_most() -> None:
    """Twice soon, the second marked, then after long pauses, and then it stays owed."""
    tries: list[bool] = []

    def decide(part: OutboundPart) -> None:
        tries.append(part.may_be_repeat)
        raise SendFailed("cut", maybe_sent=True)

    outbox = Outbox(FakeChannel(decide), patience=Patience())
    await outbox.deliver(answer("x"))

    assert tries == [False, True, True, True]
    assert outbox.slept == [1.0, 10.0, 10.0]
    assert [state for _, _, state, _ in outbox.recorded] == ["sending"]


async def test_an_answer_waits_for_the_network_to_come_back() -> None:
    """However long it is away; what was sent of it is not sent again."""
    failures = [SendFailed("no network")] * 20

    def decide(part: OutboundPart) -> None:
        if part.text == "bb" and failures:
            raise failures.pop()

    channel = FakeChannel(decide)
    outbox = Outbox(channel, patience=Patience(attempts=3, again_s=60.0))
    await outbox.deliver(answer("aabb", parts=2))

    assert [(part.text, part.may_be_repeat) for part in channel.sent] == [("aa", False), ("bb", False)]
    assert outbox.slept == [1.0, 2.0, *[60.0] * 18]


async def test_a_flood_is_no_failure() -> None:
    """Being told to wait, however often, costs no tries."""
    failures = [SendFailed("later", retry_after_s=2.0)] * 10

    def decide(part: OutboundPart) -> None:
        if failures:
            raise failures.pop()

    channel = FakeChannel(decide)
    outbox = Outbox(channel)
    await outbox.deliver(answer("x"))

    assert (outbox.slept, len(channel.sent)) == ([2.0] * 10, 1)


def test_a_part_knows_what_came_before_and_what_was_reserved_for_it() -> None:
    """A channel can show a part alone, and edit instead of sending."""
    message = replace(answer("aabb", parts=2), refs=("7", None))

    assert [(part.before, part.ref) for part in open_parts(message)] == [("", "7"), ("aa", None)]
