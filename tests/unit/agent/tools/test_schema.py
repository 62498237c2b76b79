"""Schemas as models see them."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.schema import parameters


class Leaf(ToolArguments):
    title: str
    size: int | None = None


class Tree(ToolArguments):
    """Not for the model."""

    leaf: Leaf
    children: list[Tree] = Field(default_factory=list["Tree"])
    either: int | str | None = None


def test_titles_and_nulls_go_and_definitions_are_inlined() -> None:
    """The schema is small and flat; an argument named title stays."""
    found = parameters(Leaf)

    assert found == {
        "type": "object",
        "properties": {"title": {"type": "string"}, "size": {"type": "integer"}},
        "required": ["title"],
        "additionalProperties": False,
    }


class Kind(Enum):
    GREEN = "green"
    RED = "red"


class Cat(ToolArguments):
    kind: Literal["cat"]
    lives: int = 9


class Dog(ToolArguments):
    kind: Literal["dog"]


class Everything(ToolArguments):
    kind: Kind
    other: Kind | None = None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    pets: list[Cat | Dog] = Field(default_factory=list[Cat | Dog])
    by_name: dict[str, Leaf] = Field(default_factory=dict[str, Leaf])
    when: date | None = None
    must: int | None
    pair: tuple[int, str] = (1, "a")


def test_b32_no_reference_is_left_where_none_is_needed() -> None:
    """Enums, "X or null", nested models and unions told apart by a field: no $ref, no oneOf, and each type is one name."""
    found = parameters(Everything)

    text = json.dumps(found)
    properties: Any = found["properties"]
    assert not [word for word in ("$ref", "$defs", "discriminator", "oneOf", '"type": [') if word in text]
    assert properties["other"] == {"enum": ["green", "red"], "type": "string"}
    assert [branch["properties"]["kind"]["const"] for branch in properties["pet"]["anyOf"]] == ["cat", "dog"]
    assert properties["when"] == {"format": "date", "type": "string"}


def test_b32_schemas_with_references_and_unions_stay_legal() -> None:
    """A schema that refers to itself keeps its definitions, and every reference has its target."""
    found = parameters(Tree)

    text = json.dumps(found)
    assert '"#/$defs/Tree"' in text
    assert "Tree" in found["$defs"]  # pyright: ignore[reportOperatorIssue]  # JSON
    assert "Leaf" not in text.replace('"leaf"', "").split('"$defs"')[0]
    assert found["type"] == "object"
