"""What holds of every pass, for any history and any boundaries."""

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent import passes, repair, snip
from nanobot.agent.passes import Boundaries, govern
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage, images_of
from nanobot.providers.base import LLMRequest
from nanobot.session.log import number
from tests.fakes.legality import illegal
from tests.property.histories import BOUNDARIES, CHATTY, any_history, logged

Pass: TypeAlias = Callable[[Sequence[Message], Boundaries], list[Message]]


def _limited(messages: Sequence[Message], at: Boundaries) -> list[Message]:
    out = list(messages)
    for chars, before in at.limits:
        out = passes.limit_results(out, max_chars=chars, before=before)
    return out


PASSES: dict[str, Pass] = {
    "own_call_ids": lambda m, _: repair.own_call_ids(m),
    "order_results": lambda m, _: repair.order_results(m),
    "drop_orphan_results": lambda m, _: repair.drop_orphan_results(m),
    "answer_open_calls": lambda m, _: repair.answer_open_calls(m),
    "drop_empty_answers": lambda m, _: repair.drop_empty_answers(m),
    "take_turns": lambda m, _: repair.take_turns(m),
    "repair": lambda m, _: repair.repair(m),
    "microcompact": lambda m, at: passes.microcompact(m, before=at.compact_before, chatty=CHATTY),
    "limit_results": _limited,
    "drop_images": lambda m, at: passes.drop_images(m, before=at.images_before),
    "drop_extras": lambda m, at: passes.drop_extras(m, before=at.extras_before),
    "snip_history": lambda m, at: snip.snip_history(m, before=at.snip_before, bare_before=at.bare_before),
    "govern": govern,
}
FEW = settings(max_examples=80, deadline=None, derandomize=True)
each_pass = pytest.mark.parametrize("name", PASSES)


@each_pass
@FEW
@given(any_history(), BOUNDARIES)
def test_a_pass_is_idempotent_and_deterministic(name: str, history: list[Message], at: Boundaries) -> None:
    """Doing it twice changes nothing, doing it again gives the same: so the prompt cache stays warm."""
    once = PASSES[name](history, at)

    assert PASSES[name](once, at) == once
    assert PASSES[name](copy.deepcopy(history), at) == once


@each_pass
@FEW
@given(any_history(), BOUNDARIES)
def test_a_pass_leaves_its_input_alone(name: str, history: list[Message], at: Boundaries) -> None:
    """The input is untouched, and a message that comes out unchanged is the same object."""
    before = copy.deepcopy(history)
    originals = {id(message): message for message in history}

    out = PASSES[name](history, at)

    assert history == before
    for message in out:
        twins = [original for original in history if original == message]
        assert not twins or id(message) in originals


@FEW
@given(st.one_of(any_history(), logged()), BOUNDARIES)
def test_what_comes_out_is_legal(history: list[Message], at: Boundaries) -> None:
    """Whatever goes in: each call is answered once, in order, and roles take turns; a row that can be asked about is at the end."""
    out = govern(history, at)

    assert not out or illegal(_request(out)) is None
    assert not out or isinstance(out[0], UserMessage)
    for one, two in pairwise(out):
        assert not (isinstance(one, AssistantMessage) and isinstance(two, AssistantMessage))


@FEW
@given(logged())
def test_repair_leaves_our_own_log_alone(history: list[Message]) -> None:
    """What we logged ourselves is legal: the same objects come out."""
    history = [m for m in history if not isinstance(m, AssistantMessage) or m.tool_calls or m.text.strip()]

    out = repair.repair(history)

    assert [id(message) for message in out] == [id(message) for message in history]


@FEW
@given(logged(), BOUNDARIES)
def test_microcompact_touches_old_chatty_results_alone(history: list[Message], at: Boundaries) -> None:
    """Calls, people's and the model's text, and other tools' results stay; a placeholder names its result."""
    out = passes.microcompact(history, before=at.compact_before, chatty=CHATTY)

    assert len(out) == len(history)
    for before, after in zip(history, out, strict=True):
        if after is before:
            continue
        assert isinstance(before, ToolMessage)
        assert isinstance(after, ToolMessage)
        assert before.name in CHATTY
        assert number(before.entry) < at.compact_before
        assert before.shown or len(after.text) < len(before.text)
        assert after.shown == ()
        assert all(image.path in after.text for image in images_of(before))
        assert f'read_result("{before.entry}")' in after.text
        assert f"{len(before.text):,} characters" in after.text


@FEW
@given(logged(), BOUNDARIES)
def test_no_picture_stays_before_its_boundary_and_each_leaves_its_path(history: list[Message], at: Boundaries) -> None:
    """What people sent and what tools gave alike: the path is what the model can ask for again."""
    out = passes.drop_images(history, before=at.images_before)

    for before, after in zip(history, out, strict=True):
        is_cut = number(before.entry) < at.images_before
        assert images_of(after) == (() if is_cut else images_of(before))
        assert all(image.path in repr(after) for image in images_of(before))


@FEW
@given(logged(), BOUNDARIES)
def test_limited_results_say_so(history: list[Message], at: Boundaries) -> None:
    """A result that was cut is within its limit, names its entry and its full length, and keeps its beginning."""
    for chars, before in at.limits:
        out = passes.limit_results(history, max_chars=chars, before=before)

        for original, after in zip(history, out, strict=True):
            if after is not original:
                assert isinstance(original, ToolMessage)
                assert number(original.entry) < before
                assert len(after.text) <= max(120, chars)
                assert f'read_result("{original.entry}")' in after.text
                assert f"{len(original.text):,} characters" in after.text


@FEW
@given(logged(), BOUNDARIES)
def test_a_snip_keeps_the_request_and_everything_after_the_boundary(history: list[Message], at: Boundaries) -> None:
    """What stands at or after the boundary is untouched, and the newest request is always among what is left."""
    out = snip.snip_history(history, before=at.snip_before, bare_before=at.bare_before)

    after = [m for m in history if number(m.entry) >= at.snip_before]
    assert [id(m) for m in out[len(out) - len(after) :]] == [id(m) for m in after]
    newest = next(m for m in reversed(history) if isinstance(m, UserMessage) and m.origin == "user")
    assert sum(m is newest for m in out) == 1


@FEW
@given(logged(least_turns=1), BOUNDARIES)
def test_nothing_before_a_cut_changes_when_more_is_said(history: list[Message], at: Boundaries) -> None:
    """With the same boundaries, what was sent is a prefix of what is sent next."""
    for end in range(1, len(history)):
        if isinstance(history[end], ToolMessage) or isinstance(history[end - 1], AssistantMessage):
            continue  # no request is made there
        sent = govern(history[:end], at)
        if at.snip_before > number(history[end - 1].entry) or max(at.snip_before, at.bare_before) > end:
            continue  # the boundary was not there yet

        assert govern(history, at)[: len(sent)] == sent


def _request(messages: list[Message]) -> LLMRequest:
    return LLMRequest(model="m", system="", messages=tuple(messages))


@FEW
@given(st.one_of(any_history(), logged()))
def test_what_repair_calls_legal_its_passes_would_not_change(history: list[Message]) -> None:
    """The quick look decides nothing that the passes would decide otherwise."""
    out = repair.order_results(repair.own_call_ids(history))
    out = repair.answer_open_calls(repair.drop_orphan_results(out))
    out = repair.take_turns(repair.drop_empty_answers(out))

    unchanged = len(out) == len(history) and all(one is two for one, two in zip(out, history, strict=True))
    assert unchanged or not repair.is_legal(history)
    assert not out or repair.is_legal(out) or any(isinstance(m, AssistantMessage) and not m.entry for m in out)
