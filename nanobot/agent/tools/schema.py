"""A tool's JSON schema as models read it best: small, flat, and the same bytes at every start.

Pure.  Titles go, ``$defs`` are inlined, "X or null, default null" becomes an optional X, since a null there is read as "left out".
"""

from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from nanobot.messages import JsonObject

_DEPTH = 12  # a schema that refers to itself keeps its $defs


class _Generator(GenerateJsonSchema):
    """Pydantic's own; but a default that is JSON already stays as it is: a validator for each takes a third of the time."""

    def encode_default(self, dft: Any) -> Any:  # Any: as the base has it
        return dft if dft is None or type(dft) in (bool, int, float, str) else super().encode_default(dft)


def parameters(model: type[BaseModel]) -> JsonObject:
    """Return the arguments' schema: always of type object, with properties."""
    raw = cast("JsonObject", model.model_json_schema(schema_generator=_Generator))
    definitions = cast("JsonObject", raw.pop("$defs", {}))
    raw.pop("description", None)  # the tool's own description says it
    simple = cast("JsonObject", _simplify(raw, definitions, 0))
    if _has_reference(simple):
        simple["$defs"] = {name: _simplify(d, {}, 0) for name, d in definitions.items()}
    simple.setdefault("properties", {})
    simple["type"] = "object"
    return simple


def _simplify(node: Any, definitions: JsonObject, depth: int) -> Any:
    if isinstance(node, list):
        return [_simplify(item, definitions, depth) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = _without_null(_inlined(dict(cast("JsonObject", node)), definitions, depth))
    schema = _inlined(schema, definitions, depth)  # "X or null" may have left a reference to X
    if schema.pop("discriminator", None) is not None:  # it names $defs, and not every vendor knows oneOf
        schema["anyOf"] = schema.pop("oneOf", [])
    out: JsonObject = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key == "properties" and isinstance(value, dict):  # its keys are names of arguments, not keywords
            out[key] = {name: _simplify(sub, definitions, depth + 1) for name, sub in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            out[key] = value
        else:
            out[key] = _simplify(value, definitions, depth + 1)
    return out


def _inlined(schema: JsonObject, definitions: JsonObject, depth: int) -> JsonObject:
    target = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if target not in definitions or depth >= _DEPTH or _refers_to(definitions[target], target, definitions):
        return schema
    own = {key: value for key, value in schema.items() if key != "$ref"}
    return {**cast("JsonObject", definitions[target]), **own}


def _without_null(schema: JsonObject) -> JsonObject:
    branches = schema.get("anyOf")
    if not isinstance(branches, list) or "default" not in schema or schema["default"] is not None:
        return schema
    rest = [branch for branch in branches if branch != {"type": "null"}]
    if len(rest) != 1 or len(rest) == len(branches) or not isinstance(rest[0], dict):
        return schema
    return {**rest[0], **{k: v for k, v in schema.items() if k not in ("anyOf", "default")}}


def _has_reference(node: Any) -> bool:
    if isinstance(node, list):
        return any(_has_reference(item) for item in cast("list[Any]", node))
    if not isinstance(node, dict):
        return False
    schema = cast("JsonObject", node)
    return isinstance(schema.get("$ref"), str) or any(_has_reference(value) for value in schema.values())


def _refers_to(node: Any, target: str, definitions: JsonObject, seen: frozenset[str] = frozenset()) -> bool:
    if isinstance(node, list):
        return any(_refers_to(item, target, definitions, seen) for item in cast("list[Any]", node))
    if not isinstance(node, dict):
        return False
    schema = cast("JsonObject", node)
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name == target:
        return True
    if name in definitions and name not in seen and _refers_to(definitions[name], target, definitions, seen | {name}):
        return True
    return any(_refers_to(value, target, definitions, seen) for value in schema.values())
