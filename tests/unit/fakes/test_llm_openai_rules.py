"""The local server refuses on Chat Completions what the vendor refuses, and takes the rest."""

import base64
import json
import struct
from typing import Any

import pytest

from tests.fakes.llm.body import NotJson, read_body
from tests.fakes.llm.openai_rules import check
from tests.fakes.llm.shapes import Policy, Refused

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1, 1) + b"\x08\0\0\0\0crc.\0\0\0\0IEND\xaeB`\x82"
PNG64 = base64.b64encode(PNG).decode()
HI = {"role": "user", "content": "hi"}


def call(call_id: object = "c1", name: object = "f", arguments: object = "{}", **more: object) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*rows: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(rows), **more}


def result(call_id: object = "c1", content: object = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool(name: object = "f", parameters: object = None) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters or {"type": "object", "properties": {}}},
    }


def image(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def said(*messages: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **fields}


LEGAL: dict[str, dict[str, Any]] = {
    "plain": said(HI),
    "system": said({"role": "system", "content": "s"}, HI),
    "developer": said({"role": "developer", "content": "s"}, HI),
    "one call": said(HI, calls(call()), result()),
    "parallel calls": said(
        HI, calls(call("a"), call("b")), result("b"), result("a"), {"role": "user", "content": "so?"}
    ),
    "the same id in a later turn": said(HI, calls(call()), result(), calls(call()), result()),
    "text beside calls": said(HI, {**calls(call()), "content": "let me see"}, result()),
    "reasoning given back": said(HI, calls(call(), reasoning_content="hm"), result()),
    "signature given back": said(HI, calls(call(extra_content={"google": {"thought_signature": "x"}})), result()),
    "empty user text": said({"role": "user", "content": ""}),
    "empty result": said(HI, calls(call()), result(content="")),
    "result parts": said(HI, calls(call()), result(content=[{"type": "text", "text": "x"}])),
    "two user rows": said(HI, HI),
    "image": said(image("data:image/png;base64," + PNG64)),
    "tools": said(HI, tools=[tool()], tool_choice="none", parallel_tool_calls=True),
    "named tool": said(HI, tools=[tool()], tool_choice={"type": "function", "function": {"name": "f"}}),
    "knobs": said(
        HI, max_completion_tokens=9, reasoning_effort="low", prompt_cache_key="k", temperature=0, seed=1, stop=["x"]
    ),
    "stream": said(HI, stream=True, stream_options={"include_usage": True}),
    "null knobs": said(HI, max_tokens=None, temperature=None, tools=None, tool_choice=None),
}

ILLEGAL: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "unknown field": (said(HI, top_k=3), "Unknown parameter: 'top_k'.", "unknown_parameter"),
    "no model": ({"messages": [HI]}, "you must provide a model parameter", None),
    "no messages": ({"model": "m"}, "Missing required parameter: 'messages'.", "missing_required_parameter"),
    "empty messages": (said(), "Invalid 'messages': empty array.", "empty_array"),
    "message is text": ({"model": "m", "messages": ["hi"]}, "Invalid type for 'messages'", "invalid_type"),
    "unknown role": (
        said({"role": "bot", "content": "x"}),
        "Invalid value: 'bot'. Supported values",
        "invalid_value",
    ),
    "no role": (said({"content": "x"}), "Invalid value: 'None'", "invalid_value"),
    "unknown message field": (
        said({**HI, "entry": "e1"}),
        "Unknown parameter: 'messages[0].entry'.",
        "unknown_parameter",
    ),
    "unknown call field": (
        said(HI, calls(call(index=0)), result()),
        "'messages[1].tool_calls[0].index'",
        "unknown_parameter",
    ),
    "orphan result": (said(HI, result()), "must be a response to a preceeding message with 'tool_calls'", None),
    "result of another id": (said(HI, calls(call()), result("x")), "must be a response to a preceeding", None),
    "late result": (said(HI, calls(call()), result(), HI, result()), "must be a response to a preceeding", None),
    "missing result": (said(HI, calls(call()), HI), "did not have response messages: c1", None),
    "missing result at the end": (said(HI, calls(call("a"), call("b")), result("a")), "response messages: b", None),
    "missing second result": (said(HI, calls(call("a"), call("b")), result("a"), HI), "response messages: b", None),
    "duplicate ids": (said(HI, calls(call(), call()), result()), "Duplicate value for 'tool_call_id' of c1", None),
    "duplicate results": (
        said(HI, calls(call()), result(), result()),
        "Duplicate value for 'tool_call_id' of c1",
        None,
    ),
    "long id": (
        said(HI, calls(call("x" * 41)), result("x" * 41)),
        "maximum length 40, but got a string with length 41",
        None,
    ),
    "empty id": (said(HI, calls(call("")), result("")), "Expected a string with minimum length 1", "empty_string"),
    "null id": (
        said(HI, calls(call(None)), result()),
        "Missing required parameter: 'messages[1].tool_calls[0].id'",
        None,
    ),
    "null result id": (
        said(HI, calls(call()), result(None)),
        "Missing required parameter: 'messages[2].tool_call_id'",
        None,
    ),
    "null content": (said(HI, {"role": "assistant", "content": None}, HI), "expected a string, got null", None),
    "null user content": (said({"role": "user", "content": None}), "expected a string, got null", None),
    "null result content": (said(HI, calls(call()), result(content=None)), "expected a string, got null", None),
    "content is an object": (said({"role": "user", "content": {"a": 1}}), "but got an object instead", "invalid_type"),
    "no parts": (said({"role": "user", "content": []}), "Invalid 'messages[0].content': empty array", "empty_array"),
    "no calls": (
        said(HI, {"role": "assistant", "content": "x", "tool_calls": []}, HI),
        "tool_calls': empty array",
        "empty_array",
    ),
    "unknown part": (
        said({"role": "user", "content": [{"type": "image"}]}),
        "Invalid value: 'image'.",
        "invalid_value",
    ),
    "arguments object": (
        said(HI, calls(call(arguments={})), result()),
        "expected a string, but got an object",
        "invalid_type",
    ),
    "call name": (
        said(HI, calls(call(name="a b")), result()),
        "Expected a string that matches the pattern",
        "invalid_value",
    ),
    "empty call name": (said(HI, calls(call(name="")), result()), "Expected a string that matches", "invalid_value"),
    "call without type": (said(HI, calls({**call(), "type": None}), result()), "tool_calls[0].type", None),
    "tools empty": (said(HI, tools=[]), "Invalid 'tools': empty array.", "empty_array"),
    "tool name": (said(HI, tools=[tool("a.b")]), "Invalid 'tools[0].function.name'", "invalid_value"),
    "tool twice": (said(HI, tools=[tool(), tool()]), "Tool names must be unique", "invalid_value"),
    "schema": (
        said(HI, tools=[tool("f", {"type": "string"})]),
        "got 'type: \"string\"'",
        "invalid_function_parameters",
    ),
    "choice without tools": (said(HI, tool_choice="auto"), "only allowed when 'tools' are specified", None),
    "choice of no tool": (
        said(HI, tools=[tool()], tool_choice={"function": {"name": "g"}}),
        "Invalid value for 'tool_choice'",
        None,
    ),
    "parallel without tools": (said(HI, parallel_tool_calls=False), "only allowed when 'tools' are specified", None),
    "ends with the model": (said(HI, {"role": "assistant", "content": "x"}), "Cannot continue from", None),
    "stream is text": (said(HI, stream="yes"), "Invalid type for 'stream'", "invalid_type"),
    "tools is an object": (said(HI, tools={}), "Invalid type for 'tools'", "invalid_type"),
    "bare tool": (said(HI, tools=[{"name": "f"}]), "Missing required parameter: 'tools[0].function'", None),
    "null text": (
        said({"role": "user", "content": [{"type": "text", "text": None}]}),
        "content[0].text': expected a string",
        None,
    ),
    "both limits": (said(HI, max_tokens=1, max_completion_tokens=1), "at the same time is not supported", None),
    "zero room": (said(HI, max_tokens=0), "Expected a value >= 1, but got 0", "integer_below_min_value"),
    "options without stream": (
        said(HI, stream_options={"include_usage": True}),
        "only allowed when 'stream' is enabled",
        None,
    ),
    "temperature": (said(HI, temperature=3), "between 0 and 2, but got 3", None),
    "effort": (said(HI, reasoning_effort="max"), "Invalid value: 'max'", "invalid_value"),
    "image by address": (
        said(image("https://example.org/a.png")),
        "Expected a base64-encoded data URL",
        "invalid_image_url",
    ),
    "image base64": (said(image("data:image/png;base64,%%%")), "invalid base64 data", "invalid_base64"),
    "image junk": (said(image("data:image/png;base64," + PNG64[:32])), "unsupported image", "invalid_image_format"),
    "image kind": (said(image("data:image/jpeg;base64," + PNG64)), "does not match the provided media type", None),
    "image of a tool": (
        said(HI, calls(call()), result(content=[{"type": "image_url"}])),
        "only allowed for messages with role 'user'",
        None,
    ),
}


def judge(body: dict[str, Any], **policy: Any) -> Refused | None:  # Any: Policy's own fields
    try:
        check(read_body(json.dumps(body).encode()), Policy(**policy))
    except Refused as refused:
        return refused
    return None


@pytest.mark.parametrize("name", LEGAL)
def test_legal_requests_are_taken(name: str) -> None:
    """A request that the vendor takes is taken."""
    assert judge(LEGAL[name]) is None


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_requests_are_refused_in_the_vendors_words(name: str) -> None:
    """A request that the vendor refuses is refused, with its text and code."""
    body, text, code = ILLEGAL[name]

    refused = judge(body)

    assert refused is not None
    assert text in refused.message
    assert refused.status == 400
    assert code is None or refused.code == code


def test_compatible_vendors_take_more_fields() -> None:
    """A field named as lenient is taken at the top and in messages."""
    body = said({**HI, "top_k": 1}, top_k=1)

    assert judge(body, lenient_fields=frozenset({"top_k"})) is None
    assert judge(body) is not None


@pytest.mark.parametrize(
    ("roles", "is_legal"),
    [
        ("su", True),
        ("uau", True),
        ("uct", True),
        ("uctu", True),
        ("uctctau", True),
        ("uu", False),
        ("uaau", False),
        ("au", False),
        ("usu", False),
        ("uasu", False),
        ("uctau", True),
        ("uctuu", False),
    ],
)
def test_a07_chat_templates_want_roles_in_turns(roles: str, is_legal: bool) -> None:
    """With strict roles, neighbouring rows of one role get the template's error with status 500."""
    rows = {
        "s": {"role": "system", "content": "s"},
        "u": HI,
        "a": {"role": "assistant", "content": "x"},
        "c": calls(call()),
        "t": result(),
    }

    refused = judge(said(*(rows[role] for role in roles)), strict_roles=True)

    assert (refused is None) == is_legal
    if refused:
        assert refused.status == 500
        assert "alternate user/assistant" in refused.message or "must be at the beginning" in refused.message


def test_a_prompt_over_the_window_is_refused_with_both_numbers() -> None:
    """Prompt and room for the answer together must fit, and the error names them."""
    body = said({"role": "user", "content": "x" * 4_000}, max_tokens=100)

    refused = judge(body, window_tokens=1_050)

    assert refused is not None
    assert refused.code == "context_length_exceeded"
    assert "maximum context length is 1050 tokens" in refused.message
    assert "100 in the completion" in refused.message
    assert judge(body, window_tokens=1_200) is None


def test_tool_schemas_count_towards_the_window() -> None:
    """Tools are part of the prompt."""
    big = tool("f", {"type": "object", "description": "x" * 4_000})

    assert judge(said(HI, tools=[big]), window_tokens=500) is not None
    assert judge(said(HI), window_tokens=500) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"model": "m"',
        b'{"model": "m",}',
        b'{"messages": [1,]}',
        b'{"temperature": NaN}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\\ud83d"}',
        b'{"messages": [{"role": "user", "content": "\\ude00"}]}',
        b'{"a": 1} x',
    ],
)
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    """Broken JSON, wrong UTF-8 and lone surrogates never reach the rules."""
    with pytest.raises(NotJson):
        read_body(raw)


def test_escaped_pairs_are_json() -> None:
    """A surrogate pair written as two escapes is a character."""
    assert read_body(b' { "a" : "\\ud83d\\ude00" } ').fields == {"a": "😀"}
