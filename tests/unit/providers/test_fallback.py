"""A chain of models and its circuit breakers."""

import asyncio
from dataclasses import dataclass, field

import pytest

from nanobot.bus.runtime_events import ModelEvent, ProviderSwitched, TextDelta, TextReset
from nanobot.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    QuotaExhausted,
    Refused,
    StreamStalled,
    Unavailable,
)
from nanobot.messages import user_text
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.providers.fallback import Fallback
from tests.fakes.provider import ScriptedProvider, Step, says

REQUEST = LLMRequest(model="ignored", system="", messages=(user_text("hi"),))


@dataclass
class Chain:
    """Two scripted models behind a fallback, and a clock to turn."""

    first: ScriptedProvider
    second: ScriptedProvider
    now: float = 0.0
    events: list[ModelEvent] = field(default_factory=list[ModelEvent])

    def __post_init__(self) -> None:
        self.provider = Fallback(
            [(self.first, "big"), (self.second, "small")], opens_after=2, recovers_after_s=60, clock=lambda: self.now
        )

    async def ask(self) -> LLMResponse:
        return await self.provider.stream(REQUEST, self.events.append)

    @property
    def switches(self) -> list[ProviderSwitched]:
        return [event for event in self.events if isinstance(event, ProviderSwitched)]


def chain(first: list[Step], second: list[Step]) -> Chain:
    return Chain(ScriptedProvider(first, name="a"), ScriptedProvider(second, name="b"))


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("x"),
        StreamStalled("x"),
        AuthFailed("x"),
        QuotaExhausted("x"),
        BadRequest("x", status=404, is_elsewhere=True),
    ],
)
async def test_e16_the_next_model_takes_over_and_says_so(error: ProviderError) -> None:
    """What another model may not suffer from is handed on, with a notice, and the answer names its author."""
    two = chain([error], [says("hi")])

    response = await two.ask()

    assert (response.provider, response.model) == ("b", "small")
    assert two.switches == [ProviderSwitched(from_model="a/big", to_model="b/small", why="x")]
    assert two.second.requests[0].model == "small"


@pytest.mark.parametrize("error", [BadRequest("x"), ContextOverflow("x"), Refused("x")])
async def test_what_every_model_would_refuse_is_raised(error: ProviderError) -> None:
    """A request that is at fault itself is not shopped around."""
    two = chain([error], [])

    with pytest.raises(type(error)):
        await two.ask()
    assert two.events == []


async def test_half_an_answer_is_taken_back() -> None:
    """Text of the failed model is voided before the next one speaks."""

    def half(_request: LLMRequest, emit: Emit) -> LLMResponse:
        emit(TextDelta("half"))
        raise Unavailable("x")

    two = chain([half], [says("whole")])

    await two.ask()

    assert [type(event) for event in two.events[:3]] == [TextDelta, ProviderSwitched, TextReset]


async def test_a_model_that_keeps_failing_is_left_out_and_tried_again_later() -> None:
    """After two failures in a row a model is skipped; a minute later one request tries it, and success brings it back."""
    two = chain([Unavailable("1"), Unavailable("2"), says("back"), says("still")], [says("s")] * 3)
    for _ in range(3):
        await two.ask()
    asked_while_open = len(two.first.requests)
    two.now = 61

    answers = [(await two.ask()).provider, (await two.ask()).provider]

    assert asked_while_open == 2
    assert answers == ["a", "a"]
    assert "left out" in two.switches[-1].why


async def test_a_failed_probe_opens_the_circuit_again() -> None:
    """A model that fails its one probe is left out for another while."""
    two = chain([AuthFailed("key"), AuthFailed("key")], [says("s")] * 3)
    await two.ask()
    two.now = 61
    await two.ask()
    two.now = 100

    await two.ask()

    assert len(two.first.requests) == 2


async def test_a_cancelled_probe_does_not_block_the_next() -> None:
    """Stopping a Turn in the middle of a probe leaves the model askable."""
    started = asyncio.Event()

    async def hang(_request: LLMRequest, _emit: Emit) -> LLMResponse:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    two = chain([AuthFailed("key"), hang, says("back")], [says("s")])
    await two.ask()
    two.now = 61
    task = asyncio.create_task(two.ask())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await two.ask()).provider == "a"


async def test_when_all_fail_the_preferred_models_error_tells_all() -> None:
    """One error is raised, of the first model's kind, with everybody's reason in it."""
    two = chain([AuthFailed("bad key")], [Unavailable("is down")])

    with pytest.raises(AuthFailed, match=r"bad key.*b/small: is down"):
        await two.ask()


async def test_when_all_are_left_out_the_first_is_asked() -> None:
    """A try is better than none."""
    two = chain([AuthFailed("1"), says("ok")], [AuthFailed("2")])
    with pytest.raises(AuthFailed):
        await two.ask()

    assert (await two.ask()).provider == "a"


async def test_closing_closes_all() -> None:
    """No connection of any candidate stays open."""
    two = chain([], [])

    await two.provider.close()

    assert (two.first.closed, two.second.closed) == (True, True)
