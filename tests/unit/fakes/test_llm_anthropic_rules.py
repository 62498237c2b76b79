"""The local server refuses on the Messages wire what the vendor refuses, and takes the rest."""

import json
from typing import Any

import pytest

from tests.fakes.llm.anthropic_rules import check
from tests.fakes.llm.body import read_body
from tests.fakes.llm.shapes import Policy, Refused
from tests.fakes.llm.signatures import redact, sign
from tests.unit.fakes.test_llm_openai_rules import PNG64

HI = {"role": "user", "content": "hi"}
YES = {"role": "assistant", "content": "yes"}
MARK = {"type": "ephemeral"}


def text(words: object = "x", **more: object) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(call_id: object = "t1", name: object = "f", arguments: object = None, **more: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments, **more}


def result(call_id: object = "t1", content: object = "ok", **more: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def thinking(words: str = "hm", signature: str | None = None) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": sign("hm") if signature is None else signature}


def image(media_type: str = "image/png", encoded: str = PNG64) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": encoded}}


def user(*blocks: object) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: object) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool(name: object = "f", schema: object = None, **more: object) -> dict[str, Any]:
    return {"name": name, "description": "d", "input_schema": schema or {"type": "object"}, **more}


def said(*messages: object, **fields: object) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 10, "messages": list(messages), **fields}


BUDGET = {"type": "enabled", "budget_tokens": 1024}
LEGAL: dict[str, dict[str, Any]] = {
    "plain": said(HI),
    "blocks": said(user(text())),
    "system": said(HI, system="s"),
    "marked system": said(HI, system=[text("s", cache_control=MARK)]),
    "merged user rows": said(HI, HI, YES, HI),
    "one call": said(HI, model(use()), user(result())),
    "parallel calls": said(HI, model(text(), use("a"), use("b")), user(result("b"), result("a"), text("more"))),
    "result without content": said(HI, model(use()), user({"type": "tool_result", "tool_use_id": "t1"})),
    "empty result": said(HI, model(use()), user(result(content=""))),
    "result blocks": said(HI, model(use()), user(result(content=[text(), image()]))),
    "failed result": said(HI, model(use()), user(result(is_error=True))),
    "signed thinking": said(HI, model(thinking(), use()), user(result())),
    "empty thinking": said(HI, model(thinking("", sign("")), use()), user(result())),
    "redacted thinking": said(HI, model({"type": "redacted_thinking", "data": redact("x")}, text()), HI),
    "image": said(user(image(), text())),
    "tools": said(HI, tools=[tool(cache_control=MARK)], tool_choice={"type": "none"}),
    "no tools": said(HI, tools=[]),
    "knobs": said(HI, stream=True, temperature=0, top_k=1, metadata={"user_id": "u"}, stop_sequences=["x"]),
    "thinking on": said(HI, max_tokens=2000, thinking=BUDGET),
    "four marks": said(
        user(text(cache_control=MARK)),
        tools=[tool(cache_control=MARK)],
        system=[text(cache_control=MARK)],
        cache_control=MARK,
    ),
    "mark in words": said({"role": "user", "content": ',"cache_control":{"type":"x"}' * 9}),
}

ILLEGAL: dict[str, tuple[dict[str, Any], str]] = {
    "no max_tokens": ({"model": "m", "messages": [HI]}, "max_tokens: Field required"),
    "no model": ({"max_tokens": 1, "messages": [HI]}, "model: Field required"),
    "no messages": ({"model": "m", "max_tokens": 1}, "messages: Field required"),
    "zero room": (said(HI, max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
    "unknown field": (said(HI, seed=1), "seed: Extra inputs are not permitted"),
    "unknown message field": (said({**HI, "name": "x"}), "messages.0.name: Extra inputs are not permitted"),
    "unknown block field": (
        said(user(text(entry="e1"))),
        "messages.0.content.0.text.entry: Extra inputs are not permitted",
    ),
    "unknown block": (said(user({"type": "image_url"})), "Input tag 'image_url' found using 'type' does not match"),
    "call of a user": (said(user(use())), "Input tag 'tool_use' found using 'type'"),
    "result of the model": (said(HI, model(result()), HI), "Input tag 'tool_result' found using 'type'"),
    "empty messages": (said(), "messages: at least one message is required"),
    "first is the model": (said(YES, HI), 'first message must use the "user" role'),
    "system row": (said({"role": "system", "content": "x"}, HI), 'Unexpected role "system"'),
    "tool row": (said({"role": "tool", "content": "x"}), "messages.0.role: Input should be 'user' or 'assistant'"),
    "empty text": (said({"role": "user", "content": ""}), "messages.0: all messages must have non-empty content"),
    "empty answer": (
        said(HI, {"role": "assistant", "content": ""}, HI),
        "messages.1: all messages must have non-empty content",
    ),
    "no blocks": (said(user()), "all messages must have non-empty content"),
    "null content": (said({"role": "user", "content": None}), "messages.0.content: Input should be a valid list"),
    "no content": (said({"role": "user"}), "messages.0.content: Field required"),
    "empty block": (said(user(text(""))), "messages: text content blocks must be non-empty"),
    "blank block": (said(user(text(" \n"))), "text content blocks must contain non-whitespace text"),
    "null text": (said(user(text(None))), "messages.0.content.0.text.text: Input should be a valid string"),
    "empty system block": (said(HI, system=[text("")]), "system: text content blocks must be non-empty"),
    "empty block in a result": (
        said(HI, model(use()), user(result(content=[text("")]))),
        "text content blocks must be non-empty",
    ),
    "prefill": (said(HI, YES), "does not support assistant message prefill"),
    "blank end": (
        said(HI, {"role": "assistant", "content": "a "}),
        "final assistant content cannot end with trailing whitespace",
    ),
    "duplicate ids": (
        said(HI, model(use(), use()), user(result())),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    "an old id again": (
        said(HI, model(use()), user(result()), model(use()), user(result())),
        "`tool_use` ids must be unique",
    ),
    "id": (said(HI, model(use("e1.0")), user(result("e1.0"))), "tool_use.id: String should match pattern"),
    "empty id": (said(HI, model(use("")), user(result(""))), "tool_use.id: String should match pattern"),
    "null id": (said(HI, model(use(None)), user(result())), "tool_use.id: Field required"),
    "call name": (said(HI, model(use(name="a b")), user(result())), "tool_use.name: String should match pattern"),
    "input text": (
        said(HI, model(use(arguments="{}")), user(result())),
        "tool_use.input: Input should be a valid dictionary",
    ),
    "missing result": (
        said(HI, model(use()), HI),
        "messages.1: `tool_use` ids were found without `tool_result` blocks",
    ),
    "one missing result": (said(HI, model(use("a"), use("b")), user(result("a"))), "immediately after: b."),
    "late result": (said(HI, model(use()), HI, user(result())), "`tool_use` ids were found without"),
    "result after text": (said(HI, model(use()), user(text(), result())), "`tool_use` ids were found without"),
    "orphan result": (
        said(user(result())),
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1",
    ),
    "second result": (said(HI, model(use()), user(result(), result())), "each tool_use must have a single result"),
    "failed and empty": (
        said(HI, model(use()), user(result(content="", is_error=True))),
        "content cannot be empty if `is_error`",
    ),
    "failed image": (
        said(HI, model(use()), user(result(content=[image()], is_error=True))),
        "all content must be type `text`",
    ),
    "unsigned thinking": (
        said(HI, model({"type": "thinking", "thinking": "x"}, use()), user(result())),
        "signature: Field required",
    ),
    "altered thinking": (
        said(HI, model(thinking("hm!"), use()), user(result())),
        "Invalid `signature` in `thinking` block",
    ),
    "foreign signature": (said(HI, model(thinking("hm", "abc"), use()), user(result())), "Invalid `signature`"),
    "foreign redacted": (said(HI, model({"type": "redacted_thinking", "data": "eA=="}, text()), HI), "Invalid `data`"),
    "thinking last": (
        said(HI, model(text(), thinking()), HI),
        "The final block in an assistant message cannot be `thinking`",
    ),
    "five marks": (
        said(user(*[text(cache_control=MARK)] * 5)),
        "A maximum of 4 blocks with cache_control",
    ),
    "mark": (said(user(text(cache_control={"type": "forever"}))), "cache_control: Input should be"),
    "marked thinking": (
        said(HI, model({**thinking(), "cache_control": MARK}, text()), HI),
        "Extra inputs are not permitted",
    ),
    "image kind": (said(user(image("image/bmp"))), "media_type: Input should be 'image/jpeg'"),
    "image type": (said(user(image("image/jpeg"))), "Image does not match the provided media type image/jpeg"),
    "image base64": (said(user(image(encoded="%%"))), "invalid base64 data"),
    "image junk": (said(user(image(encoded=PNG64[:32]))), "Could not process image"),
    "image size": (said(user(image(encoded="AAAA" * 1_800_000))), "image exceeds 5 MB maximum: 5400000 bytes"),
    "image address": (said(user({"type": "image", "source": {"type": "file"}})), "Input tag 'file' found using 'type'"),
    "tool name": (said(HI, tools=[tool("a.b")]), "tools.0.custom.name: String should match pattern"),
    "tool twice": (said(HI, tools=[tool(), tool()]), "tools: Tool names must be unique."),
    "tool schema": (said(HI, tools=[tool(schema={"type": "string"})]), "input_schema.type: Input should be 'object'"),
    "tool field": (said(HI, tools=[tool(parameters={})]), "tools.0.custom.parameters: Extra inputs are not permitted"),
    "choice without tools": (said(HI, tool_choice={"type": "auto"}), "may only be specified while providing tools"),
    "choice": (said(HI, tools=[tool()], tool_choice="none"), "tool_choice: Input tag"),
    "choice of no tool": (
        said(HI, tools=[tool()], tool_choice={"type": "tool", "name": "g"}),
        "not found in provided tools",
    ),
    "choice field": (
        said(HI, tools=[tool()], tool_choice={"type": "none", "name": "f"}),
        "tool_choice.none.name: Extra inputs",
    ),
    "empty model": (said(HI, model=""), "model: String should have at least 1 character"),
    "room is text": (said(HI, max_tokens="9"), "max_tokens: Input should be a valid integer"),
    "stream is text": (said(HI, stream="yes"), "stream: Input should be a valid boolean"),
    "temperature": (said(HI, temperature=1.5), "temperature: Input should be less than or equal to 1"),
    "tools is an object": (said(HI, tools={}), "tools: Input should be a valid list"),
    "no schema": (said(HI, tools=[{"name": "f"}]), "tools.0.custom.input_schema: Field required"),
    "description": (
        said(HI, tools=[tool(description=None)]),
        "tools.0.custom.description: Input should be a valid string",
    ),
    "system is an object": (said(HI, system={}), "system: Input should be a valid list"),
    "messages is text": (said(HI, messages="hi"), "messages: Input should be a valid list"),
    "message is text": (said("hi"), "messages: Input should be a valid dictionary"),
    "call at the end": (said(HI, model(use())), "The conversation must end with a user message"),
    "thinking kind": (said(HI, thinking={"type": "on"}), "thinking: Input tag found"),
    "thinking and force": (
        said(HI, max_tokens=2000, thinking=BUDGET, tools=[tool()], tool_choice={"type": "any"}),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    "no budget": (said(HI, thinking={"type": "enabled"}), "budget_tokens: Field required"),
    "blank text": (said({"role": "user", "content": " \n"}), "text content blocks must contain non-whitespace text"),
    "image field": (said(user({**image(), "source": {**image()["source"], "url": ""}})), "base64.url: Extra inputs"),
    "no image": (said(user(image(encoded=""))), "base64.data: Field required"),
    "is_error text": (said(HI, model(use()), user(result(is_error="no"))), "is_error: Input should be a valid boolean"),
    "result object": (
        said(HI, model(use()), user(result(content={}))),
        "tool_result.content: Input should be a valid list",
    ),
    "null thinking": (
        said(HI, model({**thinking(), "thinking": None}, use()), user(result())),
        "thinking.thinking: Field required",
    ),
    "small budget": (said(HI, thinking={"type": "enabled", "budget_tokens": 9}), "greater than or equal to 1024"),
    "large budget": (
        said(HI, max_tokens=1024, thinking=BUDGET),
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    ),
    "thinking and temperature": (said(HI, max_tokens=2000, temperature=0, thinking=BUDGET), "may only be set to 1"),
    "metadata": (said(HI, metadata={"chat": "x"}), "metadata.chat: Extra inputs are not permitted"),
}


def judge(
    body: dict[str, Any], *, counts_only: bool = False, version: str | None = "2023-06-01", **policy: Any
) -> str | None:
    try:
        check(read_body(json.dumps(body).encode()), Policy(**policy), version=version, counts_only=counts_only)
    except Refused as refused:
        return refused.message
    return None


@pytest.mark.parametrize("name", LEGAL)
def test_legal_requests_are_taken(name: str) -> None:
    """A request that the vendor takes is taken."""
    assert judge(LEGAL[name]) is None


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_requests_are_refused_in_the_vendors_words(name: str) -> None:
    """A request that the vendor refuses is refused, with its text."""
    body, words = ILLEGAL[name]

    refusal = judge(body)

    assert refusal is not None
    assert words in refusal


def test_the_version_header_is_asked_for() -> None:
    """A client without the header learns which one is missing."""
    assert judge(said(HI), version=None) == "anthropic-version: header is required"


def test_counting_needs_no_room_and_takes_none() -> None:
    """A token count has no max_tokens."""
    assert judge({"model": "m", "messages": [HI]}, counts_only=True) is None
    assert judge(said(HI), counts_only=True) == "max_tokens: Extra inputs are not permitted"


def test_a07_strict_roles_refuse_neighbours() -> None:
    """With strict roles, two rows of one role in a row are refused."""
    refusal = judge(said(HI, HI), strict_roles=True)

    assert refusal is not None
    assert 'found multiple "user" roles in a row' in refusal


def test_strict_thinking_wants_it_before_a_call_under_way() -> None:
    """With thinking on, the last tool call keeps the thinking that led to it."""
    bare = said(HI, model(use()), user(result()), max_tokens=2000, thinking=BUDGET)
    kept = said(HI, model(thinking(), use()), user(result()), max_tokens=2000, thinking=BUDGET)

    assert "must start with a thinking block" in (judge(bare, strict_thinking=True) or "")
    assert judge(kept, strict_thinking=True) is None


def test_a_prompt_over_the_window_is_refused_with_both_numbers() -> None:
    """A prompt that does not fit, alone or with the answer's room, is refused by number."""
    body = said({"role": "user", "content": "x" * 4_000})

    assert judge(body, window_tokens=1_000) == "prompt is too long: 1008 tokens > 1000 maximum"
    assert "exceed context limit: 1008 + 10 > 1010" in (judge(body, window_tokens=1_010) or "")
    assert judge(body, window_tokens=1_020) is None


def test_an_image_counts_the_same_whatever_its_bytes() -> None:
    """Base64 is not counted as text."""
    large = image("image/gif", "R0lGODlh" + "A" * 400_000)

    assert judge(said(user(large)), window_tokens=2_000) is None
