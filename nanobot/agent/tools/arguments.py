"""From what a model wrote to validated arguments, or to an error it can correct.

Pure.  Broken JSON is never guessed at and never becomes ``{}``: a call that was cut off does not run.  Two repairs are made,
because each has one reading only: raw control characters inside strings, and a lone backslash before a character that is no JSON
escape (``\\d``), as long as the same string holds no other escape that could have been meant literally too.
"""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from nanobot.errors import ToolError
from nanobot.messages import JsonObject

ModelT = TypeVar("ModelT", bound=BaseModel)

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_WANTS_STRUCTURE = {"list_type", "tuple_type", "set_type", "dict_type", "model_type", "model_attributes_type"}
_ROUNDS = 4  # each round of repair opens at most one more level of JSON inside JSON


class ToolArguments(BaseModel):
    """Base of our tools' arguments: frozen, no unknown keys, numbers accepted where text is wanted."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


def closest(name: str, known: list[str]) -> list[str]:
    """Return up to three known names that ``name`` may have meant, best first."""
    folded = {other.lower().replace("-", "_"): other for other in known}
    hits = difflib.get_close_matches(name[:100].lower().replace("-", "_"), list(folded), n=3, cutoff=0.5)
    return [folded[hit] for hit in hits]


def parse_arguments(raw: JsonObject | str, model: type[BaseModel]) -> JsonObject:
    """Return the JSON object that the model wrote.

    Raises:
        ToolError: it is no JSON object; the text names the problem and says that nothing ran.
    """
    if not isinstance(raw, str):
        return raw
    if not raw.strip() and not model.model_fields:
        return {}
    value = _loads(raw)
    if isinstance(value, str):  # an object, encoded twice
        value = _loads(value)
    if not isinstance(value, dict):
        raise ToolError(f"the arguments must be one JSON object, not {_kind(value)}.")
    return cast("JsonObject", value)


def validate(arguments: JsonObject, model: type[ModelT]) -> ModelT:
    """Return the arguments as the tool's model, coerced gently ("5" for 5, null for a default, JSON text for a list or object).

    Raises:
        ToolError: one line for each wrong field: which, what is wrong, what was expected.
    """
    current: Any = arguments
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(current)
        except ValidationError as error:
            repaired = _repaired(current, error)
            if repaired is None:
                raise ToolError(_explain(error, model)) from None
            current = repaired
    raise ToolError("the arguments hold JSON text inside JSON text too deeply; pass plain values.")


def _loads(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ToolError("the arguments are nested too deeply.") from None
    except json.JSONDecodeError as error:
        fixed = _double_lone_backslashes(text)
        if fixed is None:
            raise ToolError(_json_problem(text, error)) from None
    try:
        return json.loads(fixed, strict=False)
    except RecursionError:
        raise ToolError("the arguments are nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise ToolError(_json_problem(fixed, error)) from None


def _json_problem(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "the arguments are empty; write one JSON object."
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return (
            f"the arguments are no complete JSON: they were cut off after {len(text):,} characters. "
            "Send the whole call again; if it is very long, split the work into smaller calls."
        )
    near = text[max(0, error.pos - 20) : error.pos + 20]
    hint = " Write each backslash inside a string as two (\\\\)." if "escape" in error.msg else ""
    return f"the arguments are no valid JSON: {error.msg} at character {error.pos}, near {near!r}.{hint}"


def _double_lone_backslashes(text: str) -> str | None:
    """Return the text with lone backslashes doubled, or None where a string could be read in more than one way."""
    ambiguous = False

    def fix(match: re.Match[str]) -> str:
        nonlocal ambiguous
        escapes = [escape.group(1) for escape in _ESCAPE.finditer(match.group())]
        lone = [e for e in escapes if len(e) == 1 and e not in '"\\/bfnrt']
        if not lone:
            return match.group()
        if any(e != '"' and e not in lone for e in escapes):
            ambiguous = True
        return _ESCAPE.sub(lambda m: m.group() if m.group(1) == '"' else "\\" + m.group(), match.group())

    fixed = _STRING.sub(fix, text)
    return None if ambiguous or fixed == text else fixed


def _repaired(value: Any, error: ValidationError) -> Any | None:
    """Return a copy with refused nulls left out and JSON text opened, or None if there was nothing of that kind."""
    out = json.loads(json.dumps(value))
    changed = False
    for problem in error.errors(include_url=False, include_context=False):
        given = problem["input"]
        holder = _holder(out, problem["loc"])
        key: Any = problem["loc"][-1] if problem["loc"] else None
        if given is None and isinstance(holder, dict) and key in holder:
            del holder[key]
            changed = True
        elif isinstance(given, str) and problem["type"] in _WANTS_STRUCTURE and holder is not None:
            changed |= _open(holder, key, given)
    return out if changed else None


def _holder(root: Any, loc: tuple[int | str, ...]) -> Any | None:
    holder = root
    try:
        for step in loc[:-1]:
            holder = holder[step]
    except (KeyError, IndexError, TypeError):  # the location names a union's branch, not a place in the value
        return None
    return holder if isinstance(holder, list | dict) else None  # pyright: ignore[reportUnknownVariableType]  # JSON


def _open(holder: Any, key: Any, text: str) -> bool:
    try:
        parsed = json.loads(text)
        if not isinstance(parsed, list | dict) or holder[key] != text:
            return False
    except (ValueError, RecursionError, KeyError, IndexError, TypeError):
        return False
    holder[key] = parsed
    return True


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    known = list(model.model_fields)
    lines = [_explain_one(cast("Mapping[str, Any]", p), known) for p in error.errors(include_url=False)[:8]]
    wanted = ", ".join(f"{n}{'' if f.is_required() else ' (optional)'}" for n, f in model.model_fields.items())
    return "\n".join((*(f"- {line}" for line in lines), f"It takes: {wanted or 'no arguments'}."))


def _explain_one(problem: Mapping[str, Any], known: list[str]) -> str:
    where = ".".join(str(step) for step in problem["loc"]) or "arguments"
    if problem["type"] == "missing":
        return f"{where}: is required and missing"
    if problem["type"] == "extra_forbidden":
        close = closest(str(problem["loc"][-1]), known)
        return f"{where}: there is no such argument" + (f"; did you mean {close[0]}?" if close else "")
    if problem["type"] == "value_error":
        return f"{where}: {problem['ctx']['error']}"
    shown = json.dumps(problem["input"], ensure_ascii=False, default=str)
    return f"{where}: got {shown if len(shown) <= 80 else shown[:79] + '…'}; {_lower(str(problem['msg']))}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case list():
            return "a list"
        case str():
            return "a string"
        case _:
            return "a number"
