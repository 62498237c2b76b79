"""Schemas of remote tools: both wires take them, or the tool is left out with a reason."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.mcp.schemas import MAX_SCHEMA_CHARS, Unusable, missing, usable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "allOf", "$ref", "required", "enum", "$defs", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def properties(schema: dict[str, Any]) -> Any:
    out: Any = usable({"type": "object", "properties": {"a": schema}})
    return out["properties"]["a"]


@given(JSON)
def test_whatever_a_server_sends_is_usable_or_refused(schema: Any) -> None:
    """No schema raises anything else, and what comes out is an object with properties."""
    try:
        out = usable(schema)
    except Unusable:
        return

    assert out["type"] == "object"
    assert isinstance(out["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(out)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "items": {}}),
        ({"type": "int32"}, {}),
        ({"type": "string", "enum": []}, {"type": "string"}),
        ({"type": "string", "title": "A", "$comment": "x"}, {"type": "string"}),
        ({"$ref": "https://example.com/schema"}, {}),
        ({"$ref": "#/nowhere", "description": "x"}, {"description": "x"}),
        (True, {}),
    ],
)
def test_what_a_vendor_refuses_is_made_wider(given: Any, wanted: object) -> None:
    """The nearest thing that both vendors take stands in its place."""
    assert properties(given) == wanted


def test_references_are_put_in_place_and_circles_end() -> None:
    """A schema that refers to itself becomes finite."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "value": {"type": "string"}}}
    schema: Any = {"type": "object", "properties": {"a": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}

    out: Any = usable(schema)

    assert out["properties"]["a"]["properties"] == {"next": {}, "value": {"type": "string"}}
    assert "$defs" not in out


def test_alternatives_at_the_top_become_one_object() -> None:
    """Anthropic refuses alternatives there; all their arguments can be given, none must."""
    branches: Any = [
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}},
    ]

    out = usable({"anyOf": branches})

    assert out == {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("object", "no object"),
        ({"type": "string"}, "arguments are no object"),
        ({"properties": {"what is it?": {}}}, "cannot be sent"),
        ({"properties": {f"p{n}": {"description": "x" * 200} for n in range(MAX_SCHEMA_CHARS // 200)}}, "too long"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_a_reason(schema: Any, why: str) -> None:
    """The reason is what the status shows."""
    with pytest.raises(Unusable, match=why):
        usable(schema)


def test_depth_without_end_is_cut() -> None:
    """A schema of a thousand levels costs no recursion error."""
    schema: Any = {"type": "string"}
    for _ in range(1_000):
        schema = {"type": "object", "properties": {"a": schema}}

    assert usable(schema)["type"] == "object"


def test_arguments_are_checked_as_far_as_the_schema_is_plain() -> None:
    """What is missing, or not there, is said before anything runs."""
    schema: Any = {"properties": {"a": {}, "b": {}}, "required": ["a"], "additionalProperties": False}

    assert missing({"a": 1}, schema) == ""
    assert missing({"b": 1}, schema) == "required and missing: a"
    assert missing({"a": 1, "c": 2}, schema) == "there is no argument 'c'; it takes: a, b"
