"""Entries as lines, and back."""

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone

import pytest

from nanobot.bus.events import InboundMessage, Media, Route
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, ProviderExtra, ToolCall, ToolMessage, user_text
from nanobot.session.codec import BadLine, NewerVersion, from_line, to_line
from nanobot.session.entries import (
    Answer,
    Cut,
    Delivery,
    Entry,
    Finished,
    Head,
    Header,
    Intent,
    Moved,
    Owed,
    Question,
    Repaired,
    Reset,
    Resumed,
    Started,
    Step,
    Summary,
    Undo,
    Unknown,
)

KEY = "telegram:42"
ROUTE = Route("telegram", "42", topic="7", reply_to="9")
USAGE = Usage(input_tokens=3, output_tokens=2, cached_tokens=1)
CALL = ToolCall("e2.0", "read_file", {"path": "ü", "n": [1, None, 2.5]})

EVERY: Sequence[Entry | Header] = [
    Header(key=KEY, created_at=datetime(2026, 11, 30, 12, tzinfo=timezone(timedelta(hours=2)))),
    InboundMessage(
        id="i1",
        session_key=KEY,
        sender="42",
        text="a\u2028b\0🦀",
        at=datetime(2026, 11, 30, tzinfo=UTC),
        role="user",
        sender_name="Ann",
        route=ROUTE,
        media=(Media(kind="image", ref="r", size_bytes=0, sha256="ab"),),
    ),
    Started(id="e1", turn="t1", inbound=("i1",), message=user_text("hi", entry="e1"), route=ROUTE, at="2026"),
    Step(
        id="e2",
        turn="t1",
        message=AssistantMessage("x", (CALL,), ProviderExtra("p", "m", "{}"), cut_off=True, entry="e2"),
        finish="tool_calls",
        usage=USAGE,
        model="p/m",
        head="e0",
        duration_ms=1.5,
    ),
    Step(id="e3", turn="t1", message=ToolMessage("e2.0", "read_file", "no", is_error=True, entry="e3"), blob="ff"),
    Intent(id="e4", turn="t1", call="e2.0", effect="verifiable", before={"sha": None}, after={"sha": "x"}),
    Finished(
        id="e5",
        turn="t1",
        inbound=("i2",),
        stop_reason="user_stop",
        usage=USAGE,
        iterations=2,
        answer="e2",
        content="",
        error="why",
        closes=(ToolMessage("e2.1", "exec", "stopped", entry="e5"),),
        owed=(Owed(out="o1", route=ROUTE, parts=((0, 4), (4, 9))),),
        effect={"type": "reset"},
        floor="e5",
        carry={"seen": ["i1"]},
    ),
    Resumed(id="e6", turn="t1", n=2),
    Question(id="e7", turn="t1", call="e2.0", expires_at="2026"),
    Answer(id="e8", question="e7", by="42", decision="allow"),
    Delivery(id="e9", out="o1", part=0, state="sent", ref="777"),
    Head(id="e10", system="aa", tools="bb", model="p/m"),
    Cut(id="e11", pass_name="microcompact", at="e3", why="w", floor="e1", carry={}),
    Summary(id="e12", text="s", covers_to="e5", keep_from="e4", floor="e4", usage=USAGE),
    Reset(id="e13", floor="e13"),
    Undo(id="e14", target="t1"),
    Moved(id="e15", old="a", new="b"),
    Repaired(id="e16", lines=(1, 2), why="torn"),
    Unknown(id="e17", type="later", raw={"type": "later", "id": "e17", "x": [1]}),
]


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: type(entry).__name__)
def test_every_entry_comes_back_equal(entry: Entry | Header) -> None:
    """A line read back is the entry that was written, field by field."""
    line = to_line(entry)

    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert from_line(line, key=KEY) == entry


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: type(entry).__name__)
def test_fields_of_later_versions_are_passed_over(entry: Entry | Header) -> None:
    """A field that this version does not know changes nothing else."""
    raw = json.loads(to_line(entry)) | {"later": {"x": 1}}
    found = from_line(json.dumps(raw).encode(), key=KEY)

    if not isinstance(entry, Unknown):
        assert found == entry


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"[]",
        b"null",
        b"{}",
        b'{"type":"message"}',
        b'{"type":"message","id":1,"turn":"t","message":{}}',
        b'{"type":"message","id":"e1","turn":"t","message":[]}',
        b'{"type":"inbound","id":"x","sender":"s","at":"yesterday"}',
        b'{"type":"finished","id":"e1","owed":[{"out":"o"}]}',
        b'{"type":"session","version":"1","key":"k","created_at":"2026-11-30"}',
        b'{"type":"repaired","id":"e1","lines":["x"]}',
        b"\xff\xfe{\x00}\x00",
        b'{"type":"resumed","id":"e1","turn":"t","n":true}',
        b"[" * 100_000,
        b'{"n":' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_entry_is_a_bad_line(line: bytes) -> None:
    """Whatever the bytes are, the answer is an entry or ``BadLine``, never another error."""
    with pytest.raises(BadLine):
        from_line(line, key=KEY)


def test_a_newer_header_is_told_apart() -> None:
    """A log of a later version is not damaged."""
    with pytest.raises(NewerVersion, match="written by a newer nanobot"):
        from_line(b'{"type":"session","version":2,"key":"k"}', key=KEY)


def test_a_lone_surrogate_does_not_stop_the_log() -> None:
    """Half of a character, as broken clients send it, is written as a question mark."""
    step = Step(id="e1", turn="t1", message=user_text("a\ud83d b"))

    assert b"a? b" in to_line(step)


def test_the_list_above_misses_no_type() -> None:
    """Every kind of entry is tried."""
    assert {type(entry) for entry in EVERY} == {Header, *Entry.__args__}
    assert all(fields(type(entry)) for entry in EVERY)
