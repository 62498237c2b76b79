"""Token estimates against recorded counts of both OpenAI vocabularies (``token_counts.json``, made by ``bench/tokens.py``)."""

import json
import time
from pathlib import Path

import pytest

from nanobot.agent.tokens import IMAGE_TOKENS, estimate_message, estimate_text, estimate_tools
from nanobot.messages import (
    AssistantMessage,
    ImagePart,
    JsonObject,
    ProviderExtra,
    ToolCall,
    ToolMessage,
    UserMessage,
    user_text,
)
from nanobot.providers.base import ToolSpec

COUNTS = json.loads(Path(__file__).with_name("token_counts.json").read_text("utf-8"))


@pytest.mark.parametrize("kind", COUNTS)
def test_no_kind_of_text_is_underestimated_by_more_than_a_tenth(kind: str) -> None:
    """Code, prose, every script, emoji, base64, JSON, listings: at least 90 % of the larger count, and not wildly more."""
    row = COUNTS[kind]
    real = max(row["o200k"], row["cl100k"])

    assert estimate_text(row["text"]) >= 0.9 * real
    assert estimate_text(row["text"]) <= 2 * real


def test_the_mixed_corpus_is_close() -> None:
    """All kinds together are within a quarter of the count, and never below it."""
    real = sum(max(row["o200k"], row["cl100k"]) for row in COUNTS.values())
    estimated = sum(estimate_text(row["text"]) for row in COUNTS.values())

    assert real <= estimated <= 1.25 * real


def test_any_text_has_an_estimate() -> None:
    """Empty text, lone surrogates, NULs and characters of no script neither fail nor count as nothing."""
    assert estimate_text("") == 0
    for text in ("\ud800", "\0", "\U0010ffff", "\u200d", "\x7f\x85"):
        assert estimate_text(text) >= 0
    assert estimate_text("\ud800" * 100) >= 100


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {},
        {"$ref": "#/x"},
        {"anyOf": [{"type": "string"}, True]},
        {"type": "object", "description": "größe 漢字"},
        {"properties": {"a": True, "b": False}},
    ],
)
def test_b32_any_schema_has_an_estimate(schema: JsonObject) -> None:
    """B32: lists as types, references, booleans and missing types are counted as the text they are sent as."""
    assert estimate_tools([ToolSpec("f", "does f", schema)]) > 5


def test_b04_schemas_count() -> None:
    """B04: fifty tools of a kilobyte each take thousands of tokens."""
    tools = [ToolSpec(f"tool_{i}", "what it does " * 40, {"type": "object", "properties": {}}) for i in range(50)]

    assert estimate_tools(tools) > 50 * 110


def test_images_calls_and_what_goes_back_to_the_provider_count() -> None:
    """A message takes more with an image, with a call, and with signed thinking."""
    plain = estimate_message(AssistantMessage("text"))
    call = ToolCall("c", "exec", {"command": "ls -la /var/log"})

    assert estimate_message(UserMessage((ImagePart("/p", "image/png", "0"),))) >= IMAGE_TOKENS
    assert (
        estimate_message(ToolMessage("c", "exec", "", shown=(ImagePart("/p", "image/png", "0"),) * 2))
        >= 2 * IMAGE_TOKENS
    )
    assert estimate_message(AssistantMessage("text", (call,))) >= plain + 8
    assert estimate_message(AssistantMessage("text", extra=ProviderExtra("p", "m", "word " * 500))) >= plain + 500
    assert estimate_message(ToolMessage("c", "exec", "word " * 500)) >= 500


def test_a_message_is_estimated_once() -> None:
    """The second time costs nothing, so a long history is not read again for every request."""
    message = user_text("some words " * 20_000)
    estimate_message(message)
    started = time.perf_counter()
    for _ in range(1_000):
        estimate_message(message)

    assert time.perf_counter() - started < 0.1
