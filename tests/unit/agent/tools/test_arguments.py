"""From a model's text to arguments."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from nanobot.agent.tools.arguments import ToolArguments, parse_arguments, validate
from nanobot.errors import ToolError


class Inner(ToolArguments):
    a: str
    b: int = 1


class Outer(ToolArguments):
    path: str
    count: int = 5
    flag: bool = False
    items: list[Inner] = Field(default_factory=list[Inner])
    note: str | None = None


class Nothing(ToolArguments):
    pass


def refusal(raw: Any, model: type[BaseModel] = Outer) -> str:
    """Return the error of arguments that must not run."""
    with pytest.raises(ToolError) as caught:
        validate(parse_arguments(raw, model), model)
    return str(caught.value)


@pytest.mark.parametrize("end", range(1, len('{"path": "rm -rf /tmp/a", "count": 12')))
def test_e04_cut_off_json_never_becomes_arguments(end: int) -> None:
    """Wherever a call was cut off, the model is told and nothing is parsed from it."""
    assert "cut off" in refusal('{"path": "rm -rf /tmp/a", "count": 12'[:end])


def test_e04_lone_backslashes_are_repaired_without_loss() -> None:
    """A backslash that starts no JSON escape is a backslash."""
    parsed = parse_arguments(r'{"path": "C:\docs\user", "note": "say \"\d+\""}', Outer)

    assert parsed == {"path": r"C:\docs\user", "note": r'say "\d+"'}


@pytest.mark.parametrize(
    "raw", [r'{"path": "C:\dir\new"}', r'{"path": "\d\\d"}', r'{"path": "a\d\u0041"}', r'{"path": "\d\/x"}']
)
def test_e04_escapes_with_two_readings_are_refused(raw: str) -> None:
    """Where another escape in the same string could be meant literally too, nothing is guessed."""
    assert "as two" in refusal(raw)


def test_raw_control_characters_in_strings_are_taken_as_they_are() -> None:
    """A newline that was not escaped has one reading only."""
    assert parse_arguments('{"path": "a\nb\tc"}', Outer) == {"path": "a\nb\tc"}


def test_an_object_encoded_twice_is_opened() -> None:
    """JSON in a JSON string is what some servers send."""
    assert parse_arguments(json.dumps('{"path": "x"}'), Outer) == {"path": "x"}


@pytest.mark.parametrize(
    "raw", ["", "  ", "[1]", "null", "3", '"x"', "{'path': 'x'}", '{"path": "x"} trailing', "[" * 100_000]
)
def test_what_is_no_object_is_refused_and_never_empty_arguments(raw: str) -> None:
    """Anything but one JSON object is an error for the model."""
    assert refusal(raw)


def test_empty_text_calls_a_tool_without_arguments() -> None:
    """A tool that takes nothing needs no braces."""
    assert parse_arguments("", Nothing) == {}


def test_coercion_is_gentle() -> None:
    """Numbers and booleans as text, null for a default, JSON text for a list, a number for text: all mean one thing."""
    raw: Any = {"path": 7, "count": "5", "flag": "true", "items": '[{"a": "q", "b": null}]', "note": None}

    assert validate(raw, Outer) == Outer(path="7", count=5, flag=True, items=[Inner(a="q")])


def test_a_null_default_inside_json_text_is_left_out_too() -> None:
    """Repairs go on until nothing is left to repair."""
    raw: Any = {"path": "x", "count": None, "items": ['{"a": "q", "b": null}']}

    assert validate(raw, Outer) == Outer(path="x", items=[Inner(a="q")])


def test_errors_name_field_problem_and_expectation() -> None:
    """The model can correct every field from one answer."""
    text = refusal({"pth": "x", "count": "many", "items": [{"b": 2}]})

    assert "path: is required and missing" in text
    assert 'count: got "many"' in text
    assert "integer" in text
    assert "items.0.a: is required" in text
    assert "pth: there is no such argument; did you mean path?" in text
    assert "It takes: path, count (optional)" in text


def test_validation_leaves_the_given_arguments_untouched() -> None:
    """The log holds what the model wrote."""
    raw: Any = {"path": "x", "count": None, "items": "[]"}

    validate(raw, Outer)

    assert raw == {"path": "x", "count": None, "items": "[]"}
