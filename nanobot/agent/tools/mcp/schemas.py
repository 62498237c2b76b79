"""A remote tool's schema as both wires accept it.

Pure.  Servers send what their libraries make: references, several types at once, alternatives at the top, megabytes.  What one of
the vendors refuses is rewritten to the nearest thing that both accept, always to something wider: the server checks the arguments
again.  A schema that cannot be rewritten costs its own tool only, with the reason.
"""

import json
import re
from typing import Any, cast

from nanobot.messages import JsonObject, JsonValue, clean_text

MAX_SCHEMA_CHARS = 20_000
_MAX_DEPTH = 12
_MAX_NODES = 2_000
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # what Anthropic takes as an argument's name
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_DROPPED = frozenset(
    {"$schema", "$id", "$comment", "$anchor", "$defs", "definitions", "$ref", "$dynamicRef", "$dynamicAnchor"}
    | {"title", "examples", "deprecated", "readOnly", "writeOnly", "if", "then", "else", "not", "dependentSchemas"}
    | {"dependentRequired", "unevaluatedProperties", "unevaluatedItems", "contentMediaType", "contentEncoding"}
)
_LITERAL = frozenset({"default", "const", "enum"})
_BRANCHES = ("allOf", "anyOf", "oneOf")


class Unusable(ValueError):
    """A schema that no wire could be given; the text says why."""


def usable(schema: object) -> JsonObject:
    """Return the schema for the wires: of type object, self-contained and of bounded size.

    Raises:
        Unusable: why this tool cannot be offered.
    """
    if not isinstance(schema, dict):
        raise Unusable("its schema is no object")
    root = cast("JsonObject", schema)
    try:
        out = _Rewriter(root).rewrite(root)
    except RecursionError:
        raise Unusable("its schema is nested too deeply") from None
    if out.get("type", "object") != "object":
        raise Unusable("its arguments are no object")
    out = _flat(out)
    for name in cast("JsonObject", out["properties"]):
        if not _PROPERTY.fullmatch(name):
            raise Unusable(f"an argument's name cannot be sent: {name[:40]!r}")
    size = len(json.dumps(out, ensure_ascii=False))
    if size > MAX_SCHEMA_CHARS:
        raise Unusable(f"its schema is too long ({size:,} characters, at most {MAX_SCHEMA_CHARS:,})")
    return out


def missing(arguments: JsonObject, schema: JsonObject) -> str:
    """Say what a call lacks or has too much by the server's own word; empty if nothing.  The server checks the rest."""
    required = [name for name in _texts(schema.get("required")) if name not in arguments]
    if required:
        return f"required and missing: {', '.join(required)}"
    properties = schema.get("properties")
    if schema.get("additionalProperties") is not False or not isinstance(properties, dict):
        return ""
    unknown = [name for name in arguments if name not in properties]
    return f"there is no argument {unknown[0]!r}; it takes: {', '.join(properties) or 'none'}" if unknown else ""


class _Rewriter:
    """One walk over one schema; references are put in place, as far as they do not run in circles."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._nodes = 0

    def rewrite(self, node: object, depth: int = 0, within: frozenset[str] = frozenset()) -> JsonObject:
        """Return a schema; whatever is none, or too deep, is anything."""
        self._nodes += 1
        if not isinstance(node, dict) or depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return {}
        schema = cast("JsonObject", node)
        target = schema.get("$ref")
        if isinstance(target, str):
            if target in within:
                return {}
            own = {key: value for key, value in schema.items() if key != "$ref"}
            return self.rewrite({**(self._find(target) or {}), **own}, depth + 1, within | {target})
        out: JsonObject = {}
        for key, value in schema.items():
            if key not in _DROPPED:
                self._keyword(out, key, value, depth + 1, within)
        return _typed(out)

    def _keyword(self, out: JsonObject, key: str, value: Any, depth: int, within: frozenset[str]) -> None:
        if key in ("properties", "patternProperties"):
            if isinstance(value, dict):
                named = cast("JsonObject", value)
                out[key] = {name: self.rewrite(sub, depth, within) for name, sub in named.items()}
        elif key in _BRANCHES or key == "prefixItems":
            if isinstance(value, list) and value:
                out[key] = [self.rewrite(sub, depth, within) for sub in cast("list[object]", value)]
        elif key == "required":
            out[key] = list(dict.fromkeys(_texts(value)))
        elif key == "enum":
            if isinstance(value, list) and value:
                out[key] = _clean(value)
        elif key in _LITERAL:
            out[key] = _clean(value)
        elif key == "items" and isinstance(value, list):  # the old way to write a tuple
            out[key] = {}
        elif key in ("items", "additionalProperties", "contains", "propertyNames") and not isinstance(value, bool):
            out[key] = self.rewrite(value, depth, within)
        elif key == "description":
            out[key] = clean_text(str(value))
        elif isinstance(value, str | int | float | bool) or key == "type":
            out[key] = _clean(value)

    def _find(self, reference: str) -> JsonObject | None:
        """Return what a reference into this very schema names."""
        at: JsonValue = self._root
        if not reference.startswith("#"):
            return None
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            at = at.get(key) if isinstance(at, dict) else None
        return at if isinstance(at, dict) else None


def _typed(schema: JsonObject) -> JsonObject:
    """Return the schema with one type, or with alternatives where there were several."""
    kinds = schema.pop("type", None)
    several = kinds if isinstance(kinds, list) else [kinds]
    known = [kind for kind in several if isinstance(kind, str) and kind in _TYPES]
    if len(known) > 1:
        known = [kind for kind in known if kind != "null"]
    if len(known) == 1:
        schema["type"] = known[0]
        if known[0] == "array" and "items" not in schema:
            schema["items"] = {}
    elif known and not any(branch in schema for branch in _BRANCHES):
        schema["anyOf"] = [{"type": kind, **({"items": {}} if kind == "array" else {})} for kind in known]
        schema.pop("items", None)
    return schema


def _flat(schema: JsonObject) -> JsonObject:
    """Return a top level without alternatives, which one vendor refuses there: all their arguments, none required."""
    properties = dict(cast("JsonObject", schema.get("properties", {})))
    required = _texts(schema.get("required"))
    for keyword in _BRANCHES:
        for branch in cast("list[JsonObject]", schema.pop(keyword, [])):
            properties = {**cast("JsonObject", branch.get("properties", {})), **properties}
            required += _texts(branch.get("required")) if keyword == "allOf" else []
    out: JsonObject = {**schema, "type": "object", "properties": properties}
    out.pop("required", None)
    wanted: list[JsonValue] = [name for name in dict.fromkeys(required) if name in properties]
    return {**out, "required": wanted} if wanted else out


def _texts(value: object) -> list[str]:
    return [one for one in cast("list[object]", value) if isinstance(one, str)] if isinstance(value, list) else []


def _clean(value: Any) -> Any:
    """Return a JSON value without lone surrogates and without numbers that JSON does not have."""
    return json.loads(clean_text(json.dumps(value, ensure_ascii=False)), parse_constant=lambda _: None)
