"""Turn pydantic's complaints into sentences with file, line, key and fix.  Pure; no value is ever quoted."""

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nanobot.config.loader import Document, KeyPath
from nanobot.errors import ConfigError

Model: TypeAlias = type[BaseModel]

_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "string": "text (put it in quotes)",
    "path": "a path",
    "list": "a list",
    "tuple": "a list",
    "dict": "keys with values",
    "mapping": "keys with values",
    "model": "keys with values",
}
_BOUNDS = {
    "greater_than": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number less than {lt}",
    "less_than_equal": "a number of at most {le}",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "too_short": "at least {min_length} entries",
    "too_long": "no more than {max_length} entries",
}
_TYPES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "keys with values",
}


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` most likely means, or None.  Case, ``-`` and ``_`` do not count."""
    plain = {_plain(one): one for one in known}
    found = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.55)
    return plain[found[0]] if found else None


def explain(error: ValidationError, model: Model, document: Document) -> ConfigError:
    """Return one error that names every wrong key, one on a line."""
    said: dict[KeyPath, list[str]] = {}
    for detail in error.errors(include_url=False, include_input=True):
        key = _key(detail, document.data)
        said.setdefault(key, []).append(_complaint(detail, key, model, document))
    deepest = [key for key in said if not any(other[: len(key)] == key and other != key for other in said)]
    deepest.sort(key=lambda key: document.lines.get(key, 0))
    return ConfigError("\n".join(_sentence(key, said[key], document) for key in deepest))


def refuse_booleans(model: Model, document: Document) -> None:
    """Refuse true and false where a number is wanted: pydantic would take them as 1 and 0.  For data that fits the model.

    Raises:
        ConfigError: names every such key, one on a line.
    """
    wrong = [key for key in _booleans(document.data, ()) if _wants_number(_annotations(model, key, document.data))]
    wrong.sort(key=lambda key: document.lines.get(key, 0))
    if wrong:
        raise ConfigError("\n".join(f"{document.place(key)}: expected a number, got true or false" for key in wrong))


def _booleans(data: object, key: KeyPath) -> list[KeyPath]:
    if isinstance(data, Mapping):
        inner = cast("Mapping[str, object]", data).items()
        return [one for name, value in inner for one in _booleans(value, (*key, name))]
    if isinstance(data, list):
        return [one for at, value in enumerate(cast("list[object]", data)) for one in _booleans(value, (*key, at))]
    return [key] if isinstance(data, bool) else []


def _wants_number(annotations: Iterable[object]) -> bool:
    kinds = {one for each in annotations for one in _flat(each)}
    return bool(kinds & {int, float}) and bool not in kinds


def _sentence(key: KeyPath, texts: Sequence[str], document: Document) -> str:
    """Join what the members of a union expected into one sentence."""
    wants = [text.removeprefix("expected ").partition(", got ") for text in texts if text.startswith("expected ")]
    if len(wants) < 2:
        return f"{document.place(key)}: {texts[0]}"
    got = next((f", got {got}" for _, _, got in wants if got), "")
    return f"{document.place(key)}: expected {' or '.join(dict.fromkeys(want for want, _, _ in wants))}{got}"


def _key(detail: ErrorDetails, data: object) -> KeyPath:
    """Return where the error stands in the file: pydantic's location without the union tags it puts in."""
    key: list[str | int] = []
    for index, part in enumerate(detail["loc"]):
        is_last = index == len(detail["loc"]) - 1
        if isinstance(data, Mapping) and part in data:
            data = cast("Mapping[object, object]", data)[part]
        elif isinstance(data, list) and isinstance(part, int):
            data = cast("list[object]", data)[part]
        elif not (is_last and detail["type"] == "missing"):
            continue
        key.append(part)
    return (*key, "type") if detail["type"] == "union_tag_invalid" else tuple(key)


def _complaint(detail: ErrorDetails, key: KeyPath, model: Model, document: Document) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(key, model, document.data)
    if kind == "missing":
        return "this key is required"
    if kind == "union_tag_not_found":
        tags = ", ".join(sorted(_tags(_annotations(model, key, document.data))))
        return (
            f"'type' is missing; one of {tags}" if isinstance(detail["input"], Mapping) else "expected keys with values"
        )
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind].format(**detail.get('ctx', {}))}"
    expected = _EXPECTED.get(kind.partition("_")[0])
    if expected is None:
        return detail["msg"].removeprefix("Value error, ")
    return f"expected {expected}, got {_kind(detail['input'])}"


def _kind(value: object) -> str:
    return next(
        (name for kind, name in _TYPES.items() if isinstance(value, kind)), "nothing" if value is None else "a date"
    )


def _unknown_key(key: KeyPath, model: Model, data: object) -> str:
    known = sorted(
        {name for one in _models(_annotations(model, key[:-1], data), data, key[:-1]) for name in one.model_fields}
    )
    guess = closest(str(key[-1]), known)
    return f"unknown key; did you mean {guess!r}?" if guess else f"unknown key; known here: {', '.join(known)}"


def _annotations(model: Model, key: KeyPath, data: object) -> list[object]:
    """Return what may stand at a key, as type annotations."""
    found: list[object] = [model]
    for depth, part in enumerate(key):
        inner: list[object] = []
        for one in found:
            inner += _below(one, part, data, key[:depth])
        found = inner
    return found


def _below(annotation: object, part: str | int, data: object, key: KeyPath) -> list[object]:
    out: list[object] = []
    for one in _flat(annotation):
        arguments = get_args(one)
        if get_origin(one) in (dict, list, tuple, Mapping, Sequence) and arguments:
            out.append([one for one in arguments if one is not Ellipsis][-1])
    for model in _models([annotation], data, key):
        if part in model.model_fields:
            out.append(model.model_fields[str(part)].annotation)
    return out


def _models(annotations: Iterable[object], data: object, key: KeyPath) -> list[Model]:
    """Return the models that may stand at a key; where its ``type`` decides between several, that one."""
    models = [
        one for each in annotations for one in _flat(each) if isinstance(one, type) and issubclass(one, BaseModel)
    ]
    for part in key:
        data = cast("Any", data)[part]  # Any: the path was followed before
    tag = cast("Mapping[str, object]", data).get("type") if isinstance(data, Mapping) else None
    return [one for one in models if tag in _tags([one])] or models


def _tags(annotations: Iterable[object]) -> set[str]:
    tags: set[str] = set()
    for model in (one for each in annotations for one in _flat(each)):
        if isinstance(model, type) and issubclass(model, BaseModel) and "type" in model.model_fields:
            annotation = model.model_fields["type"].annotation
            tags |= set(get_args(annotation)) if get_origin(annotation) is Literal else set()
    return tags


def _flat(annotation: object) -> list[object]:
    """Return the members of unions, with ``Annotated`` opened."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _flat(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [one for each in get_args(annotation) for one in _flat(each)]
    return [annotation]


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
