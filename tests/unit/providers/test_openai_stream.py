"""Folding Chat Completions streams, without a socket."""

import time
from typing import Any

import pytest

from nanobot.bus.runtime_events import ModelEvent, TextDelta, TextReset
from nanobot.messages import user_text
from nanobot.providers.base import LLMRequest, LLMResponse, ToolCallRequest, ToolSpec
from nanobot.providers.faults import ServerFault
from nanobot.providers.openai_stream import OpenAIFold

EXEC = ToolSpec("exec", "run", {"type": "object", "properties": {"command": {"type": "string"}}})
REQUEST = LLMRequest(model="m", system="", messages=(user_text("hi"),), tools=(EXEC,))


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def part(index: int | None = None, id: object = "", name: object = "", arguments: object = "") -> dict[str, Any]:
    return ({} if index is None else {"index": index}) | {"id": id, "function": {"name": name, "arguments": arguments}}


def fold(*events: object, tool_choice: Any = "auto") -> tuple[LLMResponse, list[ModelEvent], OpenAIFold]:
    state = OpenAIFold((EXEC,), tool_choice=tool_choice)
    shown = [shown for event in events for shown in state.feed(event)]
    shown += state.end()
    return state.response(REQUEST, provider="p", tag="t"), shown, state


A, B = ToolCallRequest("a", {"x": 1}), ToolCallRequest("b", {})
CALLS: dict[str, tuple[list[list[dict[str, Any]]], tuple[ToolCallRequest, ...]]] = {
    "no index, ids": (
        [[part(id="1", name="a", arguments='{"x":1}')], [part(id="2", name="b", arguments="{}")]],
        (A, B),
    ),
    "no index, one id for both": (
        [[part(id="1", name="a", arguments='{"x":1}')], [part(id="1", name="b", arguments="{}")]],
        (A, B),
    ),
    "no index, no ids": ([[part(name="a", arguments='{"x":1}')], [part(name="b", arguments="{}")]], (A, B)),
    "both in one delta": ([[part(name="a", arguments='{"x":1}'), part(name="b", arguments="{}")]], (A, B)),
    "twice the same in one delta": ([[part(name="b", arguments=""), part(name="b", arguments="")]], (B, B)),
    "every index 0, ids": ([[part(0, "1", "a", '{"x":1}')], [part(0, "2", "b", "{}")]], (A, B)),
    "every index 0, no ids": ([[part(0, None, "a", '{"x":1}')], [part(0, None, "b", "{}")]], (A, B)),
    "ids, continued without index": (
        [
            [part(id="1", name="a")],
            [part(id="2", name="b")],
            [part(id="1", arguments='{"x":1}')],
            [part(id="2", arguments="{}")],
        ],
        (A, B),
    ),
    "null continuation": ([[part(0, "1", "a", '{"x"')], [part(0, None, None, ":1}")]], (A,)),
    "a new id with each piece": ([[part(0, "1", "a", '{"x"')], [part(0, "2", None, ":1}")]], (A,)),
    "name repeated": ([[part(0, "1", "a", '{"x"')], [part(0, "1", "a", ":1}")]], (A,)),
    "name empty first": ([[part(0, "1", "")], [part(0, "1", "a", '{"x":1}')]], (A,)),
    "arguments before name, no index": ([[part(arguments='{"x"')], [part(name="a", arguments=":1}")]], (A,)),
    "arguments as object": ([[part(0, "1", "a", {"x": 1})], [part(1, "2", "b", {})]], (A, B)),
    "null arguments": ([[part(0, "1", "b", None)]], (B,)),
    "name over two pieces": (
        [[part(0, "1", "read")], [part(0, None, "_file", "{}")]],
        (ToolCallRequest("read_file", {}),),
    ),
    "not a list": ([{"index": 0, "function": {"name": "b", "arguments": "{}"}}], (B,)),  # pyright: ignore[reportAssignmentType]  # on purpose
    "empty items": ([[{}], [part(0, "1", "b", "{}")]], (B,)),
}


@pytest.mark.parametrize(("chunks", "expected"), CALLS.values(), ids=CALLS.keys())
def test_e07_fragments(chunks: list[Any], expected: tuple[ToolCallRequest, ...]) -> None:
    """Fragments are put together as they were meant, in every form seen in the field."""
    response, _, _ = fold(*[delta(None, tool_calls=chunk) for chunk in chunks], delta("stop"))

    assert response.tool_calls == expected
    assert response.finish == "tool_calls"


@pytest.mark.parametrize(
    ("finish", "with_calls", "expected"),
    [
        ("stop", False, "stop"),
        ("eos", False, "stop"),
        ("tool_calls", False, "stop"),
        ("stop", True, "tool_calls"),
        ("function_call", True, "tool_calls"),
        ("length", False, "length"),
        ("length", True, "length"),
        ("content_filter", True, "refusal"),
    ],
)
def test_finish(finish: str, with_calls: bool, expected: str) -> None:
    """``finish`` follows what is there, not what the server calls it."""
    calls: dict[str, Any] = {"tool_calls": [part(0, "1", "a", '{"x":1}')]} if with_calls else {}

    assert fold(delta(None, **calls), delta(finish))[0].finish == expected


def test_e08_empty_chunks_are_no_progress() -> None:
    """Null choices, null deltas and empty contents change nothing, so they keep no silent stream alive."""
    state = OpenAIFold()
    events: list[object] = [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        delta(content=""),
        delta(content=None),
        [],
        None,
        "x",
    ]
    for event in events:
        assert state.feed(event) == []

    assert (state.progress, state.complete, state.thinks) == (0, False, True)


@pytest.mark.parametrize(
    "event", [{"error": {"message": "m"}}, {"choices": [{"error": {"message": "m"}}]}, delta("error")]
)
def test_e19_errors_inside_chunks(event: object) -> None:
    """An error is one wherever the server puts it."""
    with pytest.raises(ServerFault):
        OpenAIFold().feed(event)


def test_e11_vendor_fields_come_back_with_their_calls() -> None:
    """A thought signature is kept with the call it came with."""
    signed = part(0, "1", "a", "{}") | {"extra_content": {"google": {"thought_signature": "s"}}}

    response, _, _ = fold(delta(tool_calls=[signed]), delta(tool_calls=[part(1, "2", "b", "{}")]), delta("stop"))

    assert response.extra is not None
    assert response.extra.data == '{"calls":[{"google":{"thought_signature":"s"}},null]}'


def test_reasoning_details_are_joined_in_order() -> None:
    """Pieces of one reasoning block become one, with the signature that came last."""
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "a"},
        {"type": "reasoning.text", "index": 0, "text": "b", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]

    response, _, _ = fold(
        *(delta(reasoning_details=[piece], reasoning=piece.get("text")) for piece in pieces), delta("stop")
    )

    assert response.reasoning == "ab"
    assert response.extra is not None
    assert response.extra.data == (
        '{"message":{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"ab","signature":"s"},'
        '{"type":"reasoning.encrypted","index":1,"data":"x"}]}}'
    )


def test_e23_a_call_as_text_is_run_and_not_shown() -> None:
    """Markup of a call never reaches the person."""
    text = '{"name": "exec", "arguments": {"command": "ls"}}'

    response, shown, _ = fold(*(delta(content=text[i : i + 5]) for i in range(0, len(text), 5)), delta("stop"))

    assert (response.text, response.tool_calls, response.finish) == (
        "",
        (ToolCallRequest("exec", {"command": "ls"}),),
        "tool_calls",
    )
    assert shown == []


@pytest.mark.parametrize("tool_choice", ["auto", "none"])
def test_e23_a_json_answer_is_shown_in_the_end(tool_choice: str) -> None:
    """Text held back because it might have been a call is shown when it is none, or when calls are forbidden."""
    text = '{"name": "nobody", "arguments": {}}' if tool_choice == "auto" else '{"name": "exec", "arguments": {}}'

    response, shown, _ = fold(delta(content=text), delta("stop"), tool_choice=tool_choice)

    assert response.text == text
    assert shown == [TextDelta(text)]


def test_folding_follows_what_is_new() -> None:
    """Long arguments and held text in tiny pieces cost what they are long, not its square."""
    state = OpenAIFold((EXEC,))
    began = time.process_time()
    for _ in range(20_000):
        state.feed(delta(tool_calls=[part(0, "1", "exec", "}x" * 10)]))
    state.feed(delta(content='{"name": "exec", "arguments": "'))
    for _ in range(10_000):
        state.feed(delta(content="y" * 15))

    assert time.process_time() - began < 3


def test_a_closing_think_tag_alone_takes_the_reasoning_back() -> None:
    """Reasoning shown as text by mistake is voided, and the answer shown alone."""
    response, shown, _ = fold(delta(content="so\n</think>\n"), delta(content="yes"), delta("stop"))

    assert (response.text, response.reasoning) == ("yes", "so")
    assert isinstance(shown[-3], TextReset)


def test_content_as_parts() -> None:
    """Mistral's list of parts is text and reasoning."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]

    response, _, _ = fold(delta(content=parts), delta("stop"))

    assert (response.text, response.reasoning) == ("yes", "hm")


def test_a_call_under_its_older_name_is_a_call() -> None:
    """Servers that still speak of ``function_call`` are understood: the call comes in pieces, alone."""
    response, _, _ = fold(
        delta(function_call={"name": "exec", "arguments": '{"command"'}),
        delta(function_call={"arguments": ': "ls"}'}),
        delta("function_call"),
    )

    assert (response.tool_calls, response.finish) == ((ToolCallRequest("exec", {"command": "ls"}),), "tool_calls")


@pytest.mark.parametrize(
    "chunk",
    [
        {"object": "error", "message": "prompt is too long", "type": "BadRequestError", "code": 400},
        {"message": "prompt is too long", "code": 400},
        {"detail": "prompt is too long", "status": 400, "code": 400},
    ],
)
def test_an_error_in_the_place_of_a_chunk_is_an_error(chunk: dict[str, Any]) -> None:
    """A server that says what is wrong in the middle of a stream is heard, whatever frame it puts around it."""
    with pytest.raises(ServerFault) as caught:
        OpenAIFold().feed(chunk)

    assert (caught.value.fault.text, caught.value.fault.status) == ("prompt is too long", 400)


def test_counts_may_be_written_as_fractions() -> None:
    """12.0 tokens are 12; null, text and what is below zero are none."""
    usage = {"prompt_tokens": 12.0, "completion_tokens": -3, "prompt_tokens_details": {"cached_tokens": "7"}}
    response, _, _ = fold(delta(content="hi"), delta("stop"), {"choices": [], "usage": usage})

    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cached_tokens) == (12, 0, 0)
