"""What the server shall answer: values that a test writes down.

A ``Reply`` says the same thing on both wires; ``oddities`` name the ways in which real servers say it badly.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Oddity = Literal[
    # Chat Completions, calls
    "missing_ids",  # no id at all
    "empty_ids",  # id ""
    "duplicate_ids",  # every call has the same id
    "no_index",  # each call whole in one delta, without an index
    "interleaved",  # deltas of parallel calls take turns
    "null_continuation",  # continuation deltas with id, type and name null
    "empty_continuation",  # the same with ""
    "repeat_id_name",  # continuation deltas repeat id and name
    "fragmented_names",  # the name comes in two pieces
    "empty_name_first",  # the first delta's name is "", the next one holds it
    "args_before_name",  # the first delta has arguments and no name
    "args_object",  # arguments are an object, not a string
    "broken_json",  # arguments are cut off
    "split_escapes",  # arguments as \uXXXX escapes, two characters a delta
    "stop_with_calls",  # finish_reason "stop" beside tool calls
    # Chat Completions, text and usage
    "null_content",  # content null, in the message and in the first delta
    "think_tags",  # reasoning as <think>...</think> in the text, three characters a delta
    "reasoning_field",  # reasoning in ``reasoning`` instead of ``reasoning_content``
    "usage_in_finish",  # usage beside the finish reason, no chunk of its own
    "usage_every_chunk",  # usage in every chunk
    "null_choices",  # choices null
    "empty_choices",  # choices []
    # Messages
    "redacted_thinking",  # a redacted block after the thinking
    "empty_thinking",  # thinking "" with a signature
    "pings",  # ping events between the others
    "input_in_start",  # the whole input in content_block_start, no deltas
    # both
    "no_done",  # the last event ([DONE], message_stop) is missing
]

Hang = Literal["accept", "headers", "after_delta"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call.  ``arguments`` as text goes out as it is; ``extra`` is the vendor's ``extra_content`` beside the call."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str = ""  # "": the server makes one
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Usage as reported.  ``prompt`` counts all of the prompt, ``cached`` and ``written`` are parts of it."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, good or bad.

    Args:
        finish: ``stop``, ``tool_calls``, ``length``, ``refusal`` in either wire's words; any other text goes out as it is.
        usage: ``auto`` counts and meters the cache; None leaves usage out.
        deltas: into how many pieces each text, reasoning and argument is cut (None: three).
        status: not 200: an error, with ``error`` as the whole body or the vendor's own for that status.
        error: a body; with status 200 it is sent as an error that calls itself a success.
        hang: say nothing more, ever: at once, after the headers, or after ``after`` deltas.
        gate: is waited for before anything is sent (but see ``keepalive_every_s``).
        delay_s: pause before each delta; None sends everything in one write, 0 in separate ones.
        after: how many deltas come before ``hang="after_delta"``, ``stream_error`` and ``end_early`` (None there: all).
        break_after: cut the socket after this many events (after half the body, when not streamed).
        end_early: end the body properly, without finish and last event.
        stream_error: sent inside the stream, which then ends properly.
        keepalive_every_s: comments (or pings) while waiting, also during ``gate`` and ``hang``; headers go first then.
        raw_events: bytes sent as they are instead of events.
        raw_body: bytes sent as they are as the whole body.
        chop: bytes go out in separate writes of this size, through the middle of characters and lines.
    """

    text: str = ""
    tool_calls: Sequence[Call] = ()
    reasoning: str = ""
    finish: str | None = None
    usage: Tokens | Literal["auto"] | None = "auto"
    deltas: int | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    error: Mapping[str, Any] | None = None
    hang: Hang | None = None
    gate: asyncio.Event | None = None
    delay_s: float | None = None
    after: int | None = None
    break_after: int | None = None
    end_early: bool = False
    stream_error: Mapping[str, Any] | None = None
    keepalive_every_s: float | None = None
    raw_events: Sequence[bytes] | None = None
    raw_body: bytes | None = None
    chop: int | None = None
    oddities: Collection[Oddity] = ()


def pieces(text: str, count: int | None) -> list[str]:
    """Return ``text`` cut into at most ``count`` (None: three) pieces of about the same length, none empty."""
    count = max(1, min(3 if count is None else count, len(text)))
    size, rest = divmod(len(text), count)
    out: list[str] = []
    at = 0
    for index in range(count if text else 0):
        end = at + size + (index < rest)
        out.append(text[at:end])
        at = end
    return out
