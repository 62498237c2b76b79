"""Reading YAML: lines, duplicate keys, variables, and errors that quote no value."""

import os
from pathlib import Path

import pytest

from nanobot.config.loader import Document, dotted, expand, parse, read
from nanobot.errors import ConfigError

FILE = Path("c.yaml")


def parsed(text: str, **environ: str) -> Document:
    return parse(text, FILE, environ)


def refusal(text: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text, **environ)
    return str(caught.value)


def test_values_keep_their_lines() -> None:
    """Each key and list item knows the line it stands on."""
    document = parsed("a: 1\n\nb:\n  c: [x,\n    y]\n")

    assert document.data == {"a": 1, "b": {"c": ["x", "y"]}}
    assert document.lines == {("a",): 1, ("b",): 3, ("b", "c"): 4, ("b", "c", 0): 4, ("b", "c", 1): 5}


def test_a_place_falls_back_to_the_nearest_line_above() -> None:
    """A key that is not in the file is reported on its parent's line."""
    document = parsed("a:\n  b: 1\n")

    assert document.place(("a", "missing")) == "c.yaml:1: a.missing"
    assert document.place(("nowhere",)) == "c.yaml: nowhere"
    assert Document().place(("a", 2, "b")) == dotted(("a", 2, "b")) == "a[2].b"


def test_a_key_that_stands_twice_is_refused() -> None:
    """The second of two equal keys is named, with the line of the first."""
    assert refusal("a:\n  k: 1\n  k: 2\n") == "c.yaml:3: a.k: this key stands here twice (first on line 2)"


def test_json_is_read_too() -> None:
    """JSON, indented with tabs and with escaped pairs, reads like YAML."""
    assert parsed('{\n\t"a": "\\ud83d\\ude00",\n\t"b": [1, true, null]\n}').data == {"a": "😀", "b": [1, True, None]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "one"),
        ("x${A}y${A}z", "xoneyonez"),
        ("${A:-two}", "one"),
        ("${NONE:-two}", "two"),
        ("${EMPTY:-two}", "two"),
        ("${EMPTY}", ""),
        ("${NONE:-}", ""),
        ("$${A}", "${A}"),
        ("$A costs $5", "$A costs $5"),
        ("${NONE:-http://h:1/}", "http://h:1/"),
    ],
)
def test_variables_expand(text: str, expected: str) -> None:
    """References are replaced, defaults count when a variable is unset or empty, and the escape stays text."""
    assert expand(text, {"A": "one", "EMPTY": ""}) == expected


def test_a_variable_value_is_not_expanded_again() -> None:
    """A secret that contains ``${`` is taken as it is."""
    assert expand("${A}", {"A": "${B}"}) == "${B}"


def test_an_unset_variable_is_refused_with_line_and_key() -> None:
    """Nobody runs with an empty key by accident."""
    text = refusal("providers:\n  a:\n    headers:\n      - ${NOT_SET}\n")

    assert text == (
        "c.yaml:4: providers.a.headers[0]: the environment variable NOT_SET is not set; set it, or write ${NOT_SET:-default}"
    )


@pytest.mark.parametrize("value", ["${", "${}", "${a-b}", "${A:-x", "'${1X}'"])
def test_a_broken_reference_is_refused(value: str) -> None:
    """A typing error in a reference is never passed on as text."""
    assert refusal(f"k: {value}\n", A="x").startswith("c.yaml:1: k: this ${ begins no ${NAME}")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: 1\nb: [s3cret\n", "c.yaml:3:1: not valid YAML"),
        ("a: *s3cret\n", "c.yaml:1:4: not valid YAML"),
        ("a:\n\tb: s3cret\n", "c.yaml:2:1: not valid YAML"),
        ("a: s3cret\n b: 1\n", "c.yaml:2:3: not valid YAML"),
        ("a: !s3cret x\n", "c.yaml:1: a: this value cannot be read"),
        ("a: 2026-99-99\n", "c.yaml:1: a: this value cannot be read"),
        ("a: 's3cret\x07'\n", "c.yaml:1: a character that YAML does not allow (0x0007)"),
        ("- s3cret\n", "c.yaml:1: expected keys with values"),
        ("s3cret\n", "c.yaml:1: expected keys with values"),
        ("[a, b]: 1\n", "c.yaml:1: a key must be plain text"),
        ("a: &x {b: *x}\n", "c.yaml:1:"),
        ("a: 1\n---\nb: s3cret\n", "c.yaml:2:1: not valid YAML"),
        ("[" * 5_000, "c.yaml: nested too deeply"),
    ],
)
def test_f01_what_is_not_yaml_is_refused_by_line_without_its_text(text: str, where: str) -> None:
    """A broken file stops the start, with the place, and quotes nothing of the line."""
    said = refusal(text)

    assert said.startswith(where)
    assert "s3cret" not in said
    assert "\n" not in said


def test_aliases_cannot_explode() -> None:
    """A small file cannot become gigabytes."""
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
    )

    assert "aliases" in refusal(bomb)


def test_an_alias_is_its_value() -> None:
    """Anchors work, also twice."""
    assert parsed("a: &x {k: 1}\nb: *x\nc: *x\n").data == {"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 1}}


def test_f14_a_byte_order_mark_and_emoji_are_read(tmp_path: Path) -> None:
    """Files from any editor are UTF-8, whatever the locale says."""
    file = tmp_path / "c.yaml"
    for text in ("\ufeffa: 😀é\n", '\ufeff{\n\t"a": "😀é"\n}'):
        file.write_bytes(text.encode())

        assert read(file, {}).data == {"a": "😀é"}


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    """Missing, a directory, another encoding, and something endless: each is one sentence."""
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: \xe9\n")
    endless = tmp_path / "endless.yaml"
    endless.touch()
    os.truncate(endless, 10**12)

    for path, expected in (
        (tmp_path / "none.yaml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (latin, "latin.yaml:2: not UTF-8"),
        (endless, "this is no configuration file"),
    ):
        with pytest.raises(ConfigError, match=expected):
            read(path, {})


def test_an_empty_file_is_an_empty_configuration() -> None:
    """Comments alone are fine."""
    assert parsed("# nothing\n").data == {}


def test_a_pipe_or_device_is_refused_at_once(tmp_path: Path) -> None:
    """Nothing waits for somebody to write."""
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="no regular file"):
            read(path, {})


def test_a_secret_as_a_key_is_not_shown() -> None:
    """A key that slipped to the wrong side of the colon stays out of the error; so do control characters."""
    secret = "sk-" + "a1" * 16

    assert refusal(f"{secret}: 1\n{secret}: 2") == "c.yaml:2: [redacted]: this key stands here twice (first on line 1)"
    assert dotted(("a", "b\x1b[31m\nc")) == "a.b\\x1b[31m\\nc"


@pytest.mark.parametrize("text", ["a: {b: ${NAME}}", "a: [${NAME}, b]"])
def test_a_variable_in_flow_style_is_told_to_want_quotes(text: str) -> None:
    """YAML reads its brace as one of its own there."""
    assert 'put variables in quotes: "${NAME}"' in refusal(text, NAME="x")
