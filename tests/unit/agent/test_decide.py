"""What is done with a model's answer: every finish, with and without text and calls, at every stage of a Turn."""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from nanobot.agent.decide import (
    CUT_CALL,
    MAX_CUT_TEXT,
    MAX_EMPTY,
    MAX_MALFORMED,
    OUT_OF_ITERATIONS,
    REPEATING,
    REPEATS_LIMIT,
    REPEATS_NOTED,
    STOP_REPEATING,
    AskAgain,
    Finish,
    GiveUp,
    RefuseCalls,
    RunTools,
    Tally,
    decide,
    tally,
    with_tools,
)
from nanobot.messages import AssistantMessage, JsonObject, Message, ToolCall, ToolMessage
from nanobot.providers.base import Finish as FinishReason

CALL = ToolCall("e1.0", "echo", {"text": "a"})
BROKEN = ToolCall("e1.0", "echo", '{"text": "a')
TEXT, CALLS, BOTH, NOTHING = (
    AssistantMessage("hello"),
    AssistantMessage("", (CALL,)),
    AssistantMessage("wait", (CALL,)),
    AssistantMessage("  "),
)
LIMIT = 10

TABLE: list[tuple[AssistantMessage, FinishReason, Tally, type[object], str]] = [
    # answer, finish, so far (with this answer), decision, its reason or a word of its text
    (TEXT, "stop", Tally(iterations=1), Finish, "completed"),
    (TEXT, "stop", Tally(iterations=LIMIT), Finish, "completed"),
    (TEXT, "tool_calls", Tally(iterations=1), Finish, "completed"),
    (TEXT, "stop", Tally(iterations=3, last_round=True), Finish, "max_iterations"),
    (TEXT, "length", Tally(iterations=1, cut_text=1), AskAgain, "cut off"),
    (TEXT, "length", Tally(iterations=5, cut_text=MAX_CUT_TEXT), AskAgain, "cut off"),
    (TEXT, "length", Tally(iterations=6, cut_text=MAX_CUT_TEXT + 1), Finish, "completed"),
    (TEXT, "length", Tally(iterations=LIMIT, cut_text=1), Finish, "completed"),
    (TEXT, "refusal", Tally(iterations=1), GiveUp, "hello"),
    (CALLS, "tool_calls", Tally(iterations=1), RunTools, ""),
    (CALLS, "stop", Tally(iterations=1), RunTools, ""),
    (BOTH, "tool_calls", Tally(iterations=LIMIT - 1), RunTools, ""),
    (CALLS, "tool_calls", Tally(iterations=LIMIT), RefuseCalls, OUT_OF_ITERATIONS),
    (CALLS, "tool_calls", Tally(iterations=LIMIT + 1, last_round=True), GiveUp, "told to stop"),
    (CALLS, "length", Tally(iterations=1, malformed=1), RefuseCalls, CUT_CALL),
    (CALLS, "length", Tally(iterations=3, malformed=MAX_MALFORMED), GiveUp, "could not be run"),
    (CALLS, "refusal", Tally(iterations=1), GiveUp, "declined"),
    (CALLS, "tool_calls", Tally(iterations=4, repeats=REPEATS_NOTED - 1), RunTools, ""),
    (CALLS, "tool_calls", Tally(iterations=4, repeats=REPEATS_NOTED), RunTools, REPEATING),
    (CALLS, "tool_calls", Tally(iterations=7, repeats=REPEATS_LIMIT), RefuseCalls, STOP_REPEATING),
    (NOTHING, "stop", Tally(iterations=1, empty=1), AskAgain, "empty"),
    (NOTHING, "length", Tally(iterations=1, empty=1), AskAgain, "empty"),
    (NOTHING, "tool_calls", Tally(iterations=1, empty=1), AskAgain, "empty"),
    (NOTHING, "stop", Tally(iterations=2, empty=MAX_EMPTY), GiveUp, "no answer"),
    (NOTHING, "stop", Tally(iterations=LIMIT, empty=1), GiveUp, "no answer"),
    (NOTHING, "refusal", Tally(iterations=1, empty=1), GiveUp, "declined"),
]


@pytest.mark.parametrize(("answer", "finish", "so_far", "kind", "word"), TABLE)
def test_the_table(
    answer: AssistantMessage, finish: FinishReason, so_far: Tally, kind: type[object], word: str
) -> None:
    """Each line of the table holds."""
    decision = decide(answer, finish, so_far, max_iterations=LIMIT)

    assert type(decision) is kind
    assert word in repr(decision)


def test_no_answer_is_without_decision_and_refusals_and_cut_calls_never_run() -> None:
    """Over every combination, tools run only for whole calls of an answer that was not refused, within the limits."""
    tallies = [
        Tally(iterations=i, empty=e, malformed=m, repeats=r, last_round=last)
        for i, e, m, r, last in product((1, LIMIT), (0, 2), (0, MAX_MALFORMED), (0, REPEATS_LIMIT), (False, True))
    ]
    cases = list(product((TEXT, CALLS, BOTH, NOTHING), get_args(FinishReason), tallies))
    decisions = [decide(answer, finish, so_far, max_iterations=LIMIT) for answer, finish, so_far in cases]

    running = [case for case, decision in zip(cases, decisions, strict=True) if isinstance(decision, RunTools)]
    assert running
    for answer, finish, so_far in running:
        assert answer.tool_calls
        assert finish not in ("refusal", "length")
        assert so_far.iterations < LIMIT
        assert not so_far.last_round
    finished = [case for case, decision in zip(cases, decisions, strict=True) if isinstance(decision, Finish)]
    assert all(answer.text.strip() and not answer.tool_calls for answer, _, _ in finished)


def _round(arguments: JsonObject | str, result: str) -> list[tuple[Message, str | None]]:
    return [
        (AssistantMessage("", (ToolCall("x", "echo", arguments),)), "tool_calls"),
        (ToolMessage("x", "echo", result), None),
    ]


def test_the_tally_counts_in_a_row() -> None:
    """Empty, cut off and malformed answers are counted until something else comes."""
    empty: list[tuple[Message, str | None]] = [(AssistantMessage(""), "stop")]
    cut: list[tuple[Message, str | None]] = [(AssistantMessage("half"), "length")]

    assert tally(empty * 2).empty == 2
    assert tally([*empty * 2, (TEXT, "stop")]).empty == 0
    assert tally(cut * 3).cut_text == 3
    assert tally([*cut * 3, *_round({}, "r")]).cut_text == 0
    assert tally(_round("{broken", "error") * 2).malformed == 2
    assert tally([*_round("{broken", "error") * 2, *_round({}, "r")]).malformed == 0
    assert tally([(CALLS, "length")]).malformed == 1
    assert tally([*empty, *cut, *_round({}, "r")]).iterations == 3


def test_e32_only_the_same_call_with_the_same_result_repeats() -> None:
    """Another argument, another result, or something said in between begins anew."""
    same = _round({"p": "a"}, "r")

    assert tally([*same * 3, same[0]]).repeats == 3
    assert tally([*same * 3, *_round({"p": "a"}, "changed"), same[0]]).repeats < 3
    assert tally([*same * 3, *_round({"p": "b"}, "r"), same[0]]).repeats == 0
    assert tally([*same * 3, (TEXT, "stop"), same[0]]).repeats == 0
    assert tally([*_round({"p": "a", "q": 1}, "r") * 3, *_round({"q": 1, "p": "a"}, "r")[:1]]).repeats == 3


def test_a_turn_that_goes_on_decides_as_the_undisturbed_one() -> None:
    """The tally is a fold: it makes no difference where it was interrupted."""
    steps = [
        *_round({"p": "a"}, "r") * 4,
        (AssistantMessage(""), "stop"),
        *_round("{x", STOP_REPEATING),
        (TEXT, "length"),
    ]
    at_once = tally(steps)

    for cut in range(len(steps)):
        so_far = tally(steps[:cut])
        for message, finish in steps[cut:]:
            so_far = so_far.after(message, finish)
        assert so_far == at_once
    assert at_once.last_round
    assert replace(at_once, last_round=False) != at_once


def test_why_there_is_no_answer_names_what_ran() -> None:
    """A person must know of effects although there is no text."""
    assert with_tools("None.", []) == "None."
    assert with_tools("None.", ["exec", "echo", "exec"]) == "None. Tools called before: exec (2 times), echo."
