"""Chat Completions as bytes: answers, streams and errors.  Pure."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.llm.events import Event
from tests.fakes.llm.script import Call, Reply, Tokens, pieces
from tests.fakes.llm.shapes import Refused, to_bytes

_FINISH = {"refusal": "content_filter", "tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}
_KINDS = {
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: (
        "invalid_request_error",
        "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    ),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    413: ("invalid_request_error", None, "Request too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again later."),
    500: ("server_error", None, "The server had an error while processing your request. Sorry about that!"),
    503: ("server_error", None, "That model is currently overloaded with other requests."),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """What all chunks of one answer share."""

    id: str
    model: str
    include_usage: bool = False


def error_body(status: int, refused: Refused | None = None) -> dict[str, Any]:
    """Return the vendor's error body for a status, or for a refusal."""
    if refused:
        error = {"message": refused.message, "type": refused.kind or "invalid_request_error"}
        return {"error": {**error, "param": refused.param, "code": refused.code}}
    kind, code, message = _KINDS.get(
        status, ("server_error" if status >= 500 else "invalid_request_error", None, f"HTTP {status}")
    )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def usage_body(tokens: Tokens) -> dict[str, Any]:
    """Return ``usage`` as the vendor writes it."""
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.completion,
        "total_tokens": tokens.prompt + tokens.completion,
        "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def whole(reply: Reply, frame: Frame, usage: Tokens | None) -> dict[str, Any]:
    """Return the answer as one object."""
    odd = reply.oddities
    text = _shown(reply)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if "null_content" not in odd and not text and not reply.tool_calls:
        message["content"] = ""
    if reply.reasoning and "think_tags" not in odd:
        message[_reasoning_key(reply)] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_whole_call(reply, index, call, frame) for index, call in enumerate(reply.tool_calls)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(reply)}
    out: dict[str, Any] = {
        "id": frame.id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": frame.model,
    }
    out["choices"] = _choices(reply, [choice])
    if usage:
        out["usage"] = usage_body(usage)
    return out


def stream(reply: Reply, frame: Frame, usage: Tokens | None) -> Iterator[Event]:
    """Yield the answer's events in order."""
    odd = reply.oddities
    first = {"role": "assistant", "content": None if "null_content" in odd or reply.tool_calls else ""}
    yield Event(_chunk(reply, frame, first, usage), "start")
    for delta in _deltas(reply, frame):
        yield Event(_chunk(reply, frame, delta, usage), "delta")
    in_finish = "usage_in_finish" in odd
    yield Event(_chunk(reply, frame, {}, usage, finish=finish_reason(reply), with_usage=in_finish), "end")
    if usage and frame.include_usage and not in_finish:
        yield Event(_sse({**_base(frame), "choices": [], "usage": usage_body(usage)}), "end")
    yield Event(b"data: [DONE]\n\n", "done")


def finish_reason(reply: Reply) -> str:
    """Return the finish reason in this wire's words."""
    if reply.tool_calls and "stop_with_calls" in reply.oddities:
        return "stop"
    if reply.finish:
        return _FINISH.get(reply.finish, reply.finish)
    return "tool_calls" if reply.tool_calls else "stop"


def stream_error(error: object) -> bytes:
    """Return an error event."""
    return _sse({"error": error})


def arguments_text(reply: Reply, call: Call) -> str:
    """Return a call's arguments as the model would write them."""
    if isinstance(call.arguments, str):
        text = call.arguments
    else:
        text = json.dumps(dict(call.arguments), ensure_ascii="split_escapes" in reply.oddities)
    return text[: max(1, len(text) * 2 // 3)] if "broken_json" in reply.oddities else text


def _shown(reply: Reply) -> str:
    if reply.reasoning and "think_tags" in reply.oddities:
        return f"<think>{reply.reasoning}</think>\n\n{reply.text}"
    return reply.text


def _reasoning_key(reply: Reply) -> str:
    return "reasoning" if "reasoning_field" in reply.oddities else "reasoning_content"


def _choices(reply: Reply, choices: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    if "null_choices" in reply.oddities:
        return None
    return [] if "empty_choices" in reply.oddities else choices


def _base(frame: Frame) -> dict[str, Any]:
    return {"id": frame.id, "object": "chat.completion.chunk", "created": int(time.time()), "model": frame.model}


def _sse(value: object) -> bytes:
    return b"data: " + to_bytes(value) + b"\n\n"


def _chunk(
    reply: Reply,
    frame: Frame,
    delta: dict[str, Any],
    usage: Tokens | None,
    *,
    finish: str | None = None,
    with_usage: bool = False,
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    out = {**_base(frame), "choices": _choices(reply, [choice])}
    if usage and (with_usage or "usage_every_chunk" in reply.oddities):
        out["usage"] = usage_body(usage)
    elif frame.include_usage:
        out["usage"] = None
    return _sse(out)


def _deltas(reply: Reply, frame: Frame) -> Iterator[dict[str, Any]]:
    think_tags = "think_tags" in reply.oddities
    if not think_tags:
        yield from ({_reasoning_key(reply): piece} for piece in pieces(reply.reasoning, reply.deltas))
    text = _shown(reply)
    yield from ({"content": piece} for piece in pieces(text, -(-len(text) // 3) if think_tags else reply.deltas))
    calls = [_call_deltas(reply, index, call, frame) for index, call in enumerate(reply.tool_calls)]
    order = _take_turns(calls) if "interleaved" in reply.oddities else (delta for call in calls for delta in call)
    yield from ({"tool_calls": [delta]} for delta in order)


def _take_turns(calls: list[list[dict[str, Any]]]) -> Iterable[dict[str, Any]]:
    longest = max(map(len, calls), default=0)
    return (call[at] for at in range(longest) for call in calls if at < len(call))


def _call_id(reply: Reply, index: int, call: Call, frame: Frame) -> str:
    if "empty_ids" in reply.oddities:
        return ""
    if "duplicate_ids" in reply.oddities:
        return "call_same"
    return call.id or f"call_{frame.id[-12:]}_{index}"


def _whole_call(reply: Reply, index: int, call: Call, frame: Frame) -> dict[str, Any]:
    text = arguments_text(reply, call)
    arguments: object = call.arguments if "args_object" in reply.oddities else text
    out: dict[str, Any] = {"id": _call_id(reply, index, call, frame), "type": "function"}
    if "missing_ids" in reply.oddities:
        del out["id"]
    if call.extra:
        out["extra_content"] = call.extra
    return {**out, "function": {"name": call.name, "arguments": arguments}}


def _call_deltas(reply: Reply, index: int, call: Call, frame: Frame) -> list[dict[str, Any]]:
    odd = reply.oddities
    full = _whole_call(reply, index, call, frame)
    if "no_index" in odd:
        return [full]
    if "args_object" in odd:
        return [{"index": index, **full}]
    text = arguments_text(reply, call)
    parts = pieces(text, -(-len(text) // 2) if "split_escapes" in odd else reply.deltas)
    names = _name_deltas(reply, call.name)
    if "args_before_name" in odd:
        names, parts = [{"arguments": parts[0] if parts else ""}, {"name": call.name}], parts[1:]
    first, *rest = [*names, *({"arguments": part} for part in parts)]
    return [{"index": index, **full, "function": first}, *(_continuation(reply, index, full, part) for part in rest)]


def _name_deltas(reply: Reply, name: str) -> list[dict[str, Any]]:
    if "fragmented_names" in reply.oddities:
        half = (len(name) + 1) // 2
        return [{"name": name[:half], "arguments": ""}, {"name": name[half:], "arguments": ""}]
    if "empty_name_first" in reply.oddities:
        return [{"name": "", "arguments": ""}, {"name": name, "arguments": ""}]
    return [{"name": name, "arguments": ""}]


def _continuation(reply: Reply, index: int, full: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    odd = reply.oddities
    if "null_continuation" in odd:
        return {"index": index, "id": None, "type": None, "function": {"name": None, **part}}
    if "empty_continuation" in odd:
        return {"index": index, "id": "", "type": "function", "function": {"name": "", **part}}
    if "repeat_id_name" in odd:
        return {"index": index, **full, "function": {"name": full["function"]["name"], **part}}
    return {"index": index, "function": part}
