"""Encode requests for the Messages wire.  Pure: images come in loaded.

Each message becomes a run of content blocks, encoded alone, once, and kept in ``message.encoded``.  Neighbouring messages of one
role (tool results and what a person said after them) become one row by joining their blocks, so a row that grows keeps its
beginning, byte for byte.  An assistant message with neither text nor calls has no blocks and is left out.  Pictures that a tool
gave stand inside its result.

Cache marks are put on when joining, never into what is kept: on the last tool, the system prompt, the last block, and the last
block of the user row before it, where the request before this one ended.
"""

import json
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
from nanobot.providers.models import thinks_adaptively
from nanobot.providers.settings import AnthropicSettings
from nanobot.providers.wire import (
    CUT_OFF_MARK,
    EMPTY_MARK,
    as_list,
    as_object,
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

DEFAULT_BASE_URL = "https://api.anthropic.com"
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_OPENINGS = {role: b'{"role":"%b","content":[' % role.encode() for role in ("user", "assistant")}
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
_SMALLEST_BUDGET = 1_024
_PROMPT_FIELDS = ("model", "system", "messages", "tools", "tool_choice", "thinking")


@frozen
class Dialect:
    """What this server wants done differently; made from the settings once."""

    tag: str  # names the vendor in a ProviderExtra
    marks: bool
    max_tokens: int | None
    extra_body: Mapping[str, JsonValue]


def dialect_of(settings: AnthropicSettings) -> Dialect:
    """Return the dialect of the server these settings name."""
    return Dialect(
        tag=f"anthropic:{host_of(settings.base_url or DEFAULT_BASE_URL)}",
        marks=settings.prompt_caching,
        max_tokens=settings.max_tokens,
        extra_body=cast("Mapping[str, JsonValue]", settings.extra_body),
    )


@frozen
class Blocks:
    """A message as encoded: its role here, and its blocks joined by commas (empty: left out)."""

    role: str
    joined: bytes


def depends(message: Message, _dialect: Dialect) -> bool:
    """Say whether a message's encoding depends on more than the wire: on the server or the model."""
    match message:
        case AssistantMessage():
            return message.extra is not None
        case UserMessage() | ToolMessage():
            return False


def encode_message(message: Message, dialect: Dialect, model: str, images: Images) -> Blocks:
    """Encode one message alone."""
    match message:
        case UserMessage():
            return Blocks("user", b",".join(map(dump, _user(message, images))))
        case AssistantMessage():
            return Blocks("assistant", b",".join(map(dump, _assistant(message, dialect, model))))
        case ToolMessage():
            block: JsonObject = {
                "type": "tool_result",
                "tool_use_id": wire_call_id(message.call_id),
                "content": _result(message, images),
            }
            if message.is_error:
                block["is_error"] = True
            return Blocks("user", dump(block))


def encode_tool(tool: ToolSpec) -> bytes:
    """Encode one tool; kept in ``tool.encoded``."""
    cached = cast("bytes | None", tool.encoded.get("anthropic"))
    if cached is None:
        spec: JsonObject = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        cached = tool.encoded["anthropic"] = dump(spec)
    return cached


def prefix_elements(request: LLMRequest, elements: Sequence[Blocks]) -> list[bytes]:
    """Return tools, system and each message as bytes, as ``LLMProvider.encoded`` promises."""
    return [
        b",".join(map(encode_tool, request.tools)),
        _system(request.system),
        *(element.joined for element in elements),
    ]


def request_body(request: LLMRequest, elements: Sequence[Blocks], dialect: Dialect) -> bytes:
    """Join a whole request body."""
    options, room = _options(request, elements, dialect)
    fields: dict[str, list[bytes]] = {"model": [dump(request.model)], "max_tokens": [dump(room)]}
    if request.tools:
        tools = list(map(encode_tool, request.tools))
        if dialect.marks:
            tools[-1] = _marked(tools[-1])
        fields["tools"] = in_array(tools)
        if request.tool_choice == "none":
            fields["tool_choice"] = [b'{"type":"none"}']
    system = _system(request.system)
    if system:
        fields["system"] = in_array([_marked(system) if dialect.marks else system])
    fields["messages"] = in_array(_rows(elements, marks=dialect.marks))
    fields["stream"] = [b"true"]
    fields |= options
    return body_of(fields, dialect.extra_body)


def count_body(request: LLMRequest, elements: Sequence[Blocks], dialect: Dialect) -> bytes:
    """Return the body that asks how long the request is: of its fields, those that make the prompt."""
    whole = cast("dict[str, object]", json.loads(request_body(request, elements, dialect)))
    return dump({field: whole[field] for field in _PROMPT_FIELDS if field in whole})


def _options(request: LLMRequest, elements: Sequence[Blocks], dialect: Dialect) -> tuple[dict[str, list[bytes]], int]:
    room = dialect.max_tokens or request.max_tokens
    effort = request.reasoning_effort
    if effort and thinks_adaptively(request.model):
        thinking = b'{"type":"adaptive","display":"summarized"}'
        return {"thinking": [thinking], "output_config": [dump({"effort": effort})]}, room
    if effort and _may_think(elements):
        budget = max(_SMALLEST_BUDGET, min(_BUDGETS[effort], room - _SMALLEST_BUDGET))
        return {"thinking": [dump({"type": "enabled", "budget_tokens": budget})]}, max(room, budget + _SMALLEST_BUDGET)
    if request.temperature is not None:
        return {"temperature": [dump(min(request.temperature, 1.0))]}, room
    return {}, room


def _may_think(elements: Sequence[Blocks]) -> bool:
    """Say whether thinking can be on: inside a round of tools, its calls must have begun with thinking of this model."""
    for element in reversed(elements):
        if element.role == "assistant":
            return b'"type":"tool_use"' not in element.joined or element.joined.startswith(
                (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
            )
        if not element.joined.startswith(b'{"type":"tool_result"'):
            return True
    return True


def _rows(elements: Sequence[Blocks], *, marks: bool) -> list[bytes]:
    """Return the rows: runs of one role, joined, with the marks on."""
    runs: list[list[bytes]] = []
    roles: list[str] = []
    for element in elements:
        if not element.joined:
            continue
        if roles and roles[-1] == element.role:
            runs[-1].append(element.joined)
        else:
            roles.append(element.role)
            runs.append([element.joined])
    marked = [at for at in range(len(roles) - 1, -1, -1) if roles[at] == "user"][:2] if marks else []
    for at in marked:
        runs[at][-1] = _marked(runs[at][-1])
    return [_OPENINGS[role] + b",".join(run) + b"]}" for role, run in zip(roles, runs, strict=True)]


def _marked(blocks: bytes) -> bytes:
    return blocks[:-1] + _MARK


@lru_cache(maxsize=16)
def _system(system: str) -> bytes:
    """Encode a system prompt; it is the same one at each request of a session."""
    return dump({"type": "text", "text": system}) if not is_blank(system) else b""


def _user(message: UserMessage, images: Images) -> list[JsonObject]:
    found = (part.text if isinstance(part, TextPart) else images[part] for part in message.parts)
    return _blocks(found) or [{"type": "text", "text": EMPTY_MARK}]


def _result(message: ToolMessage, images: Images) -> JsonValue:
    """Return a result's content: a text, or blocks if there are pictures."""
    blocks = _blocks([message.text, *shown_with(message, images)])
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(str(block["text"]) for block in blocks) or EMPTY_MARK
    return [*blocks]


def _blocks(parts: Iterable[LoadedImage | str]) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for part in parts:
        if isinstance(part, LoadedImage):
            source: JsonObject = {"type": "base64", "media_type": part.media_type, "data": part.base64}
            blocks.append({"type": "image", "source": source})
        elif not is_blank(part):
            blocks.append({"type": "text", "text": part})
    return blocks


def _assistant(message: AssistantMessage, dialect: Dialect, model: str) -> list[JsonObject]:
    text = "" if is_blank(message.text) else clean(message.text)
    if message.cut_off:
        text = f"{text}\n{CUT_OFF_MARK}".strip()
    if not text and not message.tool_calls:
        return []
    calls: list[JsonObject] = [
        {
            "type": "tool_use",
            "id": wire_call_id(call.id),
            "name": wire_tool_name(call.name, limit=128),
            "input": sendable_arguments(call.arguments),
        }
        for call in message.tool_calls
    ]
    return _laid_out(text, calls, _layout(message, dialect, model))


def _layout(message: AssistantMessage, dialect: Dialect, model: str) -> list[object]:
    """Return the thinking blocks and where they stood: a number is that much text, ``"call"`` the next call."""
    extra = message.extra
    if extra is None or (extra.provider, extra.model) != (dialect.tag, model):
        return []
    return as_list(as_object(parse_arguments(extra.data)).get("blocks"))


def _laid_out(text: str, calls: list[JsonObject], layout: list[object]) -> list[JsonObject]:
    """Return the blocks in the order the model wrote them; when text or calls are no longer as they were, thinking comes first."""
    thinking = [item for item in map(as_object, layout) if item]
    lengths = [item for item in layout if isinstance(item, int)]
    if sum(lengths) != len(text) or layout.count("call") != len(calls):
        whole: list[JsonObject] = [{"type": "text", "text": text}] if text else []
        return [*map(_json, thinking), *whole, *calls]
    blocks: list[JsonObject] = []
    rest, waiting = text, iter(calls)
    for item in layout:
        if isinstance(item, int):
            part, rest = rest[:item], rest[item:]
            if not is_blank(part):
                blocks.append({"type": "text", "text": part})
        elif item == "call":
            blocks.append(next(waiting))
        else:
            blocks.append(_json(as_object(item)))
    return blocks


def _json(value: dict[str, object]) -> JsonObject:
    return cast("JsonObject", value)
