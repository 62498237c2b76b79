"""Schemas as models see them."""

from __future__ import annotations

import json

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


def test_b32_schemas_with_references_and_unions_stay_legal() -> None:
    """A schema that refers to itself keeps its definitions, and every reference has its target."""
    found = parameters(Tree)

    text = json.dumps(found)
    assert '"#/$defs/Tree"' in text
    assert "Tree" in found["$defs"]  # pyright: ignore[reportOperatorIssue]  # JSON
    assert "Leaf" not in text.replace('"leaf"', "").split('"$defs"')[0]
    assert found["type"] == "object"
