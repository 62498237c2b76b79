"""From a reply to what is sent: the body or the events of either wire.  Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.fakes.llm import anthropic_wire, openai_wire
from tests.fakes.llm.delivery import Answer
from tests.fakes.llm.events import Event, up_to_delta
from tests.fakes.llm.meter import Reading, tokens_of
from tests.fakes.llm.recorded import Recorded, Wire
from tests.fakes.llm.script import Reply, Tokens
from tests.fakes.llm.shapes import Refused, obj, to_bytes

_JSON, _SSE = "application/json", "text/event-stream; charset=utf-8"


def prepare(recorded: Recorded, reply: Reply, reading: Reading, request_id: str) -> Answer:
    """Return what goes out for ``reply``, and note in ``recorded`` the usage that it names."""
    headers = _headers(request_id, reply.headers)
    if reply.raw_body is not None:
        return Answer(reply.status, {"content-type": _JSON, **headers}, reply.raw_body)
    if reply.status != 200 or reply.error is not None:
        error = error_body(recorded.wire, reply.status, request_id) if reply.error is None else dict(reply.error)
        return whole_answer(request_id, reply.status, error, reply.headers)
    usage = recorded.reported = _usage(reply, reading)
    if reply.raw_events is not None:
        events = [Event(data, "delta") for data in reply.raw_events]
    elif recorded.streams:
        events = _cut(_stream(recorded, reply, usage, request_id), reply, recorded.wire)
    else:
        return whole_answer(request_id, 200, _whole(recorded, reply, usage, request_id), reply.headers)
    keepalive = b": keep-alive\n\n" if recorded.wire == "openai" else anthropic_wire.event("ping", {})
    return Answer(200, {"content-type": _SSE, **headers}, events=events, keepalive=keepalive)


def whole_answer(request_id: str, status: int, body: object, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer of one JSON value."""
    return Answer(status, {"content-type": _JSON, **_headers(request_id, headers or {})}, to_bytes(body))


def error_body(wire: Wire, status: int, request_id: str, refused: Refused | None = None) -> dict[str, Any]:
    """Return the vendor's body for a status, or for a refusal."""
    if wire == "openai":
        return openai_wire.error_body(status, refused)
    return anthropic_wire.error_body(status, request_id, refused)


def model_list(wire: Wire, models: Sequence[str]) -> dict[str, Any]:
    """Return the answer to ``GET /v1/models``."""
    if wire == "openai":
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "local"} for name in models]
        return {"object": "list", "data": rows}
    stamp = "2025-01-01T00:00:00Z"
    rows = [{"type": "model", "id": name, "display_name": name, "created_at": stamp} for name in models]
    return {"data": rows, "has_more": False, "first_id": models[0], "last_id": models[-1]}


def _headers(request_id: str, more: Mapping[str, str]) -> dict[str, str]:
    return {"request-id": request_id, "x-request-id": request_id, **more}


def _usage(reply: Reply, reading: Reading) -> Tokens | None:
    if reply.usage != "auto":
        return reply.usage
    said = reply.text + "".join(openai_wire.arguments_text(reply, call) for call in reply.tool_calls)
    thought = tokens_of(len(reply.reasoning.encode("utf-8", "surrogatepass")))
    completion = thought + tokens_of(len(said.encode("utf-8", "surrogatepass")))
    return Tokens(reading.prompt, completion, reading.read, thought, reading.written)


def _whole(recorded: Recorded, reply: Reply, usage: Tokens | None, request_id: str) -> dict[str, Any]:
    if recorded.wire == "openai":
        return openai_wire.whole(reply, openai_wire.Frame(f"chatcmpl-{request_id}", recorded.model), usage)
    return anthropic_wire.whole(reply, anthropic_wire.Frame(f"msg_{request_id}", recorded.model), usage)


def _stream(recorded: Recorded, reply: Reply, usage: Tokens | None, request_id: str) -> Iterable[Event]:
    if recorded.wire == "anthropic":
        return anthropic_wire.stream(reply, anthropic_wire.Frame(f"msg_{request_id}", recorded.model), usage)
    include = (obj(recorded.body.get("stream_options")) or {}).get("include_usage") is True
    return openai_wire.stream(reply, openai_wire.Frame(f"chatcmpl-{request_id}", recorded.model, include), usage)


def _cut(events: Iterable[Event], reply: Reply, wire: Wire) -> list[Event]:
    """Return the events that are sent, up to where the reply hangs, fails or ends early."""
    if reply.hang == "after_delta":
        return up_to_delta(events, 1 if reply.after is None else reply.after)
    if reply.stream_error is not None:
        module = openai_wire if wire == "openai" else anthropic_wire
        return [*up_to_delta(events, reply.after), Event(module.stream_error(reply.stream_error), "done")]
    if reply.end_early:
        return up_to_delta(events, reply.after)
    return [event for event in events if event.kind != "done" or "no_done" not in reply.oddities]
