"""What Chat Completions refuses in one message, whatever stands around it."""

import re

from tests.fakes.llm.images import MEDIA_TYPES, image_fault
from tests.fakes.llm.shapes import Object, Refused, arr, obj

_ROLES = ("system", "assistant", "user", "function", "tool", "developer")
_KEYS = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "tool": frozenset({"role", "content", "tool_call_id", "name"}),
    "assistant": frozenset(
        {"role", "content", "name", "refusal", "audio", "tool_calls", "function_call"}
        # what compatible vendors give and want back
        | {"reasoning_content", "reasoning", "reasoning_details"}
    ),
}
_PART_KEYS = {
    "text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "refusal": frozenset({"type", "refusal"}),
    "image_url": frozenset({"type", "image_url", "prompt_cache_breakpoint"}),
}
_PARTS = {"user": ("text", "image_url"), "assistant": ("text", "refusal")}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,", re.IGNORECASE)
MAX_ID_CHARS = 40


def check_message(message: Object, path: str, lenient: frozenset[str]) -> None:
    """Accept the message or refuse it.

    Raises:
        Refused: with the vendor's text.
    """
    role = message.get("role")
    if not isinstance(role, str) or role not in _KEYS:
        supported = ", ".join(f"'{name}'" for name in _ROLES[:-1])
        text = f"Invalid value: '{role}'. Supported values are: {supported}, and '{_ROLES[-1]}'."
        raise Refused(text, param=f"{path}.role", code="invalid_value")
    check_keys(message, path, _KEYS[role] | lenient)
    if role == "assistant":
        _check_assistant(message, path, lenient)
    elif role == "tool":
        _check_id(message.get("tool_call_id"), f"{path}.tool_call_id")
    if role != "assistant" or message.get("content") is not None:
        _check_content(message.get("content"), path, role, lenient)


def check_keys(row: Object, path: str, allowed: frozenset[str]) -> None:
    """Refuse keys that are not ``allowed``."""
    for name in row:
        if name not in allowed:
            raise Refused(f"Unknown parameter: '{path}.{name}'.", param=f"{path}.{name}", code="unknown_parameter")


def bad_name(path: str) -> Refused:
    """Return the refusal of a function's name."""
    text = f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    return Refused(text, param=path, code="invalid_value")


def _check_assistant(message: Object, path: str, lenient: frozenset[str]) -> None:
    calls = message.get("tool_calls")
    if calls is None:
        if message.get("content") is None and message.get("refusal") is None:
            raise _null_content(path)
        return
    rows = arr(calls)
    if not rows:
        text = f"Invalid '{path}.tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead."
        raise Refused(text, param=f"{path}.tool_calls", code="empty_array")
    ids = [_check_call(obj(call) or {}, f"{path}.tool_calls[{index}]", lenient) for index, call in enumerate(rows)]
    for index, call_id in enumerate(ids):
        if call_id in ids[:index]:
            raise Refused(f"Duplicate value for 'tool_call_id' of {call_id}", param=f"{path}.tool_calls[{index}].id")


def _check_call(call: Object, path: str, lenient: frozenset[str]) -> str:
    check_keys(call, path, frozenset({"id", "type", "function", "extra_content"}) | lenient)
    call_id = _check_id(call.get("id"), f"{path}.id")
    if call.get("type") != "function":
        raise Refused(
            f"Missing required parameter: '{path}.type'.", param=f"{path}.type", code="missing_required_parameter"
        )
    function = obj(call.get("function")) or {}
    check_keys(function, f"{path}.function", frozenset({"name", "arguments"}))
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad_name(f"{path}.function.name")
    if not isinstance(arguments, str):
        text = f"Invalid type for '{path}.function.arguments': expected a string, but got {_kind(arguments)} instead."
        raise Refused(text, param=f"{path}.function.arguments", code="invalid_type")
    return call_id


def _check_id(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise Refused(f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter")
    if not value:
        text = (
            f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
        )
        raise Refused(text, param=path, code="empty_string")
    if len(value) > MAX_ID_CHARS:
        text = (
            f"Invalid '{path}': string too long. Expected a string with maximum length {MAX_ID_CHARS}, "
            f"but got a string with length {len(value)} instead."
        )
        raise Refused(text, param=path, code="string_above_max_length")
    return value


def _check_content(content: object, path: str, role: str, lenient: frozenset[str]) -> None:
    if isinstance(content, str):
        return
    parts = arr(content)
    if content is None:
        raise _null_content(path)
    if parts is None:
        text = f"Invalid type for '{path}.content': expected one of a string or array of objects, but got {_kind(content)} instead."
        raise Refused(text, param=f"{path}.content", code="invalid_type")
    if not parts:
        text = f"Invalid '{path}.content': empty array. Expected an array with minimum length 1, but got an empty array instead."
        raise Refused(text, param=f"{path}.content", code="empty_array")
    for index, part in enumerate(parts):
        _check_part(obj(part) or {}, f"{path}.content[{index}]", role, lenient)


def _check_part(part: Object, path: str, role: str, lenient: frozenset[str]) -> None:
    kind = part.get("type")
    if kind == "image_url" and role != "user":
        text = f"Image URLs are only allowed for messages with role 'user', but this one has role '{role}'."
        raise Refused(text, param=path.partition(".content")[0].replace("[", ".["), code="invalid_value")
    allowed = _PARTS.get(role, ("text",))
    if not isinstance(kind, str) or kind not in allowed:
        supported = " and ".join(f"'{name}'" for name in allowed)
        raise Refused(
            f"Invalid value: '{kind}'. Supported values are: {supported}.", param=f"{path}.type", code="invalid_value"
        )
    check_keys(part, path, _PART_KEYS[kind] | lenient)
    if kind == "image_url":
        _check_image(obj(part.get("image_url")) or {}, path)
    elif not isinstance(part.get(kind), str):
        text = f"Invalid type for '{path}.{kind}': expected a string, but got {_kind(part.get(kind))} instead."
        raise Refused(text, param=f"{path}.{kind}", code="invalid_type")


def _check_image(image: Object, path: str) -> None:
    check_keys(image, f"{path}.image_url", frozenset({"url", "detail"}))
    url = image.get("url")
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    if not isinstance(url, str) or not match:
        text = f"Invalid '{path}.image_url.url'. Expected a base64-encoded data URL with an image MIME type."
        raise Refused(text, param=f"{path}.image_url.url", code="invalid_image_url")
    fault = image_fault(match[1].lower(), url[match.end() :])
    if match[1].lower() not in MEDIA_TYPES or fault == "Could not process image":
        text = "You uploaded an unsupported image. Please make sure your image is valid: one of png, jpeg, gif, webp."
        raise Refused(text, param=f"{path}.image_url", code="invalid_image_format")
    if fault:
        raise Refused(f"Invalid '{path}.image_url.url': {fault}.", param=f"{path}.image_url.url", code="invalid_base64")


def _null_content(path: str) -> Refused:
    return Refused(
        "Invalid value for 'content': expected a string, got null.", param=f"{path.replace('[', '.[')}.content"
    )


def _kind(value: object) -> str:
    for kind, name in (
        (dict, "an object"),
        (list, "an array"),
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a decimal"),
    ):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "a string"
