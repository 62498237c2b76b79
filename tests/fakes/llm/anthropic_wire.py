"""Messages as bytes: answers, streams and errors.  Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.llm.events import Event
from tests.fakes.llm.script import Call, Reply, Tokens, pieces
from tests.fakes.llm.shapes import Refused, obj, to_bytes
from tests.fakes.llm.signatures import redact, sign

_FINISH = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_KINDS = {
    400: ("invalid_request_error", "Bad request"),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low to access the API."),
    403: ("permission_error", "Your API key does not have permission to use the specified resource."),
    404: ("not_found_error", "Not found"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
    500: ("api_error", "Internal server error"),
    504: ("timeout_error", "Request timed out"),
    529: ("overloaded_error", "Overloaded"),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """What all events of one answer share."""

    id: str
    model: str


def error_body(status: int, request_id: str, refused: Refused | None = None) -> dict[str, Any]:
    """Return the vendor's error body for a status, or for a refusal."""
    kind, message = _KINDS.get(status, _KINDS[500] if status >= 500 else _KINDS[400])
    if refused:
        kind, message = refused.kind or kind, refused.message
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def usage_body(tokens: Tokens) -> dict[str, Any]:
    """Return ``usage`` as the vendor writes it: ``input_tokens`` are those neither read from nor written to the cache."""
    return {
        "input_tokens": max(0, tokens.prompt - tokens.cached - tokens.written),
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.completion,
        "service_tier": "standard",
    }


def whole(reply: Reply, frame: Frame, usage: Tokens | None) -> dict[str, Any]:
    """Return the answer as one object."""
    out = _message(frame, usage)
    out["content"] = [block for block, _ in _blocks(reply, frame)]
    return {**out, "stop_reason": stop_reason(reply), "stop_sequence": None}


def stream(reply: Reply, frame: Frame, usage: Tokens | None) -> Iterator[Event]:
    """Yield the answer's events in order."""
    ping = [Event(event("ping", {}), "delta")] if "pings" in reply.oddities else []
    start = _message(frame, usage)
    if usage:
        start["usage"]["output_tokens"] = 1
    yield Event(event("message_start", {"message": start}), "start")
    yield from ping
    for index, (block, deltas) in enumerate(_blocks(reply, frame)):
        opened = _opened(block, with_input="input_in_start" in reply.oddities)
        yield Event(event("content_block_start", {"index": index, "content_block": opened}), "start")
        for delta in deltas:
            yield from ping
            yield Event(event("content_block_delta", {"index": index, "delta": delta}), "delta")
        yield Event(event("content_block_stop", {"index": index}), "start")
    last: dict[str, Any] = {"delta": {"stop_reason": stop_reason(reply), "stop_sequence": None}}
    if usage:
        last["usage"] = {"output_tokens": usage.completion}
    yield Event(event("message_delta", last), "end")
    yield Event(event("message_stop", {}), "done")


def stop_reason(reply: Reply) -> str:
    """Return the stop reason in this wire's words."""
    if reply.finish:
        return _FINISH.get(reply.finish, reply.finish)
    return "tool_use" if reply.tool_calls else "end_turn"


def event(name: str, fields: dict[str, Any]) -> bytes:
    """Return one event of a stream."""
    return b"event: " + name.encode() + b"\ndata: " + to_bytes({"type": name, **fields}) + b"\n\n"


def stream_error(error: object) -> bytes:
    """Return an error event."""
    return event("error", {"error": error})


def _message(frame: Frame, usage: Tokens | None) -> dict[str, Any]:
    out: dict[str, Any] = {"id": frame.id, "type": "message", "role": "assistant", "model": frame.model, "content": []}
    out |= {"stop_reason": None, "stop_sequence": None}
    if usage:
        out["usage"] = usage_body(usage)
    return out


def _blocks(reply: Reply, frame: Frame) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each content block whole, with the deltas that build it."""
    if reply.reasoning or "empty_thinking" in reply.oddities:
        yield _thinking("" if "empty_thinking" in reply.oddities else reply.reasoning, reply.deltas)
    if "redacted_thinking" in reply.oddities:
        yield {"type": "redacted_thinking", "data": redact(reply.reasoning)}, []
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text, reply.deltas)]
        yield {"type": "text", "text": reply.text}, deltas
    for index, call in enumerate(reply.tool_calls):
        yield _tool_use(reply, index, call, frame)


def _thinking(text: str, count: int | None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(text, count)]
    signature = sign(text)
    deltas.append({"type": "signature_delta", "signature": signature})
    return {"type": "thinking", "thinking": text, "signature": signature}, deltas


def _tool_use(reply: Reply, index: int, call: Call, frame: Frame) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    identity = "toolu_same" if "duplicate_ids" in reply.oddities else call.id or f"toolu_{frame.id[-12:]}_{index}"
    block = {"type": "tool_use", "id": identity, "name": call.name, "input": call.arguments}
    if "input_in_start" in reply.oddities:
        return block, []
    text = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments), ensure_ascii=False)
    if "broken_json" in reply.oddities:
        text = text[: max(1, len(text) * 2 // 3)]
    parts = [] if text == "{}" else pieces(text, reply.deltas)
    return block, [{"type": "input_json_delta", "partial_json": part} for part in ["", *parts]]


def _opened(block: dict[str, Any], *, with_input: bool) -> dict[str, Any]:
    """Return the block as it looks before its deltas."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "tool_use" if not with_input or obj(block["input"]) is None:
            return {**block, "input": {}}
        case _:
            return block
