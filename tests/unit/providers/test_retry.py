"""Trying again: when, how long, and what people see."""

import asyncio
from dataclasses import dataclass, field

import pytest

from nanobot.bus import runtime_events
from nanobot.bus.runtime_events import ModelEvent, TextDelta, TextReset
from nanobot.errors import AuthFailed, BadRequest, ProviderError, RateLimited, StreamStalled, Unavailable
from nanobot.messages import user_text
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.providers.retry import Retrying, retry_delay
from nanobot.providers.settings import RetrySettings
from tests.fakes.provider import ScriptedProvider, Step, says

REQUEST = LLMRequest(model="m", system="", messages=(user_text("hi"),))
POLICY = RetrySettings(attempts=4, base_s=1, cap_s=60)


@dataclass
class Clock:
    """Sleeps without taking time, and notes how long."""

    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        await asyncio.sleep(0)


async def run(
    *steps: Step, policy: RetrySettings = POLICY
) -> tuple[LLMResponse | ProviderError, list[ModelEvent], list[float]]:
    clock, events = Clock(), list[ModelEvent]()
    provider = Retrying(ScriptedProvider(steps), policy, sleep=clock.sleep, jitter=lambda: 1.0)
    try:
        return await provider.stream(REQUEST, events.append), events, clock.slept
    except ProviderError as error:
        return error, events, clock.slept


def half_then(error: ProviderError) -> Step:
    """Return a step that shows some text and then fails."""

    def step(_request: LLMRequest, emit: Emit) -> LLMResponse:
        emit(TextDelta("half"))
        raise error

    return step


@pytest.mark.parametrize(
    ("attempt", "retry_after_s", "expected"),
    [(1, None, 1), (2, None, 2), (3, None, 4), (99, None, 60), (1, 5, 5), (3, 0, 0), (1, 60, 60), (1, 61, None)],
)
def test_delay(attempt: int, retry_after_s: float | None, expected: float | None) -> None:
    """The wait doubles up to the cap; the server's word wins, and one over the cap ends it."""
    assert retry_delay(attempt, base_s=1, cap_s=60, retry_after_s=retry_after_s) == expected


def test_delay_counts_from_one() -> None:
    """A wait before the first failure is a mistake of the caller."""
    with pytest.raises(ValueError, match="from 1"):
        retry_delay(0, base_s=1, cap_s=60)


async def test_e16_a_blip_is_tried_again() -> None:
    """One failure that may pass costs a wait, is told, and the answer comes."""
    result, events, slept = await run(Unavailable("down"), says("ok"))

    assert isinstance(result, LLMResponse)
    assert events[0] == runtime_events.Retrying(why="down", attempt=1, delay_s=1.0)
    assert not any(isinstance(event, TextReset) for event in events)
    assert slept == [1.0]


async def test_c16_nothing_shown_is_shown_twice() -> None:
    """Text of a failed try is taken back right before the next one."""
    _, events, _ = await run(half_then(StreamStalled("silent")), says("whole"))

    kinds = [type(event) for event in events]
    assert kinds[:3] == [TextDelta, runtime_events.Retrying, TextReset]


@pytest.mark.parametrize("error", [AuthFailed("key"), BadRequest("bad")])
async def test_what_cannot_pass_is_not_tried_again(error: ProviderError) -> None:
    """The type alone decides: these are raised at once."""
    result, events, slept = await run(error)

    assert (result, events, slept) == (error, [], [])


async def test_e26_tries_are_bounded() -> None:
    """After the last allowed try its error is raised."""
    result, events, _ = await run(*(Unavailable(f"down {i}") for i in range(4)))

    assert str(result) == "down 3"
    assert len(events) == 3


async def test_a_stall_is_repeated_once_only() -> None:
    """A stall has already cost its whole limit."""
    result, events, _ = await run(StreamStalled("a"), StreamStalled("b"))

    assert str(result) == "b"
    assert len(events) == 1


async def test_a_wait_longer_than_the_cap_gives_up_with_its_sentence() -> None:
    """Nobody waits for an hour in a chat: the error says what the server asked for."""
    result, events, slept = await run(RateLimited("slow down.", retry_after_s=3600))

    assert isinstance(result, RateLimited)
    assert "3600 s" in str(result)
    assert (events, slept) == ([], [])


async def test_a_servers_wait_is_never_shortened() -> None:
    """Jitter comes on top of what the server asked for."""
    _, _, slept = await run(RateLimited("slow", retry_after_s=10), says("ok"))

    assert slept == [pytest.approx(11)]


async def test_cancelling_the_wait_ends_it() -> None:
    """A stop during the wait asks nobody again."""
    scripted = ScriptedProvider([Unavailable("down"), says("never")])
    waiting = asyncio.Event()

    async def forever(_delay_s: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Retrying(scripted, POLICY, sleep=forever).stream(REQUEST, lambda _event: None))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(scripted.requests) == 1
