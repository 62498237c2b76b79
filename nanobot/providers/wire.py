"""What both wires share when our values become JSON and back: call ids, clean text, safe parsing.  Pure.

Text on a wire holds no NUL and no lone surrogate (vendors refuse both): they become U+FFFD, and a surrogate pair that a server
split over two chunks becomes its character again.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

from nanobot.messages import JsonObject, JsonValue

CUT_OFF_MARK = "[cut off here]"
EMPTY_MARK = "[empty message]"

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_OUR_ID = re.compile(r"e(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
_ILLEGAL = re.compile("[\x00\ud800-\udfff]")
_NAME_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]", re.ASCII)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def wire_call_id(call_id: str) -> str:
    """Return the id of a call on every wire: nine letters and digits, different for different ids.

    Ours (``e<entry>.<index>``) map one to one; any other id becomes a hash of the same shape, told apart by its first letter.
    Nine because Mistral wants exactly that many; OpenAI allows 40, Anthropic ``[a-zA-Z0-9_-]+``.
    """
    match = _OUR_ID.fullmatch(call_id)
    if match:
        entry, index = int(match[1]), int(match[2])
        if entry < 62**6 and index < 62**2:
            return f"e{_base62(entry, 6)}{_base62(index, 2)}"
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()
    return f"h{_base62(int.from_bytes(digest[:8]) % 62**8, 8)}"


def wire_tool_name(name: str, *, limit: int = 64) -> str:
    """Return a name that wires accept in a recorded call: a model may have made one up."""
    return _NAME_ILLEGAL.sub("_", name)[:limit] or "unnamed"


def clean(text: str) -> str:
    """Return the text with NULs and lone surrogates replaced and split surrogate pairs joined."""
    if not _ILLEGAL.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", "\ufffd")


def is_blank(text: str) -> bool:
    """Say whether a wire would call this text empty."""
    return not text or text.isspace()


def dump(value: object) -> bytes:
    """Encode a JSON value compactly, in UTF-8, with clean text in it; NaN and infinities become null."""
    try:
        text = _encode(value)
        if "\\u0000" not in text:
            return text.encode()
    except ValueError:  # a lone surrogate (UnicodeEncodeError is one), NaN or an infinity
        pass
    return _encode(scrub(cast("JsonValue", value))).encode()


def in_array(items: Sequence[bytes]) -> list[bytes]:
    """Return the pieces of a JSON array of encoded items."""
    pieces = [b","] * (2 * len(items) + 1)
    pieces[1::2] = items
    pieces[0], pieces[-1] = b"[", b"]"
    return pieces if items else [b"[]"]


def body_of(fields: Mapping[str, list[bytes]], over: Mapping[str, JsonValue]) -> bytes:
    """Return a JSON object of encoded fields, each in pieces; all is copied once, as bodies are large.

    ``over`` is put over the fields; null takes one away.
    """
    kept = {name: pieces for name, pieces in fields.items() if name not in over}
    kept |= {name: [dump(value)] for name, value in over.items() if value is not None}
    pieces: list[bytes] = []
    for name, value in kept.items():
        pieces += (b"," if pieces else b"{", dump(name), b":", *value)
    pieces.append(b"}")
    return b"".join(pieces)


def scrub(value: JsonValue) -> JsonValue:
    """Return the JSON value with every text in it cleaned and numbers JSON does not know set to null."""
    match value:
        case str():
            return clean(value)
        case list():
            return [scrub(item) for item in value]
        case dict():
            return {clean(str(key)): scrub(item) for key, item in value.items()}
        case float() if value != value or value in (float("inf"), float("-inf")):
            return None
        case _:
            return value


def parse_arguments(text: str) -> JsonObject | str:
    """Return the arguments a model wrote: the JSON object, or the text itself when it is no JSON object.

    Raw line ends inside strings are taken (small models write them); NaN, trailing text and cut-off JSON are not.  No text at all
    is the object without members: that is how servers send a call without arguments.
    """
    if is_blank(text):
        return {}
    try:
        value = cast("object", json.loads(text, strict=False, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        return clean(text)
    if not isinstance(value, dict):
        return clean(text)
    arguments = cast("JsonObject", value)
    return cast("JsonObject", scrub(arguments)) if "\\u" in text or _ILLEGAL.search(text) else arguments


def sendable_arguments(arguments: JsonObject | str) -> JsonObject:
    """Return arguments as an object; text that was no object is kept readable in one member."""
    return {"_unparsed": arguments} if isinstance(arguments, str) else arguments


def is_complete_json(text: str) -> bool:
    """Say whether the text is one whole JSON object."""
    if not text.rstrip().endswith("}"):
        return False
    return isinstance(parse_arguments(text), dict)


def as_json(value: object) -> JsonObject:
    """Return an object parsed from JSON as our clean one."""
    cleaned = scrub(cast("JsonValue", value))
    return cleaned if isinstance(cleaned, dict) else {}


def as_object(value: object) -> dict[str, object]:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return the value if it is a JSON array, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return the value if it is a text, else an empty one: null never overwrites."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return the value if it is a whole number of at least 0, else 0; some servers write 12.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and value > 0 else 0


def _base62(number: int, width: int) -> str:
    out = ""
    for _ in range(width):
        number, digit = divmod(number, 62)
        out = _DIGITS[digit] + out
    return out


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
