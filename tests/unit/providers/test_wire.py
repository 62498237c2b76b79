"""Ids, text and arguments on the way to a wire and back."""

import json
import re

import pytest

from nanobot.providers.wire import clean, dump, parse_arguments, sendable_arguments, wire_call_id, wire_tool_name


def test_call_ids_differ_and_fit_every_vendor() -> None:
    """Ids that differ inside differ on the wire, and each is nine letters and digits."""
    ours = [f"e{entry}.{index}" for entry in range(300) for index in range(12)]
    foreign = ["", "x.0", "toolu_01", "call-ü", "e01.0", "e1.00", "e1.0 ", f"e{62**6}.0", f"e1.{62**2}", "e²1.0"]

    wire = [wire_call_id(call_id) for call_id in ours + foreign]

    assert len(set(wire)) == len(wire)
    assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", one) for one in wire)


def test_a_made_up_tool_name_becomes_legal() -> None:
    """A recorded call with a name no vendor takes does not poison the requests after it."""
    assert wire_tool_name("read file!") == "read_file_"
    assert wire_tool_name("") == "unnamed"
    assert len(wire_tool_name("x" * 200)) == 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 😀", "plain é 😀"),
        ("nul \0 here", "nul \ufffd here"),
        ("lone \ud83d here", "lone \ufffd here"),
        ("pair \ud83d\ude00", "pair 😀"),
    ],
)
def test_clean_text(text: str, expected: str) -> None:
    """Text that vendors refuse is replaced, all other text stays as it is."""
    assert clean(text) == expected


def test_lone_surrogates_nuls_and_nan_never_reach_a_body() -> None:
    """Whatever a value holds, its encoding is UTF-8 and JSON; an escaped backslash before u0000 is no NUL."""
    encoded = dump({"a\ud800": ["\0", float("nan"), float("inf"), 10**30], "b": "\\u0000"})

    assert json.loads(encoded) == {"a\ufffd": ["\ufffd", None, None, 10**30], "b": "\\u0000"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ('{"a": "line\nend"}', {"a": "line\nend"}),
        ('{"a": "\\ud83d\\ude00\\ud800"}', {"a": "😀\ufffd"}),
        ('{"command": "rm -rf /tmp/a', '{"command": "rm -rf /tmp/a'),
        ('{"pattern": "\\d+"}', '{"pattern": "\\d+"}'),
        ("[1]", "[1]"),
        ("null", "null"),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1} tail', '{"a": 1} tail'),
        ('{"a":' * 100_000, '{"a":' * 100_000),
    ],
)
def test_e04_broken_arguments_stay_text(text: str, expected: object) -> None:
    """Arguments are parsed or kept as written: never emptied, never shortened."""
    assert parse_arguments(text) == expected


def test_e04_broken_arguments_go_back_as_a_legal_object() -> None:
    """The model sees what it wrote, inside an object that every vendor accepts."""
    assert sendable_arguments('{"a": ') == {"_unparsed": '{"a": '}
    assert sendable_arguments({"a": 1}) == {"a": 1}
