"""What every ``LLMProvider`` promises, those without a network and the tests' own fake included."""

from collections.abc import Callable

import pytest

from nanobot.bus.runtime_events import TextDelta
from nanobot.messages import AssistantMessage, ToolCall, ToolMessage, user_text
from nanobot.providers.base import LLMProvider
from nanobot.providers.fallback import Fallback
from nanobot.providers.offline import OfflineProvider
from nanobot.providers.retry import Retrying
from nanobot.providers.settings import RetrySettings
from tests.contract.provider_cases import Seen, ask
from tests.fakes.provider import ScriptedProvider, calls, says


def _scripted() -> ScriptedProvider:
    return ScriptedProvider([calls(("exec", {"command": "date"})), says("It is late.")])


MAKES: dict[str, Callable[[], LLMProvider]] = {
    "offline": OfflineProvider,
    "scripted": _scripted,
    "retrying": lambda: Retrying(_scripted(), RetrySettings()),
    "fallback": lambda: Fallback([(_scripted(), "m")]),
}
every = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())


@every
async def test_a_call_and_then_an_answer(make: Callable[[], LLMProvider]) -> None:
    """``finish`` says whether there are calls, deltas add up to the text, and the response names who answered."""
    provider = make()
    first = await provider.stream(ask(user_text("time")), Seen())
    seen = Seen()
    call = AssistantMessage("", (ToolCall("e2.0", "exec", {"command": "date"}),), entry="e2")
    last = await provider.stream(ask(user_text("time"), call, ToolMessage("e2.0", "exec", "late", entry="e3")), seen)
    await provider.close()
    await provider.close()

    assert (first.finish, [c.name for c in first.tool_calls]) == ("tool_calls", ["exec"])
    assert (last.finish, last.tool_calls) == ("stop", ())
    assert last.text == seen.text != ""
    assert sum(isinstance(event, TextDelta) for event in seen.events) > 1
    assert last.provider == provider.name
    assert last.model


@every
async def test_encodings_are_a_stable_prefix(make: Callable[[], LLMProvider]) -> None:
    """A longer conversation begins with the elements of the shorter one: tools, system, then each message."""
    provider = make()
    shorter = await provider.encoded(ask(user_text("a")))
    longer = await provider.encoded(ask(user_text("a"), AssistantMessage("b"), user_text("c")))

    assert len(shorter) == 3
    assert longer[:3] == shorter
    assert len(longer) == 5
