"""A model server that costs as little as it can: canned answers, one write each.  ``python -m bench.server`` prints its address.

It checks nothing (the strict fake in ``tests/fakes`` does) and speaks as much of both wires as a client needs, streamed and not.
What it answers stands in the last mark of the request: ``[bench tools=10 name=list_dir args={"path":"d%d"}] 7`` (a Turn's number)
asks for ten calls, one after the other, ``width=5`` for five at once, each with its number in the arguments, as some agents stop
calls that repeat; ``[bench deltas=1000] 7`` streams so many pieces; without a mark, one sentence.  Who asks for a summary gets one.
"""

import asyncio
import json
import re
import signal
import sys
from dataclasses import dataclass

SENTENCE = "It is what it is, all things considered."
SUMMARY = (
    "Goal: The person asks again and again what to make of it.\n"
    "Facts: It is what it is, all things considered; that was the answer to every question so far.\n"
    "Open: Nothing is open; the next question will be answered in the same way."
)
_MARK = re.compile(rb"\[bench ([^\]]*)\] \d+")
_RESULT = re.compile(rb'"role": ?"tool"|"type": ?"tool_result"')
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STREAMED = re.compile(rb'"stream": ?true')


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the request's mark asks for; ``done`` calls were answered already."""

    calls: int = 0
    done: int = 0
    text: str = SENTENCE
    name: str = ""
    arguments: str = ""
    deltas: int = 1

    def arguments_of(self, call: int) -> str:
        """Return the arguments of one of the calls."""
        return self.arguments.replace("%d", str(self.done + call))


def wanted(body: bytes) -> Wanted:
    """Return what this request shall be answered with."""
    marks = list(_MARK.finditer(body))
    if b"You condense a conversation" in body[:100_000]:
        return Wanted(text=SUMMARY)
    if not marks:
        return Wanted()
    last = marks[-1]
    text = last[1].decode().replace('\\"', '"')
    options = dict(part.split("=", 1) for part in text.split() if "=" in part)
    done = len(_RESULT.findall(body, body.find(last[0])))  # some repeat the question after the results
    calls = min(int(options.get("width", "1")), int(options.get("tools", "0")) - done)
    return Wanted(
        calls=max(0, calls),
        done=done,
        name=options.get("name", "list_dir"),
        arguments=options.get("args", '{"path":"d%d"}'),
        deltas=int(options.get("deltas", "1")),
    )


def answer(path: bytes, body: bytes) -> bytes:
    """Return the whole HTTP response."""
    want = wanted(body)
    streamed = _STREAMED.search(body) is not None
    anthropic = path.endswith(b"/messages")
    if not streamed:
        return _response(json.dumps(_anthropic(want) if anthropic else _openai(want)).encode(), b"application/json")
    events = _anthropic_events(want) if anthropic else _openai_events(want)
    return _response(events, b"text/event-stream")


def _response(body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind, len(body), body)


_OPENAI_HEAD = {"id": "c1", "created": 1, "model": "bench"}
_OPENAI_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _openai_calls(want: Wanted) -> list[dict[str, object]]:
    return [
        {
            "index": i,
            "id": f"call_{want.done + i}",
            "type": "function",
            "function": {"name": want.name, "arguments": want.arguments_of(i)},
        }
        for i in range(want.calls)
    ]


def _openai(want: Wanted) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": None if want.calls else want.text}
    if want.calls:
        message["tool_calls"] = _openai_calls(want)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if want.calls else "stop"}
    return {**_OPENAI_HEAD, "object": "chat.completion", "choices": [choice], "usage": _OPENAI_USAGE}


def _openai_events(want: Wanted) -> bytes:
    def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**_OPENAI_HEAD, "object": "chat.completion.chunk", "choices": [choice]})

    if want.calls:
        said = chunk({"role": "assistant", "content": None, "tool_calls": _openai_calls(want)})
    else:
        said = chunk({"role": "assistant", "content": want.text}) + chunk({"content": "word "}) * (want.deltas - 1)
    nothing: list[object] = []
    usage = {**_OPENAI_HEAD, "object": "chat.completion.chunk", "choices": nothing, "usage": _OPENAI_USAGE}
    return said + chunk({}, "tool_calls" if want.calls else "stop") + _data(usage) + b"data: [DONE]\n\n"


def _anthropic_blocks(want: Wanted) -> list[dict[str, object]]:
    if not want.calls:
        return [{"type": "text", "text": want.text}]
    return [
        {
            "type": "tool_use",
            "id": f"toolu_{want.done + i}",
            "name": want.name,
            "input": json.loads(want.arguments_of(i)),
        }
        for i in range(want.calls)
    ]


def _anthropic(want: Wanted) -> dict[str, object]:
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": _anthropic_blocks(want),
        "stop_reason": "tool_use" if want.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def _anthropic_events(want: Wanted) -> bytes:
    whole = _anthropic(want)
    out = [_event("message_start", message={**whole, "content": [], "stop_reason": None})]
    for index, block in enumerate(_anthropic_blocks(want)):
        start: dict[str, object] = {"type": "text", "text": ""}
        first, more = {"type": "text_delta", "text": want.text}, b""
        if block["type"] == "text":
            more = _event("content_block_delta", index=index, delta={"type": "text_delta", "text": "word "})
        else:
            start = {**block, "input": {}}
            first = {"type": "input_json_delta", "partial_json": want.arguments_of(index)}
        out += [
            _event("content_block_start", index=index, content_block=start),
            _event("content_block_delta", index=index, delta=first),
            more * (want.deltas - 1),
            _event("content_block_stop", index=index),
        ]
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    out += [_event("message_delta", delta=stop, usage={"output_tokens": 10}), _event("message_stop")]
    return b"".join(out)


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})


def _data(value: object) -> bytes:
    return b"data: %s\n\n" % json.dumps(value).encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection: requests in, canned responses out."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to write."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self._buffer += data
        while (request := self._next()) is not None and self._transport is not None:
            self._transport.write(answer(*request))

    def _next(self) -> tuple[bytes, bytes] | None:
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return None
        head = bytes(self._buffer[:head_end])
        found = _LENGTH.search(head)
        end = head_end + 4 + (int(found[1]) if found else 0)
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[head_end + 4 : end])
        del self._buffer[:end]
        return head.split(b" ", 2)[1].partition(b"?")[0], body


async def main() -> None:
    """Serve until TERM."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


if __name__ == "__main__":
    asyncio.run(main())
