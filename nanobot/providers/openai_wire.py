"""Encode requests for the Chat Completions wire.  Pure: images come in loaded.

Each message is encoded alone, once, and kept in ``message.encoded``; a request joins what is kept.  ``encoded()`` is those
elements: tools, system, one for each message.  Three things are decided when joining, from the elements alone, so they are
deterministic:

- An assistant message with neither text nor calls is an empty element and is left out.
- A tool's row takes text alone.  Pictures that tools gave come in a user row after all results of their answer.
- Neighbouring user messages become one row, as strict chat templates want roles to take turns.  Texts are joined by an empty line,
  in their order, so a row that grows keeps its beginning: what the model reads stays a prefix of what it reads next.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast

from nanobot.messages import (
    AssistantMessage,
    JsonObject,
    JsonValue,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)
from nanobot.providers.base import LLMRequest, ToolSpec
from nanobot.providers.endpoint import host_of
from nanobot.providers.images import Images, LoadedImage, shown_with
from nanobot.providers.models import is_openai_reasoning
from nanobot.providers.settings import OpenAISettings
from nanobot.providers.wire import (
    CUT_OFF_MARK,
    EMPTY_MARK,
    body_of,
    clean,
    dump,
    in_array,
    is_blank,
    parse_arguments,
    sendable_arguments,
    wire_call_id,
    wire_tool_name,
)
from nanobot.values import frozen

DEFAULT_BASE_URL = "https://api.openai.com/v1"
# Google's own word for "this call was made by another model": https://ai.google.dev/gemini-api/docs/thought-signatures
_SKIP_SIGNATURE: JsonObject = {"google": {"thought_signature": "skip_thought_signature_validator"}}


@frozen
class Dialect:
    """What this server wants done differently; made from the settings once."""

    tag: str  # names the vendor in a ProviderExtra
    openai: bool
    gemini: bool
    max_tokens_field: str | None
    max_tokens: int | None
    send_reasoning: bool
    extra_body: Mapping[str, JsonValue]


def dialect_of(settings: OpenAISettings) -> Dialect:
    """Return the dialect of the server these settings name."""
    host = host_of(settings.base_url or DEFAULT_BASE_URL)
    return Dialect(
        tag=f"openai:{host}",
        openai=host.endswith(("api.openai.com", ".openai.azure.com")),
        gemini=host.endswith("generativelanguage.googleapis.com"),
        max_tokens_field=settings.max_tokens_field,
        max_tokens=settings.max_tokens,
        send_reasoning=settings.send_reasoning,
        extra_body=cast("Mapping[str, JsonValue]", settings.extra_body),
    )


@frozen
class UserRow:
    """A user message as encoded: its whole row, and what is inside it: a JSON string's text, or a JSON array's parts."""

    row: bytes
    text: bytes
    parts: bytes

    @property
    def as_parts(self) -> bytes:
        """The inside of an array, also for a text alone."""
        return self.parts or b'{"type":"text","text":"' + self.text + b'"}'


@frozen
class ResultRow:
    """A tool's result as encoded: its row, and a user row of its pictures if it has any."""

    row: bytes
    pictures: UserRow | None


Element = UserRow | ResultRow | bytes


def depends(message: Message, dialect: Dialect) -> bool:
    """Say whether a message's encoding depends on more than the wire: on the server or the model."""
    match message:
        case AssistantMessage():
            return bool(message.extra or (message.tool_calls and dialect.gemini))
        case UserMessage() | ToolMessage():
            return False


def encode_message(message: Message, dialect: Dialect, model: str, images: Images) -> Element:
    """Encode one message alone."""
    match message:
        case UserMessage():
            return _user(message, images)
        case AssistantMessage():
            return _assistant(message, dialect, model)
        case ToolMessage():
            return _result(message, images)


def encode_tool(tool: ToolSpec) -> bytes:
    """Encode one tool; kept in ``tool.encoded``."""
    cached = cast("bytes | None", tool.encoded.get("openai"))
    if cached is None:
        function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        cached = tool.encoded["openai"] = dump({"type": "function", "function": function})
    return cached


def prefix_elements(request: LLMRequest, elements: Iterable[Element]) -> list[bytes]:
    """Return tools, system and each message as bytes, as ``LLMProvider.encoded`` promises."""
    return [b",".join(map(encode_tool, request.tools)), _system(request.system), *map(_alone, elements)]


def padded(elements: Sequence[Element]) -> list[Element]:
    """Return the elements with a blank of reasoning in answers that have none, for servers that want some with each.

    Answers of other models have none of theirs.
    """
    opening, own = b'{"role":"assistant",', b'"reasoning_content":'
    return [
        opening + own + b'" ",' + element[len(opening) :]
        if isinstance(element, bytes) and element.startswith(opening) and own not in element
        else element
        for element in elements
    ]


def _alone(element: Element) -> bytes:
    match element:
        case bytes():
            return element
        case ResultRow(row=row, pictures=UserRow(row=pictures)):
            return row + b"," + pictures
        case UserRow(row=row) | ResultRow(row=row):
            return row


def request_body(request: LLMRequest, elements: Sequence[Element], dialect: Dialect) -> bytes:
    """Join a whole request body."""
    fields: dict[str, list[bytes]] = {"model": [dump(request.model)], "messages": in_array(_rows(request, elements))}
    if request.tools:
        fields["tools"] = in_array(list(map(encode_tool, request.tools)))
        if request.tool_choice == "none":
            fields["tool_choice"] = [b'"none"']
    fields["stream"] = [b"true"]
    fields["stream_options"] = [b'{"include_usage":true}']
    fields |= _options(request, dialect)
    return body_of(fields, dialect.extra_body)


def _options(request: LLMRequest, dialect: Dialect) -> dict[str, list[bytes]]:
    reasoning = dialect.openai and is_openai_reasoning(request.model)
    room = dialect.max_tokens_field or ("max_completion_tokens" if dialect.openai else "max_tokens")
    fields = {room: [dump(dialect.max_tokens or request.max_tokens)]}
    if request.temperature is not None and not reasoning:
        fields["temperature"] = [dump(request.temperature)]
    if request.reasoning_effort and (reasoning or not dialect.openai):
        fields["reasoning_effort"] = [dump(request.reasoning_effort)]
    if request.cache_key and dialect.openai:
        fields["prompt_cache_key"] = [dump(request.cache_key[:64])]
    return fields


def _rows(request: LLMRequest, elements: Sequence[Element]) -> list[bytes]:
    """Return the rows; user rows that meet are one.

    Pictures come after the last of the results that they came with, as nothing may stand between those.
    """
    system = _system(request.system)
    rows = [system] if system else []
    last: UserRow | None = None
    pictures: UserRow | None = None
    for (
        element
    ) in elements:  # once for each message of the conversation, at each request: nothing here is called for most
        if isinstance(element, ResultRow):
            rows.append(element.row)
            last = None
            if element.pictures:
                pictures = element.pictures if pictures is None else _merged(pictures, element.pictures)
            continue
        if pictures is not None:
            rows.append(pictures.row)
            last, pictures = pictures, None
        if isinstance(element, bytes):
            if element:
                rows.append(element)
                last = None
        elif last is None:
            rows.append(element.row)
            last = element
        else:
            last = _merged(last, element)
            rows[-1] = last.row
    if pictures is not None:
        rows.append(pictures.row)
    return rows


@lru_cache(maxsize=16)
def _system(system: str) -> bytes:
    """Encode a system prompt; it is the same one at each request of a session."""
    return dump({"role": "system", "content": system}) if not is_blank(system) else b""


def _merged(first: UserRow, second: UserRow) -> UserRow:
    if first.parts or second.parts:
        return _of_parts(first.as_parts + b"," + second.as_parts)
    return _of_text(first.text + rb"\n\n" + second.text)


def _of_parts(parts: bytes) -> UserRow:
    return UserRow(b'{"role":"user","content":[' + parts + b"]}", b"", parts)


def _of_text(text: bytes) -> UserRow:
    return UserRow(b'{"role":"user","content":"' + text + b'"}', text, b"")


def _user(message: UserMessage, images: Images) -> UserRow:
    return _row(part.text if isinstance(part, TextPart) else images[part] for part in message.parts)


def _result(message: ToolMessage, images: Images) -> ResultRow:
    shown = shown_with(message, images)
    has_pictures = any(isinstance(part, LoadedImage) for part in shown)
    texts = [message.text] if has_pictures else [message.text, *(part for part in shown if isinstance(part, str))]
    row: JsonObject = {
        "role": "tool",
        "tool_call_id": wire_call_id(message.call_id),
        "content": "\n".join(text for text in texts if not is_blank(text)) or EMPTY_MARK,
    }
    return ResultRow(dump(row), _row(shown) if has_pictures else None)


def _row(found: Iterable[LoadedImage | str]) -> UserRow:
    parts: list[JsonObject] = []
    for part in found:
        if isinstance(part, LoadedImage):
            parts.append({"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.base64}"}})
        elif not is_blank(part):
            parts.append({"type": "text", "text": part})
    if any(part["type"] != "text" for part in parts):
        return _of_parts(b",".join(map(dump, parts)))
    return _of_text(dump("\n".join(str(part["text"]) for part in parts) or EMPTY_MARK)[1:-1])


def _assistant(message: AssistantMessage, dialect: Dialect, model: str) -> bytes:
    text = "" if is_blank(message.text) else clean(message.text)
    if message.cut_off:
        text = f"{text}\n{CUT_OFF_MARK}".strip()
    if not text and not message.tool_calls:
        return b""
    back = _sent_back(message, dialect, model)
    row: JsonObject = {"role": "assistant", "content": text or None}
    own = back.get("message")
    if isinstance(own, dict):
        row.update(own)
    if message.tool_calls:
        row["tool_calls"] = _calls(message, back, dialect)
    return dump(row)


def _calls(message: AssistantMessage, back: JsonObject, dialect: Dialect) -> list[JsonValue]:
    extras = back.get("calls")
    extras = extras if isinstance(extras, list) and len(extras) == len(message.tool_calls) else []
    rows: list[JsonValue] = []
    for index, call in enumerate(message.tool_calls):
        arguments = dump(sendable_arguments(call.arguments)).decode()
        row: JsonObject = {
            "id": wire_call_id(call.id),
            "type": "function",
            "function": {"name": wire_tool_name(call.name), "arguments": arguments},
        }
        extra = extras[index] if extras else None
        if extra is None and dialect.gemini and not any(extras) and index == 0:
            extra = _SKIP_SIGNATURE
        if extra is not None:
            row["extra_content"] = extra
        rows.append(row)
    return rows


def _sent_back(message: AssistantMessage, dialect: Dialect, model: str) -> JsonObject:
    extra = message.extra
    if extra is None or not dialect.send_reasoning or (extra.provider, extra.model) != (dialect.tag, model):
        return {}
    found = parse_arguments(extra.data)
    return found if isinstance(found, dict) else {}
