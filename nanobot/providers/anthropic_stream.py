"""Fold a Messages stream into one answer.  Pure: no socket, no clock."""

from dataclasses import dataclass, field

from nanobot.bus.runtime_events import ModelEvent, ReasoningDelta, TextDelta, Usage
from nanobot.messages import JsonObject, JsonValue, ProviderExtra
from nanobot.providers.base import Finish, LLMRequest, LLMResponse, ToolCallRequest
from nanobot.providers.faults import Fault, ServerFault
from nanobot.providers.wire import (
    as_count,
    as_json,
    as_list,
    as_object,
    as_text,
    clean,
    dump,
    is_blank,
    parse_arguments,
)

_FINISH: dict[str, Finish] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


@dataclass(slots=True)
class _Block:
    """One content block while it arrives."""

    type: str
    start: dict[str, object]
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""
    held: str = ""  # the first half of a character

    @property
    def text(self) -> str:
        return clean("".join(self.pieces) + self.held)


class AnthropicFold:
    """One answer while it arrives; see ``reading.Fold``."""

    def __init__(self) -> None:
        self.progress = 0
        self.thinks = True
        self._blocks: list[_Block] = []
        self._at: dict[int, _Block] = {}  # the newest of each index: some servers give every block the same
        self._stop = ""
        self._model = ""
        self._start_usage: dict[str, object] = {}
        self._end_usage: dict[str, object] = {}
        self._why_refused = ""

    @property
    def complete(self) -> bool:
        """Whether a stop reason was seen, or the end: every block is closed by then."""
        return bool(self._stop)

    def feed(self, event: object) -> list[ModelEvent]:
        """Take one event; return the deltas to show.

        Raises:
            ServerFault: the event is an error.
        """
        body = as_object(event)
        match body.get("type"):
            case "message_start":
                message = as_object(body.get("message"))
                self._model = as_text(message.get("model"))
                self._start_usage = as_object(message.get("usage"))
            case "content_block_start":
                return self._open(_index(body), as_object(body.get("content_block")))
            case "content_block_delta":
                return self._grow(_index(body), as_object(body.get("delta")))
            case "content_block_stop":
                self.progress += 1
                self.thinks = False
            case "message_delta":
                self._end(body)
            case "message_stop":
                self._stop = (
                    self._stop or "end_turn"
                )  # some servers leave the reason out, and say plainly that it is the end
            case "error":
                raise ServerFault(fault_of(body))
            case _:
                pass
        return []

    def feed_whole(self, answer: object) -> list[ModelEvent]:
        """Take a whole answer from a server that does not stream."""
        body = as_object(answer)
        if body.get("type") == "error" or body.get("error"):
            raise ServerFault(fault_of(body))
        if not isinstance(body.get("content"), list):
            raise ServerFault(Fault("an answer without content", kind="api_error"))
        self.feed({"type": "message_start", "message": body})
        out: list[ModelEvent] = []
        for index, block in enumerate(as_list(body["content"])):
            out += self._open(index, as_object(block))
        self._end({"delta": {"stop_reason": body.get("stop_reason") or "end_turn"}, "usage": body.get("usage")})
        return out

    def end(self) -> list[ModelEvent]:
        """Close the answer; return the deltas that were held back."""
        return []

    def response(self, request: LLMRequest, *, provider: str, tag: str) -> LLMResponse:
        """Return the whole answer.  ``tag`` names this vendor in what it wants back."""
        blocks = self._blocks
        finish = _FINISH.get(self._stop, "stop")
        calls = tuple(_call(block, cut_off=finish == "length") for block in blocks if block.type == "tool_use")
        if calls and finish == "stop":
            finish = "tool_calls"
        if finish == "tool_calls" and not calls:
            finish = "stop"
        text = "".join(block.text for block in blocks if block.type == "text")
        extra = _extra(blocks)
        return LLMResponse(
            text=text or self._why_refused,
            tool_calls=calls,
            finish=finish,
            usage=_usage(self._start_usage, self._end_usage),
            extra=ProviderExtra(tag, request.model, dump(extra).decode()) if extra else None,
            reasoning="".join(block.text for block in blocks if block.type == "thinking"),
            model=self._model or request.model,
            provider=provider,
        )

    def _open(self, index: int, start: dict[str, object]) -> list[ModelEvent]:
        kind = as_text(start.get("type"))
        block = self._new(index, _Block(kind, start, signature=as_text(start.get("signature"))))
        self.progress += 1
        self.thinks = kind in ("thinking", "redacted_thinking")
        return self._say(block, as_text(start.get(kind)) if kind in ("text", "thinking") else "")

    def _new(self, index: int, block: _Block) -> _Block:
        self._blocks.append(block)
        self._at[index] = block
        return block

    def _grow(self, index: int, delta: dict[str, object]) -> list[ModelEvent]:
        block = self._at.get(index)
        if block is None:
            kinds = {"text_delta": "text", "thinking_delta": "thinking"}
            block = self._new(index, _Block(kinds.get(as_text(delta.get("type")), ""), {}))
        match delta.get("type"):
            case "text_delta":
                return self._say(block, as_text(delta.get("text")))
            case "thinking_delta":
                return self._say(block, as_text(delta.get("thinking")))
            case "input_json_delta":
                piece = as_text(delta.get("partial_json"))
                block.pieces.append(piece)
                self.progress += bool(piece)
            case "signature_delta":
                block.signature += as_text(delta.get("signature"))
                self.progress += 1
            case _:
                pass
        return []

    def _say(self, block: _Block, piece: str) -> list[ModelEvent]:
        text, block.held = block.held + piece, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, block.held = text[:-1], text[-1]
        if not text:
            return []
        text = clean(text)
        block.pieces.append(text)
        self.progress += 1
        self.thinks = False
        return [ReasoningDelta(text) if block.type == "thinking" else TextDelta(text)]

    def _end(self, body: dict[str, object]) -> None:
        delta = as_object(body.get("delta"))
        self._stop = as_text(delta.get("stop_reason")) or self._stop
        self._end_usage |= {key: value for key, value in as_object(body.get("usage")).items() if value is not None}
        self._why_refused = clean(as_text(as_object(delta.get("stop_details")).get("explanation")))
        self.progress += 1


def fault_of(error: object, *, status: int | None = None) -> Fault:
    """Return the fault in an Anthropic-form error body (or whatever a server sent in its place)."""
    body = as_object(error)
    inner = as_object(body.get("error")) or body
    if not inner:
        return Fault(error if isinstance(error, str) else "", status)
    text = as_text(inner.get("message")) or as_text(body.get("error")) or dump(inner).decode()
    return Fault(text, status, " ".join(str(kind) for kind in (inner.get("type"), inner.get("code")) if kind))


def _call(block: _Block, *, cut_off: bool) -> ToolCallRequest:
    name, text = as_text(block.start.get("name")), "".join(block.pieces)
    if is_blank(text):
        given = block.start.get("input")
        if isinstance(given, dict) and (given or not cut_off):
            return ToolCallRequest(name, as_json(as_object(block.start["input"])))
        return ToolCallRequest(name, "" if cut_off else {})
    return ToolCallRequest(name, parse_arguments(text))


def _extra(blocks: list[_Block]) -> JsonObject:
    """Return the thinking blocks verbatim and where they stood among text and calls; see ``anthropic_wire``."""
    layout: list[JsonValue] = []
    for block in blocks:
        if block.type == "thinking" and block.signature:  # an unsigned one is refused
            layout.append({"type": "thinking", "thinking": block.text, "signature": block.signature})
        elif block.type == "redacted_thinking":
            layout.append({"type": "redacted_thinking", "data": as_text(block.start.get("data"))})
        elif block.type == "text":
            layout.append(len(block.text))
        elif block.type == "tool_use":
            layout.append("call")
    return {"blocks": layout} if any(isinstance(item, dict) for item in layout) else {}


def _usage(start: dict[str, object], end: dict[str, object]) -> Usage | None:
    raw = {**start, **end}
    if not raw:
        return None
    cached, written = as_count(raw.get("cache_read_input_tokens")), as_count(raw.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=as_count(raw.get("input_tokens")) + cached + written,
        output_tokens=as_count(raw.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=as_count(as_object(raw.get("output_tokens_details")).get("thinking_tokens")),
    )


def _index(body: dict[str, object]) -> int:
    index = body.get("index")
    return index if isinstance(index, int) else 0
