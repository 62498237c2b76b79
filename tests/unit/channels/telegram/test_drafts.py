"""Drafts move when they may, and stop when the Turn does."""

import asyncio
import itertools
import time
from collections.abc import Callable

from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.channels.draft import Draft, ToolLine
from nanobot.channels.telegram.drafts import Drafts, route_of
from nanobot.channels.telegram.errors import ChatGone
from nanobot.channels.telegram.format import Rendered, utf16_units
from nanobot.channels.telegram.live import seen
from nanobot.channels.telegram.pace import GROUP_S, pace_for
from nanobot.errors import SendFailed, SessionError
from tests.fakes.telegram.rig import Turn


class Wire:
    """Telegram's side: what was called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.typing_error: Exception | None = None
        self.send_error: Exception | None = None
        self.send_s = 0.0

    async def send(
        self, chat: str, rendered: Rendered, *, topic: str | None = None, reply_to: str | None = None
    ) -> str:
        self.calls.append(f"send {rendered.text}")
        if self.send_error:
            raise self.send_error
        await asyncio.sleep(self.send_s)
        return "7"

    async def edit(self, chat: str, ref: str, rendered: Rendered) -> None:
        self.calls.append(f"edit {rendered.text}")

    async def delete(self, chat: str, ref: str) -> None:
        self.calls.append("delete")

    async def typing(self, chat: str, topic: str | None) -> None:
        self.calls.append("typing")
        if self.typing_error:
            raise self.typing_error


async def no_record(out: str, session_key: str, part: int, state: str, ref: str | None) -> None:
    raise SessionError("the disk refuses")


class Bench:
    """Drafts that run for a block."""

    def __init__(
        self, *, gap_s: float = 0.0, after_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.wire = Wire()
        self.events = RuntimeEventBus()
        self.drafts = Drafts(
            "tg", self.wire, record=no_record, least_gap_s=gap_s, typing_after_s=after_s, typing_s=0.02, clock=clock
        )

    async def __aenter__(self) -> "Bench":
        self.events.observe(self.drafts.on_event)
        self._running = asyncio.create_task(self.drafts.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.wait({self._running})


async def test_d41_typing_is_refreshed_until_the_end_and_not_after() -> None:
    """About five signs in five intervals; none once the Turn is over."""
    async with Bench() as bench:
        turn = Turn(bench.events, "tg:1")
        await asyncio.sleep(0.1)
        turn.end("done")
        await asyncio.sleep(0)
        count = bench.wire.calls.count("typing")
        await asyncio.sleep(0.06)

        assert 3 <= count <= 6
        assert bench.wire.calls.count("typing") == count


async def test_a_quick_answer_shows_no_typing() -> None:
    """A Turn that is over soon costs no call for a sign that nobody would see."""
    async with Bench(after_s=0.05) as bench:
        Turn(bench.events, "tg:1").end("done")
        await asyncio.sleep(0.08)

        assert "typing" not in bench.wire.calls


async def test_typing_ends_where_nobody_reads() -> None:
    """A chat that blocks us is not bothered again."""
    async with Bench() as bench:
        bench.wire.typing_error = ChatGone("blocked")
        Turn(bench.events, "tg:1")
        await asyncio.sleep(0.07)

        assert bench.wire.calls == ["typing"]


async def test_many_events_are_few_edits() -> None:
    """What changes between two edits is one edit; a refusing disk does not stop a draft."""
    async with Bench(gap_s=0.05) as bench:
        turn = Turn(bench.events, "tg:1")
        for _ in range(200):
            turn.say("x")
            await asyncio.sleep(0)
        await asyncio.sleep(0.08)
        shown = [call for call in bench.wire.calls if call != "typing"]

        assert shown[-1] == "edit " + "x" * 200
        assert len(shown) <= 3


async def test_other_channels_and_commands_are_not_ours() -> None:
    """Events of other sessions and of commands start nothing."""
    async with Bench() as bench:
        Turn(bench.events, "cli:direct").say("x")
        Turn(bench.events, "tgx:1").say("x")
        await asyncio.sleep(0.02)

        assert bench.wire.calls == []


async def test_settling_waits_for_what_is_under_way_and_ends_the_rest() -> None:
    """After it, nothing moves any more."""
    async with Bench() as bench:
        turn = Turn(bench.events, "tg:1")
        turn.say("a")
        await asyncio.sleep(0.01)
        live = await bench.drafts.settle("tg:1", "t1.0")
        turn.say("b")
        await asyncio.sleep(0.02)

        assert live is not None
        assert (live.refs, [call for call in bench.wire.calls if call != "typing"]) == (["7"], ["send a"])
        assert await bench.drafts.settle("tg:1", "t9.0") is None


async def test_settling_waits_for_a_reservation_that_is_under_way() -> None:
    """Its id must be known, or the answer would be sent beside it; also when the listener was just cancelled."""
    for cancelled in (False, True):
        async with Bench() as bench:
            bench.wire.send_s = 0.03
            Turn(bench.events, "tg:1").say("a")
            await asyncio.sleep(0.01)
            if cancelled:
                await bench.__aexit__()
            live = await bench.drafts.settle("tg:1", "t1.0")

            assert live is not None
            assert live.refs == ["7"]


async def test_a_first_message_that_may_have_arrived_is_not_sent_again() -> None:
    """However much time passes and whatever the Turn says."""
    async with Bench(clock=itertools.count(step=1_000).__next__) as bench:
        bench.wire.send_error = SendFailed("cut", maybe_sent=True)
        turn = Turn(bench.events, "tg:1")
        for _ in range(5):
            turn.say("a")
            await asyncio.sleep(0.01)

        assert [call for call in bench.wire.calls if call != "typing"] == ["send a"]


async def test_a_first_message_that_surely_did_not_arrive_is_sent_again() -> None:
    """A refused connection costs a draft nothing but time."""
    async with Bench(clock=itertools.count(step=1_000).__next__) as bench:
        bench.wire.send_error = SendFailed("refused")
        turn = Turn(bench.events, "tg:1")
        turn.say("a")
        await asyncio.sleep(0.01)
        bench.wire.send_error = None
        turn.say("b")
        await asyncio.sleep(0.01)

        assert [call for call in bench.wire.calls if call != "typing"][-1].endswith(" ab")


async def test_a_resumed_turn_has_no_draft() -> None:
    """Its answer goes into the message that was reserved before; it only types."""
    async with Bench() as bench:
        Turn(bench.events, "tg:1", resumed=True).say("again")
        await asyncio.sleep(0.02)

        assert set(bench.wire.calls) == {"typing"}


def test_a_draft_shows_the_newest_text_and_one_line_of_what_is_done() -> None:
    """Earlier text stays until there is newer; long summaries are one short line."""
    tools = (
        ToolLine(call_id="1", summary="read\na", started_at=0.0),
        ToolLine(call_id="2", summary="x" * 900, started_at=0.0),
    )

    assert seen(Draft(turn="t1", earlier=("one", "two"))) == ("two", "")
    assert seen(Draft(turn="t1", earlier=("one",), text="new", note="Waiting.")) == ("new", "⏳ Waiting.")
    text, status = seen(Draft(turn="t1", earlier=("one",), tools=tools))
    assert text == "one"
    assert utf16_units(status) <= 200
    assert "\n" not in status


def test_keys_name_chats() -> None:
    """A topic is part of the key; other keys are nobody's."""
    assert (found := route_of("tg:-5:topic:7")) is not None
    assert (found.chat, found.topic) == ("-5", "7")
    assert route_of("tg:1:odd") is None


def test_the_pace_learns_from_floods() -> None:
    """A flood doubles the gap and is obeyed; success brings it back slowly; groups begin slower."""
    pace = pace_for(is_group=False, least_s=1.0).went(10.0)
    flooded = pace.flooded(11.0, 8.0)

    assert (pace.wait_s(10.5), flooded.wait_s(11.0), flooded.gap_s) == (0.5, 8.0, 2.0)
    assert flooded.went(20.0).gap_s < flooded.gap_s
    assert pace_for(is_group=True, least_s=1.0).went(0.0).wait_s(0.0) == GROUP_S
