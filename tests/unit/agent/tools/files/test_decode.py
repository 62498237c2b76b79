"""Bytes as text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.files.decode import Binary, Text, printable, sniff


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        ("é→".encode(), "utf-8"),
        ("é".encode("utf-8-sig"), "utf-8-sig"),
        ("hello".encode("utf-16"), "utf-16-le"),
        ("hello wörld".encode("utf-16-le"), "utf-16-le"),
        ("hello wörld".encode("utf-16-be"), "utf-16-be"),
        ("Stra\xdfe und Caf\xe9 im Fr\xfchling".encode("latin-1"), "latin-1"),
    ],
)
def test_h05_encodings_are_recognized(data: bytes, encoding: str) -> None:
    """By mark or by content."""
    found = sniff(data, complete=True)

    assert isinstance(found, Text)
    assert found.encoding == encoding


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "PNG image"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "WebP image"),
        (b"\x7fELF" + bytes(20), "ELF program or library"),
        (bytes(100), "binary data"),
        (bytes(range(256)) * 4, "binary data"),
    ],
)
def test_binary_is_named(data: bytes, kind: str) -> None:
    """The model is told what it is instead of seeing it."""
    assert sniff(data, complete=True) == Binary(kind)


def test_a_character_torn_by_the_sample_is_still_utf8() -> None:
    """The sample may end inside a character."""
    assert sniff("xé".encode()[:-1], complete=False) == Text("utf-8")


def test_terminal_control_is_taken_out_and_overwritten_lines_go() -> None:
    """What a person would see on a terminal is what the model gets."""
    raw = b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07 10%\r 50%\r100%\r\nnext\x08\x07\tline"

    assert printable(raw) == "100%\nnext\tline"


@given(st.one_of(st.binary(max_size=600), st.text(max_size=200).map(lambda t: t.encode("utf-16-le", "replace"))))
def test_h05_any_bytes_become_clean_text(data: bytes) -> None:
    """Whatever a command prints can be stored as JSON, with no NUL and no lone surrogate."""
    text = printable(data)

    assert json.loads(json.dumps(text).encode("utf-8")) == text
    assert text.encode("utf-8").decode("utf-8") == text
    assert "\0" not in text
    assert "\x1b" not in text


def test_text_separated_by_nuls_is_text() -> None:
    """What ``find -print0`` prints is shown line by line."""
    assert printable(b"./one name\0./two\0") == "./one name\n./two\n"


def test_backspaces_write_over() -> None:
    """A spinner and the bold of manual pages become what is seen."""
    assert printable(b"N\bNA\bAM\bME\bE") == "NAME"
    assert printable(b"|\b/\b-\bdone") == "done"
    assert printable(b"pass\b \b\b \bx") == "pax "
