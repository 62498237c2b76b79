"""Fold a Chat Completions stream into one answer.  Pure: no socket, no clock.

Takes the chunks of OpenAI and of the servers that mean to be compatible: null choices and content, text as a list of parts,
reasoning under three names, usage in a last empty chunk, a whole message instead of deltas, calls written as text (see
``inline_calls``).
"""

from collections.abc import Sequence
from typing import Literal

from nanobot.bus.runtime_events import ModelEvent, ReasoningDelta, TextDelta, TextReset, Usage
from nanobot.messages import JsonObject, JsonValue, ProviderExtra
from nanobot.providers.base import Finish, LLMRequest, LLMResponse, ToolCallRequest, ToolSpec
from nanobot.providers.faults import Fault, ServerFault
from nanobot.providers.inline_calls import DECIDE_WITHIN_CHARS, MAX_CHARS, calls_in, may_be_call
from nanobot.providers.openai_calls import CallDrafts
from nanobot.providers.thinking import Piece, ThinkSplitter, split_only_end
from nanobot.providers.wire import as_count, as_json, as_list, as_object, as_text, clean, dump, is_blank

_FINISH: dict[str, Finish] = {
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
}
_REASONING_KEYS = ("reasoning_content", "reasoning")


class OpenAIFold:
    """One answer while it arrives; see ``reading.Fold``."""

    def __init__(self, tools: Sequence[ToolSpec] = (), *, tool_choice: Literal["auto", "none"] = "auto") -> None:
        self.progress = 0
        self.thinks = True
        self._tools = tools if tool_choice == "auto" else ()
        self._finish = ""
        self._text: list[str] = []
        self._held: list[str] = []  # the text's start, while it may be a call
        self._held_chars = 0
        self._holding = bool(self._tools)
        self._reasoning: list[str] = []
        self._splitter = ThinkSplitter()
        self._calls = CallDrafts()
        self._inline: tuple[ToolCallRequest, ...] = ()  # calls that were written as text
        self._usage: Usage | None = None
        self._model = ""
        self._echo_key = ""
        self._echo: list[str] = []
        self._details: list[JsonObject] = []

    @property
    def complete(self) -> bool:
        """Whether a finish reason was seen."""
        return bool(self._finish)

    def feed(self, event: object) -> list[ModelEvent]:
        """Take one chunk; return the deltas to show.

        Raises:
            ServerFault: the chunk is an error.
        """
        chunk = as_object(event)
        _raise_error(chunk)
        self._take_usage(chunk)
        self._model = self._model or as_text(chunk.get("model"))
        choice = as_object(next(iter(as_list(chunk.get("choices"))), None))
        if not choice:
            return []
        _raise_error(choice)
        self._take_usage(choice)
        out = self._take_delta(as_object(choice.get("delta")) or as_object(choice.get("message")))
        finish = as_text(choice.get("finish_reason"))
        if finish == "error":
            raise ServerFault(Fault("the server broke off the answer", kind="server_error"))
        if finish:
            self._finish = finish.lower()
            self.progress += 1
        return out

    def feed_whole(self, answer: object) -> list[ModelEvent]:
        """Take a whole answer from a server that does not stream."""
        body = as_object(answer)
        _raise_error(body)
        if not as_list(body.get("choices")):
            text = as_text(body.get("message")) or as_text(body.get("detail")) or "an answer without choices"
            raise ServerFault(Fault(text, kind="server_error"))
        out = self.feed(body)
        self._finish = self._finish or "stop"
        return out

    def end(self) -> list[ModelEvent]:
        """Close the answer; return the deltas that were held back.  Call it once, before ``response``."""
        out = self._show(self._splitter.flush())
        held = "".join(self._held)
        self._held, self._holding = [], False
        if held and not self._calls.drafts:
            self._inline = calls_in(held, self._tools)
        if held and not self._inline:
            self._text.append(held)
            out.append(TextDelta(held))
        only_end = None if self._reasoning else split_only_end("".join(self._text))
        if only_end:
            reasoning, text = only_end
            self._reasoning, self._text = [reasoning], [text]
            out += [TextReset(), ReasoningDelta(reasoning)] + ([TextDelta(text)] if text else [])
        return out

    def response(self, request: LLMRequest, *, provider: str, tag: str) -> LLMResponse:
        """Return the whole answer.  ``tag`` names this vendor in what it wants back."""
        finish = _FINISH.get(self._finish, "stop")
        calls = self._inline or self._calls.finished(cut_off=finish == "length")
        if calls and finish == "stop":
            finish = "tool_calls"
        if finish == "tool_calls" and not calls:
            finish = "stop"
        extra = self._extra()
        return LLMResponse(
            text="".join(self._text),
            tool_calls=calls,
            finish=finish,
            usage=self._usage,
            extra=ProviderExtra(tag, request.model, dump(extra).decode()) if extra else None,
            reasoning="".join(self._reasoning),
            model=self._model or request.model,
            provider=provider,
        )

    def _take_delta(self, delta: dict[str, object]) -> list[ModelEvent]:
        pieces: list[Piece] = []
        for key in _REASONING_KEYS:
            text = as_text(delta.get(key))
            if text:
                pieces.append(("reasoning", clean(text)))
                if self._echo_key in ("", key):
                    self._echo_key = key
                    self._echo.append(text)
                break
        self._take_details(delta.get("reasoning_details"))
        for kind, text in _content(delta.get("content")):
            if kind == "text":
                pieces += self._splitter.feed(text)
            else:
                pieces.append((kind, clean(text)))
            self.progress += 1
        refusal = as_text(delta.get("refusal"))
        if refusal:
            self._finish = "refusal"
            pieces.append(("text", clean(refusal)))
        if self._calls.take(delta.get("tool_calls") or delta.get("function_call")):  # its older name: one call alone
            self.progress += 1
            self.thinks = False
        return self._show(pieces)

    def _show(self, pieces: Sequence[Piece]) -> list[ModelEvent]:
        out: list[ModelEvent] = []
        for kind, text in pieces:
            self.progress += 1
            self.thinks = False
            if kind == "reasoning":
                self._reasoning.append(text)
                out.append(ReasoningDelta(text))
                continue
            if self._holding:
                self._held.append(text)
                self._held_chars += len(text)
                if self._may_be_call():
                    continue
                text, self._held, self._holding = "".join(self._held), [], False
            self._text.append(text)
            out.append(TextDelta(text))
        return out

    def _may_be_call(self) -> bool:
        """Decide on the first pieces only: what looks like a call there is held to its end, within reason."""
        if self._held_chars > DECIDE_WITHIN_CHARS:
            return self._held_chars <= MAX_CHARS
        return may_be_call("".join(self._held))

    def _take_details(self, details: object) -> None:
        """Keep OpenRouter's reasoning blocks, joining the pieces of one text: they go back verbatim."""
        for raw in as_list(details):
            item = as_json(raw)
            last = self._details[-1] if self._details else {}
            same = item.get("type") == last.get("type") and item.get("index") == last.get("index")
            key = next((k for k in ("text", "summary") if isinstance(item.get(k), str)), "")
            if same and key and not (item.get("id") and last.get("id") and item["id"] != last["id"]):
                joined: JsonObject = {**last, **{k: v for k, v in item.items() if v is not None}}
                joined[key] = as_text(last.get(key)) + as_text(item[key])
                self._details[-1] = joined
            elif item:
                self._details.append(item)
            self.progress += 1

    def _take_usage(self, holder: dict[str, object]) -> None:
        raw = as_object(holder.get("usage")) or as_object(as_object(holder.get("x_groq")).get("usage"))
        if raw:
            self._usage = _usage(raw)
            self.progress += 1 if self.complete else 0

    def _extra(self) -> JsonObject:
        out: JsonObject = {}
        if self._details:
            out["message"] = {"reasoning_details": list[JsonValue](self._details)}
        elif self._echo:
            out["message"] = {self._echo_key: clean("".join(self._echo))}
        if any(draft.extra is not None for draft in self._calls.drafts):
            out["calls"] = [draft.extra for draft in self._calls.drafts if draft.name or draft.pieces or draft.ready]
        return out


def _content(content: object) -> list[Piece]:
    if isinstance(content, str):
        return [("text", content)] if content else []
    pieces: list[Piece] = []
    for item in map(as_object, as_list(content)):
        thinking = item.get("thinking")
        if thinking is not None:  # Mistral's: a list of text parts inside
            text = as_text(thinking) or "".join(as_text(as_object(part).get("text")) for part in as_list(thinking))
            pieces.append(("reasoning", text))
        else:
            pieces.append(("text", as_text(item.get("text"))))
    return [piece for piece in pieces if piece[1]]


def _usage(raw: dict[str, object]) -> Usage:
    prompt, answer = as_object(raw.get("prompt_tokens_details")), as_object(raw.get("completion_tokens_details"))
    return Usage(
        input_tokens=as_count(raw.get("prompt_tokens")),
        output_tokens=as_count(raw.get("completion_tokens")),
        cached_tokens=as_count(prompt.get("cached_tokens")) or as_count(raw.get("prompt_cache_hit_tokens")),
        cache_write_tokens=as_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=as_count(answer.get("reasoning_tokens")),
    )


def _raise_error(holder: dict[str, object]) -> None:
    error = holder.get("error")
    if not error and (holder.get("object") == "error" or _is_bare_error(holder)):
        error = holder  # vLLM and others send the error itself where a chunk is expected
    if error:
        raise ServerFault(fault_of(error))


def _is_bare_error(chunk: dict[str, object]) -> bool:
    says = isinstance(chunk.get("message") or chunk.get("detail"), str)
    return says and not chunk.keys() & {"choices", "delta", "finish_reason"}


def fault_of(error: object, *, status: int | None = None) -> Fault:
    """Return the fault in an OpenAI-form error object (or whatever a server sent in its place)."""
    body = as_object(error)
    body = as_object(body.get("error")) or body
    if not body:
        return Fault(error if isinstance(error, str) else "", status)
    code = body.get("code")
    if status is None and isinstance(code, int) and 400 <= code < 600:
        status = code
    raw = as_text(as_object(body.get("metadata")).get("raw"))  # OpenRouter: what the vendor behind it said
    text = as_text(body.get("message")) or as_text(body.get("detail")) or dump(body).decode()
    kinds = [str(kind) for kind in (body.get("type"), code, body.get("status")) if kind]
    return Fault(f"{text} {raw}".strip() if not is_blank(raw) else text, status, " ".join(kinds))
