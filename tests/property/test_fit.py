"""Whatever a history holds, the request fits and is legal, or one sentence says what cannot fit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent.meter import Gauge, Ratios
from nanobot.agent.passes import Boundaries, govern
from nanobot.agent.plan import CannotFit, plan
from nanobot.agent.repair import repair
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, user_text
from nanobot.providers.base import LLMRequest
from tests.fakes.legality import illegal
from tests.property.histories import CHATTY, any_history, logged

FEW = settings(max_examples=80, deadline=None, derandomize=True)
START = Boundaries(chatty=CHATTY)
BUDGETS = st.sampled_from([200, 800, 2_500, 6_000, 20_000, 1_000_000])


def gauge(overhead: int = 0) -> Gauge:
    return Gauge(model="m", ratios=Ratios(), overhead=overhead)


def fitted(history: list[Message], budget: int) -> list[Message] | None:
    """Return the planned view; None if nothing fits, after checking that the sentence is one."""
    try:
        return govern(history, plan(history, START, budget=budget, gauge=gauge()))
    except CannotFit as error:
        if "cannot be sent to the model" not in str(error):
            raise
        return None


@FEW
@given(st.one_of(any_history(), logged()), BUDGETS)
def test_every_request_fits_and_is_legal(history: list[Message], budget: int) -> None:
    """The plan's view is within the budget and legal, for any history."""
    out = fitted(history, budget)

    if out:
        assert gauge().measure(out) <= budget
        assert illegal(LLMRequest(model="m", system="", messages=tuple(out))) is None


@FEW
@given(logged(), BUDGETS)
def test_only_what_must_be_sent_can_be_too_long(history: list[Message], budget: int) -> None:
    """There is always a view unless the newest request itself, with the lines that say what is missing, exceeds the budget."""
    out = fitted(history, budget)

    if out is None:
        newest = next(m for m in reversed(history) if isinstance(m, UserMessage) and m.origin == "user")
        notes = 80 + 100 * sum(isinstance(m, AssistantMessage) and bool(m.tool_calls) for m in history) * 4
        assert gauge().measure([newest]) + notes > budget


@FEW
@given(logged(), BUDGETS)
def test_the_newest_request_is_always_sent_once(history: list[Message], budget: int) -> None:
    """B22: the request that is being worked on is in what the model sees, exactly once."""
    out = fitted(history, budget)

    newest = next(m for m in reversed(history) if isinstance(m, UserMessage) and m.origin == "user")
    if out is not None:
        assert sum(isinstance(m, UserMessage) and m.entry == newest.entry for m in out) == 1


@FEW
@given(logged(least_turns=2), BUDGETS)
def test_ten_chatty_results_stay_while_anything_else_can_go(history: list[Message], budget: int) -> None:
    """The newest results stay verbatim if leaving out whole exchanges before the newest is enough."""
    boundaries = START
    try:
        boundaries = plan(history, START, budget=budget, gauge=gauge())
    except CannotFit:
        return
    chatty = [m for m in repair(history) if isinstance(m, ToolMessage) and m.name in CHATTY]
    shown = {m.entry: m for m in govern(history, boundaries) if isinstance(m, ToolMessage)}
    touched = [m for m in chatty[-10:] if m.entry in shown and shown[m.entry] is not m]

    if touched:
        newest = next(i for i in range(len(history) - 1, -1, -1) if _is_request(history, i))
        assert gauge().measure(history[newest:]) > budget * 0.5


@FEW
@given(logged(), BUDGETS)
def test_a_plan_stands_until_there_is_more(history: list[Message], budget: int) -> None:
    """Planning again from the boundaries that were planned moves nothing: cuts come in steps."""
    try:
        once = plan(history, START, budget=budget, gauge=gauge())
    except CannotFit:
        return

    assert plan(history, once, budget=budget, gauge=gauge()) == once


@FEW
@given(logged(least_turns=3, most_turns=10), st.sampled_from([2_500, 6_000]))
def test_boundaries_only_move_forward(history: list[Message], budget: int) -> None:
    """As a conversation grows, what was left out stays left out, so every cut is one step of the prefix and not two."""
    at = START
    for end in range(1, len(history) + 1):
        if isinstance(history[end - 1], AssistantMessage):
            continue
        before = at.as_cuts()
        try:
            at = plan(history[:end], at, budget=budget, gauge=gauge())
        except CannotFit:
            return

        assert all(at.as_cuts().get(name, 0) >= where for name, where in before.items())


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_b26_any_number_of_tiny_calls_fits(count: int) -> None:
    """B26: a Turn of a thousand tiny calls, with no other message of a person, is cut inside the Turn."""
    history: list[Message] = [user_text("count the files", entry="e1")]
    for i in range(count):
        history.append(AssistantMessage("", (_tiny(2 * i + 2),), entry=f"e{2 * i + 2}"))
        history.append(ToolMessage(f"e{2 * i + 2}.0", "exec", "1", entry=f"e{2 * i + 3}"))

    out = fitted(history, 4_000)

    assert out is not None
    assert out[1] is history[0]
    assert out[-1] is history[-1]
    assert "Steps already taken" in out[2].text


def _tiny(entry: int) -> ToolCall:
    return ToolCall(f"e{entry}.0", "exec", {"command": "true"})


def _is_request(history: list[Message], index: int) -> bool:
    message = history[index]
    before = history[index - 1] if index else None
    return isinstance(message, UserMessage) and message.origin == "user" and not isinstance(before, ToolMessage)
