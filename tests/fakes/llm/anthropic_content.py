"""What the Messages API refuses in one message, whatever stands around it."""

import re
from collections.abc import Collection

from tests.fakes.llm.images import MEDIA_TYPES, image_fault
from tests.fakes.llm.shapes import Object, Refused, arr, obj, objs
from tests.fakes.llm.signatures import is_redacted, is_signed

_KEYS = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "image": frozenset({"type", "source", "cache_control", "transformations"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
}
_BLOCKS = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")


def check_message(message: Object, path: str) -> None:
    """Accept the message or refuse it.

    Raises:
        Refused: with the vendor's text.
    """
    for name in message:
        if name not in ("role", "content"):
            raise Refused(f"{path}.{name}: Extra inputs are not permitted")
    role = message.get("role")
    if role == "system":
        text = 'The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
        raise Refused(f'messages: Unexpected role "system". {text}')
    if role not in ("user", "assistant"):
        raise Refused(f"{path}.role: Input should be 'user' or 'assistant'")
    content = message.get("content")
    if isinstance(content, str):
        _check_text(content, path)
        return
    blocks = arr(content)
    if blocks is None:
        raise Refused(
            f"{path}.content: Input should be a valid list"
            if "content" in message
            else f"{path}.content: Field required"
        )
    if not blocks:
        raise _empty(path)
    for index, block in enumerate(blocks):
        check_block(obj(block) or {}, f"{path}.content.{index}", _BLOCKS[role])
    if (obj(blocks[-1]) or {}).get("type") in ("thinking", "redacted_thinking"):
        raise Refused(f"{path}: The final block in an assistant message cannot be `thinking`.")


def check_block(block: Object, path: str, allowed: Collection[str]) -> None:
    """Accept a content block of one of the ``allowed`` types or refuse it."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in allowed:
        tags = ", ".join(f"'{name}'" for name in allowed)
        text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
        raise Refused(f"{path}: {text}")
    for name in block:
        if name not in _KEYS[kind]:
            raise Refused(f"{path}.{kind}.{name}: Extra inputs are not permitted")
    _check_mark(block, f"{path}.{kind}")
    match kind:
        case "text":
            _check_text_block(block, f"{path}.text")
        case "image":
            _check_image(obj(block.get("source")) or {}, f"{path}.image.source")
        case "tool_use":
            _check_tool_use(block, f"{path}.tool_use")
        case "tool_result":
            _check_tool_result(block, f"{path}.tool_result")
        case "thinking":
            _check_thinking(block, path)
        case _:
            if not is_redacted(str(block.get("data", ""))):
                raise Refused(f"{path}: Invalid `data` in `redacted_thinking` block")


def count_marks(blocks: object) -> int:
    """Return how many blocks carry ``cache_control``, those inside tool results too."""
    rows = objs(blocks)
    return sum((row.get("cache_control") is not None) + count_marks(row.get("content")) for row in rows)


def is_blank(text: str) -> bool:
    """Tell whether ``text`` shows nothing."""
    return not text.strip()


def _empty(path: str) -> Refused:
    return Refused(f"{path}: all messages must have non-empty content except for the optional final assistant message")


def _check_text(text: str, path: str) -> None:
    if not text:
        raise _empty(path)
    if is_blank(text):
        raise Refused("messages: text content blocks must contain non-whitespace text")


def _check_text_block(block: Object, path: str) -> None:
    text = block.get("text")
    if not isinstance(text, str):
        raise Refused(
            f"{path}.text: Input should be a valid string" if "text" in block else f"{path}.text: Field required"
        )
    where = path.partition(".")[0]
    if not text:
        raise Refused(f"{where}: text content blocks must be non-empty")
    if is_blank(text):
        raise Refused(f"{where}: text content blocks must contain non-whitespace text")


def _check_mark(block: Object, path: str) -> None:
    mark = block.get("cache_control")
    if mark is None:
        return
    row = obj(mark) or {}
    if row.get("type") != "ephemeral" or row.get("ttl", "5m") not in ("5m", "1h") or set(row) - {"type", "ttl"}:
        raise Refused(f"{path}.cache_control: Input should be {{'type': 'ephemeral', 'ttl': '5m' or '1h'}}")


def _check_image(source: Object, path: str) -> None:
    if source.get("type") != "base64":
        raise Refused(
            f"{path}: Input tag '{source.get('type')}' found using 'type' does not match any of the expected tags: 'base64'"
        )
    for name in source:
        if name not in ("type", "media_type", "data"):
            raise Refused(f"{path}.base64.{name}: Extra inputs are not permitted")
    media_type, data = source.get("media_type"), source.get("data")
    if not isinstance(media_type, str) or media_type not in MEDIA_TYPES:
        expected = ", ".join(f"'{name}'" for name in MEDIA_TYPES[:-1])
        raise Refused(f"{path}.base64.media_type: Input should be {expected} or '{MEDIA_TYPES[-1]}'")
    if not isinstance(data, str) or not data:
        raise Refused(f"{path}.base64.data: Field required")
    if fault := image_fault(media_type, data):
        raise Refused(f"{path}.base64: {fault}")


def _check_tool_use(block: Object, path: str) -> None:
    _check_id(block, "id", path)
    name = block.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(f"{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'")
    if obj(block.get("input")) is None:
        raise Refused(
            f"{path}.input: Input should be a valid dictionary" if "input" in block else f"{path}.input: Field required"
        )


def _check_id(block: Object, key: str, path: str) -> None:
    value = block.get(key)
    if not isinstance(value, str):
        raise Refused(f"{path}.{key}: Field required")
    if not _ID.fullmatch(value):
        raise Refused(f"{path}.{key}: String should match pattern '^[a-zA-Z0-9_-]+$'")


def _check_tool_result(block: Object, path: str) -> None:
    _check_id(block, "tool_use_id", path)
    is_error, content = block.get("is_error", False), block.get("content")
    if not isinstance(is_error, bool):
        raise Refused(f"{path}.is_error: Input should be a valid boolean")
    if is_error and not content:
        raise Refused(f"{path}: content cannot be empty if `is_error` is true")
    if content is None or isinstance(content, str):
        return
    blocks = arr(content)
    if blocks is None:
        raise Refused(f"{path}.content: Input should be a valid list")
    for index, inner in enumerate(blocks):
        row = obj(inner) or {}
        if is_error and row.get("type") != "text":
            raise Refused(f"{path}: all content must be type `text` if `is_error` is true")
        check_block(row, f"{path}.content.{index}", ("text", "image"))


def _check_thinking(block: Object, path: str) -> None:
    text, signature = block.get("thinking"), block.get("signature")
    if not isinstance(text, str):
        raise Refused(f"{path}.thinking.thinking: Field required")
    if not isinstance(signature, str):
        raise Refused(f"{path}.thinking.signature: Field required")
    if not is_signed(text, signature):
        raise Refused(f"{path}: Invalid `signature` in `thinking` block")
