"""Read a tool call that a model wrote as text.  Pure.

Local servers without a parser for their model's format hand its calls over as text.  Such a text counts as calls only when the
WHOLE text is calls, each of a tool that the request offers, each with an object of arguments; anything else stays text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from nanobot.messages import JsonObject, JsonValue
from nanobot.providers.base import ToolCallRequest, ToolSpec
from nanobot.providers.wire import as_object, as_text, is_blank, parse_arguments

MAX_CHARS = 200_000  # longer texts are no calls
DECIDE_WITHIN_CHARS = 256  # a text that still may be a call after so many looks like one
DECIDE_CHARS = 64  # enough to see the first key of an object

_FENCE = re.compile(r"\A```(?:json|tool_call|tool_code)?\s*\n(.*?)\n?```\Z", re.DOTALL)
_TAGGED = re.compile(r"<(tool_call|function_call)>\s*(.*?)\s*</\1>", re.DOTALL)
_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.DOTALL)
_INVOKE = re.compile(r"<invoke name=\"([\w.-]+)\">(.*?)</invoke>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter(?:=([\w.-]+)| name=\"([\w.-]+)\"(?: [^>]*)?)>(.*?)</parameter>", re.DOTALL)
_WRAPPER = re.compile(r"\A<(function_calls|tool_calls)>\s*(.*?)\s*</\1>\Z", re.DOTALL)
_STARTS = (
    "{",
    "[",
    "```",
    "<tool_call>",
    "<tool_calls>",
    "<function_call>",
    "<function_calls>",
    "<function=",
    "<invoke ",
)
_FIRST_KEY = re.compile(r"(?:```\w*\s*)?\[?\s*\{\s*\"(?:name|arguments|parameters|type|function|id)\"")


def may_be_call(text: str) -> bool:
    """Say whether the text so far may become calls, so that it must not be shown yet."""
    body = text.lstrip()
    if not body:
        return True
    if body.startswith("<"):
        return any(body.startswith(start) or start.startswith(body) for start in _STARTS if start.startswith("<"))
    if not body.startswith(("{", "[", "`")):
        return False
    if body.startswith("`") and not ("```".startswith(body) or body.startswith("```")):
        return False
    return bool(_FIRST_KEY.match(body)) or len(body) < DECIDE_CHARS


def calls_in(text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCallRequest, ...]:
    """Return the calls that the whole text is, or nothing."""
    body = text.strip()
    if not body or len(body) > MAX_CHARS or not body.startswith(_STARTS):
        return ()
    known = {tool.name: tool for tool in tools}
    fence = _FENCE.match(body)
    found = _from_json(fence[1] if fence else body) or _from_markup(body, known)
    return tuple(found) if found and all(call.name in known for call in found) else ()


def _from_json(body: str) -> list[ToolCallRequest]:
    try:
        value = cast("object", json.loads(body, strict=False))
    except (ValueError, RecursionError):
        return []
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    calls = [_from_object(item) for item in items]
    return [call for call in calls if call] if all(calls) else []


def _from_object(value: object) -> ToolCallRequest | None:
    outer = as_object(value)
    inner = as_object(outer.get("function")) or outer
    name = as_text(inner.get("name"))
    arguments = inner.get("arguments", inner.get("parameters"))
    if isinstance(arguments, str):
        arguments = parse_arguments(arguments) if not is_blank(arguments) else None
    if not name or not isinstance(arguments, dict):
        return None
    return ToolCallRequest(name, cast("JsonObject", arguments))


def _from_markup(body: str, known: Mapping[str, ToolSpec]) -> list[ToolCallRequest]:
    wrapper = _WRAPPER.match(body)
    body = wrapper[2] if wrapper else body
    calls: list[ToolCallRequest] = []
    rest = body
    for match in _TAGGED.finditer(body):
        inner = _from_json(match[2]) or _from_markup_calls(match[2], known)
        if not inner:
            return []
        calls.extend(inner)
        rest = rest.replace(match[0], "", 1)
    if calls:
        return calls if is_blank(rest) else []
    return _from_markup_calls(body, known)


def _from_markup_calls(body: str, known: Mapping[str, ToolSpec]) -> list[ToolCallRequest]:
    for pattern in (_INVOKE, _FUNCTION):
        found = list(pattern.finditer(body))
        if found and is_blank(pattern.sub("", body)):
            return [ToolCallRequest(match[1], _parameters(match[2], known.get(match[1]))) for match in found]
    return []


def _parameters(body: str, tool: ToolSpec | None) -> JsonObject:
    wanted = as_object(tool.parameters.get("properties")) if tool else {}
    out: JsonObject = {}
    for match in _PARAMETER.finditer(body):
        name = match[1] or match[2]
        value = match[3].removeprefix("\n").removesuffix("\n")
        out[name] = value if as_object(wanted.get(name)).get("type") == "string" else _value(value)
    return out


def _value(text: str) -> JsonValue:
    try:
        return cast("JsonValue", json.loads(text))
    except (ValueError, RecursionError):
        return text
