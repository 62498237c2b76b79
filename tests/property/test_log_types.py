"""A log whose fields are of the wrong kind: each such line is set aside or read, and never the end of the conversation."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from nanobot.session.codec import BadLine, from_line
from nanobot.session.entries import Header
from nanobot.session.log import SessionLog

KEY = "telegram:42"
ROUTE = {"channel": "telegram", "chat": "42"}
AT = "2026-11-30T12:00:00+00:00"
PATTERN = {"tool": "exec", "kind": "words", "value": "ls"}
CALL = {"id": "e2.0", "name": "read_file", "arguments": {"path": "notes.md"}}
CARRY = {
    "seen": ["a"],
    "turns": 3,
    "settings": {"model": "x/y", "allowed": [PATTERN]},
    "usage": {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 3},
    "cuts": {"microcompact": "e3"},
    "marks": {"untrusted": {"a page": 1}, "secrets": {}},
}
LINES: list[dict[str, Any]] = [
    {
        "type": "inbound",
        "id": "telegram:42:5",
        "at": AT,
        "sender": "42",
        "role": "owner",
        "route": ROUTE,
        "content": "hi",
    },
    {
        "type": "started",
        "id": "e1",
        "turn": "t1",
        "inbound": ["telegram:42:5"],
        "role": "owner",
        "route": ROUTE,
        "at": AT,
    }
    | {"message": {"role": "user", "content": "hi"}, "sender": "42", "origins": ["a page"], "secret": "a key"},
    {"type": "message", "id": "e2", "turn": "t1", "finish": "tool_calls", "usage": {"input_tokens": 5}}
    | {"message": {"role": "assistant", "content": "", "tool_calls": [CALL]}},
    {"type": "intent", "id": "e3", "turn": "t1", "call": "e2.0", "effect": "opaque", "before": {"a": 1}},
    {
        "type": "question",
        "id": "e4",
        "turn": "t1",
        "call": "e2.0",
        "tool": "exec",
        "expires_at": AT,
        "pattern": PATTERN,
    },
    {"type": "answer", "id": "e5", "question": "e4", "by": "42", "decision": "always"},
    {"type": "message", "id": "e6", "turn": "t1", "duration_ms": 1.5}
    | {"message": {"role": "tool", "tool_call_id": "e2.0", "name": "read_file", "content": "hi"}},
    {
        "type": "message",
        "id": "e7",
        "turn": "t1",
        "message": {"role": "assistant", "content": "It says"},
        "finish": "stop",
    },
    {"type": "finished", "id": "e8", "turn": "t1", "stop_reason": "completed", "iterations": 2, "answer": "e7"}
    | {"owed": [{"out": "o1", "route": ROUTE, "parts": [[0, 7]]}]},
    {"type": "delivery", "id": "e9", "out": "o1", "part": 0, "state": "sent", "ref": "777"},
    {"type": "cut", "id": "e10", "pass": "microcompact", "at": "e3", "why": "x", "floor": "e1", "carry": CARRY},
    {"type": "summary", "id": "e11", "text": "s", "covers_to": "e3", "keep_from": "e7", "floor": "e7", "carry": CARRY},
    {"type": "moved", "id": "e12", "from": "telegram:42", "to": "telegram:43"},
    {"type": "head", "id": "e13", "system": "ab", "tools": "cd", "model": "x/y", "sources": ["mcp a"]},
    {"type": "resumed", "id": "e14", "turn": "t1", "n": 1},
    {"type": "finished", "id": "e15", "stop_reason": "command", "content": "x", "inbound": ["q"]}
    | {"effect": {"type": "settings", "model": "a/b"}},
    {"type": "undo", "id": "e16", "target": "t1"},
    {"type": "reset", "id": "e17", "floor": "e17", "carry": CARRY},
]
ODD: list[Any] = [
    *(None, "abc", "", -1, 1.5, True, [], {}, [1], {"x": 1}, "e²", "t²", 10**30, "\ud800", [[0]], [["a", "b"]]),
    *({"a": {"b": [None]}}, "e" + "9" * 5_000, {"reasoning_tokens": 3, "new_in_a_later_version": 4}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a JSON value."""
    keys: list[Any] = [*value] if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]  # JSON
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def with_value(line: dict[str, Any], path: tuple[Any, ...], value: Any) -> bytes:
    """Return the line with another value at the path."""
    changed: Any = copy.deepcopy(line)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(changed).encode()


@pytest.mark.parametrize("at", range(len(LINES)), ids=lambda at: f"{at} {LINES[at]['type']}")
def test_a14_a_value_of_the_wrong_kind_costs_its_line_at_most(at: int) -> None:
    """Whatever stands in whatever field, the line is set aside or the fold takes it, and what it carries can be written again."""
    good = [from_line(json.dumps(line).encode(), key=KEY) for line in LINES]
    for path in places(LINES[at]):
        for value in ODD:
            try:
                odd = from_line(with_value(LINES[at], path, value), key=KEY)
            except BadLine:
                continue
            log = SessionLog(KEY)
            for entry in (*good[:at], odd, *good[at + 1 :]):
                if not isinstance(entry, Header):
                    log.apply(entry)
                json.dumps(
                    [log.carry(), log.model, list(log.allowed), log.settled(), log.floor(None), len(log.messages)]
                )


def test_what_a_later_version_carries_is_no_stumbling_block() -> None:
    """Fields may be added: a count that this version does not know is passed over, the others are taken."""
    carry = {**CARRY, "usage": {"input_tokens": 7, "new_in_a_later_version": 4}}
    entry = from_line(json.dumps({**LINES[10], "carry": carry}).encode(), key=KEY)
    log = SessionLog(KEY)
    assert not isinstance(entry, Header)
    log.apply(entry)

    assert (log.usage.input_tokens, log.usage.output_tokens, log.last_turn) == (7, 0, 3)
