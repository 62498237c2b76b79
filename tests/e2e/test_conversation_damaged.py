"""Logs that other hands wrote or damaged: the next request is legal on both wires, and nothing but the damage is lost."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nanobot.session.files import Layout
from tests.e2e.bots import KEY, WIRES, Wire, bot_on
from tests.fakes.llm_server import LLMServer, Reply

Line = dict[str, Any]  # Any: JSON


def user(number: int, content: Any, *, turn: str = "") -> Line:  # Any: also what no writer of ours would write
    """Return a Turn's beginning."""
    turn = turn or f"t{number}"
    message = {"role": "user", "content": content}
    return {"type": "started", "id": f"e{number}", "turn": turn, "inbound": [], "role": "owner", "message": message}


def step(number: int, turn: str, **message: Any) -> Line:
    """Return a message within a Turn."""
    line = {"type": "message", "id": f"e{number}", "turn": turn, "message": message}
    return line | ({"finish": "stop"} if message["role"] == "assistant" else {})


def asks(number: int, turn: str, *calls: tuple[str, str], content: Any = "", **more: Any) -> Line:
    """Return an answer that asks for ``read_file``, each call given as (id, path)."""
    rows = [{"id": one, "name": "read_file", "arguments": {"path": path}} for one, path in calls]
    return step(number, turn, role="assistant", content=content, tool_calls=rows, **more)


def said(number: int, turn: str, content: Any) -> Line:
    """Return an answer of text."""
    return step(number, turn, role="assistant", content=content)


def result(number: int, turn: str, call: str, content: Any) -> Line:
    """Return a tool result."""
    return step(number, turn, role="tool", tool_call_id=call, name="read_file", content=content)


def finished(number: int, turn: str, **more: Any) -> Line:
    """Return a Turn's end."""
    return {"type": "finished", "id": f"e{number}", "turn": turn, "stop_reason": "completed", **more}


@dataclass(frozen=True)
class Damage:
    """A log, the texts that must reach the model all the same, and those that cannot."""

    lines: list[Line]
    kept: list[str]
    lost: list[str] = field(default_factory=list[str])


CALL_AND_RESULT = [user(1, "q-one"), asks(2, "t1", ("t1", "a")), result(3, "t1", "t1", "r-one")]
SCROLL = [
    line
    for n in range(0, 60, 3)
    for line in (user(100 + n, f"q-{n};"), said(101 + n, f"t{100 + n}", f"a-{n};"), finished(102 + n, f"t{100 + n}"))
]
SCROLLED = [text for n in range(0, 60, 3) for text in (f"q-{n};", f"a-{n};")]

CASES: dict[str, Damage] = {
    "a01_the_same_call_id_twice_in_one_answer": Damage(
        [
            user(1, "q-one"),
            asks(2, "t1", ("t1", "a"), ("t1", "a")),
            result(3, "t1", "t1", "r-one"),
            finished(4, "t1"),
            user(5, "q-two"),
            said(6, "t5", "a-two"),
            finished(7, "t5"),
        ],
        ["q-one", "r-one", "q-two", "a-two"],
    ),
    "a02_two_different_calls_and_results_with_one_id": Damage(
        [
            user(1, "q-one"),
            asks(2, "t1", ("same", "path-a"), ("same", "path-b")),
            result(3, "t1", "same", "r-one"),
            result(4, "t1", "same", "r-two"),
            said(5, "t1", "a-one"),
            finished(6, "t1"),
        ],
        ["q-one", "path-a", "r-one", "a-one"],
    ),
    "a02_one_id_in_two_answers": Damage(
        [
            *CALL_AND_RESULT,
            asks(4, "t1", ("t1", "b")),
            result(5, "t1", "t1", "r-two"),
            said(6, "t1", "a-one"),
            finished(7, "t1"),
        ],
        ["q-one", "r-one", "r-two", "a-one"],
    ),
    "a04_results_whose_calls_were_never_written": Damage(
        [
            user(1, "q-one"),
            user(2, "q-two"),
            result(3, "t2", "c1", "r-lost"),
            said(4, "t2", "a-two"),
            finished(5, "t2"),
        ],
        ["q-one", "q-two", "a-two"],
        ["r-lost"],
    ),
    "a05_an_orphan_result_at_the_end": Damage(
        [*CALL_AND_RESULT, finished(4, "t1"), user(5, "q-two"), result(6, "t5", "B", "r-lost"), finished(7, "t5")],
        ["q-one", "r-one", "q-two"],
        ["r-lost"],
    ),
    "a07_user_rows_side_by_side": Damage(
        [
            user(1, "q-one"),
            finished(2, "t1"),
            user(3, ["q-two", {"type": "text", "text": "q-three"}]),
            finished(4, "t3"),
        ],
        ["q-one", "q-two", "q-three"],
    ),
    "a08_assistant_rows_side_by_side_at_the_end": Damage(
        [user(1, "q-one"), said(2, "t1", "a-one"), said(3, "t1", "a-two"), said(4, "t1", "a-three"), finished(5, "t1")],
        ["q-one", "a-one", "a-two", "a-three"],
    ),
    "a08_a_log_that_begins_with_an_answer": Damage(
        [
            said(1, "t1", "a-one"),
            asks(2, "t1", ("x", "a")),
            result(3, "t1", "x", "r-one"),
            user(4, "q-two"),
            finished(5, "t4"),
        ],
        ["a-one", "r-one", "q-two"],
    ),
    "a20_a_call_whose_result_was_never_written": Damage(
        [
            user(1, "q-one"),
            asks(2, "t1", ("t1", "path-a")),
            user(3, "q-two"),
            said(4, "t3", "a-two"),
            finished(5, "t3"),
        ],
        ["q-one", "path-a", "outcome unknown", "q-two", "a-two"],
    ),
    "a20_a_result_that_came_too_late": Damage(
        [
            user(1, "q-one"),
            asks(2, "t1", ("t1", "path-a")),
            user(3, "q-two"),
            result(4, "t3", "t1", "r-late"),
            said(5, "t3", "a-two"),
            finished(6, "t3"),
        ],
        ["q-one", "path-a", "q-two", "a-two"],
    ),
    "e01_null_and_blank_answers": Damage(
        [user(1, "q-one"), said(2, "t1", None), said(3, "t1", "  "), said(4, "t1", ""), finished(5, "t1")], ["q-one"]
    ),
    "e10_reasoning_that_is_empty_or_not_ours": Damage(
        [
            *SCROLL[:30],
            user(1, "q-one"),
            asks(2, "t1", ("c", "a"), reasoning_content="", extra={"provider": "openai", "model": "x", "data": ""}),
            result(3, "t1", "c", "r-one"),
            asks(4, "t1", ("d", "a"), extra={"provider": "anthropic", "model": "test-model", "data": "{not json"}),
            result(5, "t1", "d", "r-two"),
            asks(6, "t1", ("e", "a"), extra="oops"),
            result(7, "t1", "e", "r-three"),
            finished(8, "t1"),
            *SCROLL[30:],
        ],
        [*SCROLLED, "q-one", "r-one", "r-two", "r-three"],
    ),
    "e25_content_that_is_no_text": Damage(
        [
            user(
                1,
                [
                    {"type": "text", "text": "q-one"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            ),
            said(2, "t1", [{"type": "text", "text": "a-one"}, {"type": "strange", "x": 1}]),
            finished(3, "t1"),
            user(4, {"text": "q-two"}),
            asks(5, "t4", ("c", "a"), content={"content": "a-two"}),
            result(6, "t4", "c", {"content": [{"text": "r-two"}]}),
            said(7, "t4", 42),
            finished(8, "t4"),
        ],
        ["q-one", "a-one", "q-two", "a-two", "r-two", "42"],
    ),
    "calls_that_are_no_calls": Damage(
        [
            user(1, "q-one"),
            step(
                2,
                "t1",
                role="assistant",
                content="a-one",
                tool_calls=[None, {"id": None}, {"function": {"name": "", "arguments": None}}],
            ),
            step(
                3,
                "t1",
                role="assistant",
                content="a-two",
                tool_calls=[{"id": "x", "name": "has space!", "arguments": "{cut"}],
            ),
            finished(4, "t1"),
        ],
        ["q-one", "a-one", "a-two"],
    ),
    "a10_a_cut_beyond_the_end": Damage(
        [*SCROLL, {"type": "cut", "id": "e300", "pass": "microcompact", "at": "e5000"}], SCROLLED
    ),
    "a10_a_cut_at_nothing": Damage(
        [
            *SCROLL,
            *({"type": "cut", "id": f"e30{i}", "pass": "snip", "at": at} for i, at in enumerate(["abc", "", "e-5"])),
        ],
        SCROLLED,
    ),
    "lines_that_are_no_entries": Damage(
        [
            *SCROLL[:15],
            {"type": "message", "id": 7, "turn": "t1", "message": {"role": "wizard", "content": "x"}},
            {"no": "type"},
            {"type": "of a later version", "id": "e250", "anything": [1]},
            {"type": "finished"},
            {
                "type": "started",
                "id": "e251",
                "turn": "t251",
                "inbound": [],
                "message": {"role": "tool", "content": "x"},
            },
            *SCROLL[15:],
        ],
        SCROLLED,
    ),
}


def write_log(home: Path, lines: list[Line]) -> None:
    """Write a log by hand."""
    at = Layout(home / "data")
    at.sessions.mkdir(parents=True)
    header = {"type": "session", "version": 1, "key": KEY, "created_at": "2026-11-30T12:00:00+00:00"}
    at.log(KEY).write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wire", WIRES)
async def test_damaged_logs_go_on(wire: Wire, case: str, tmp_path: Path) -> None:
    """The next request is legal although the log is not, holds all that was said, and ends with the new message."""
    damage = CASES[case]
    write_log(tmp_path, damage.lines)
    async with LLMServer([Reply("Going on."), Reply("And on.")], strict_roles=True, strict_thinking=True) as server:
        for text in ("next", "and then"):
            async with bot_on(server, wire, tmp_path) as bot:
                answer = await bot.process_direct(text, session_key=KEY)
            assert (answer.error, answer.stop_reason) == (None, "completed")

        assert server.refusals == []
        for request in server.chats:
            sent = request.raw.decode()
            assert [text for text in damage.kept if text not in sent] == []
            assert [text for text in damage.lost if text in sent] == []
        assert "next" in server.chats[1].raw.decode()
