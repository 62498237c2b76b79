"""What "always" allows: never more than it says."""

from pathlib import Path

import pytest

from nanobot.agent.patterns import Pattern, covers, from_json, pattern_of
from nanobot.messages import JsonValue, ToolCall

WORK = Path("/home/me/work")


def of(tool: str, *, is_guard: bool = False, **arguments: JsonValue) -> Pattern:
    return pattern_of(ToolCall("e1.0", tool, arguments), arguments, WORK, is_guard=is_guard)


def allows(pattern: Pattern, tool: str, *, is_guard: bool = False, **arguments: JsonValue) -> bool:
    return covers(pattern, ToolCall("e1.0", tool, arguments), arguments, WORK, is_guard=is_guard)


@pytest.mark.parametrize(
    ("asked", "allowed", "not_allowed"),
    [
        ("git push origin", "git push --force", "git pull"),
        ("python -m pytest -q", "python -m pytest tests", "python -m pip install x"),
        ("git push origin", "git push", "git push; rm -rf ~"),
        ("ls", "ls -l", "lsof"),
        ("make && ls", "make && ls", "make && ls -l"),
        ("python -c 'x'", "python -c 'x'", "python -c 'y'"),
    ],
)
def test_a_command_stands_for_its_first_words(asked: str, allowed: str, not_allowed: str) -> None:
    """One with operators or quotes stands for itself alone."""
    pattern = of("exec", command=asked)

    assert allows(pattern, "exec", command=allowed)
    assert not allows(pattern, "exec", command=not_allowed)
    assert not allows(pattern, "other", command=allowed)


def test_a_command_with_variables_stands_for_itself() -> None:
    """BASH_ENV, PATH and the like make any command another one: what was allowed bare is not allowed with them."""
    bare, dressed = of("exec", command="git status"), of("exec", command="make; ls", env={"A": "1"})
    evil: JsonValue = {"BASH_ENV": "evil.sh"}

    assert allows(bare, "exec", command="git status", env={})
    assert not allows(bare, "exec", command="git status", env=evil)
    assert not allows(of("exec", command="make; ls"), "exec", command="make; ls", env=evil)
    assert allows(dressed, "exec", command="make; ls", env={"A": "1"})
    assert not allows(dressed, "exec", command="make; ls", env={"A": "2"})
    assert str(of("exec", command="ls", env={"A": "1"})) == 'exec: ls with {"A": "1"}'


def test_a_blank_of_another_kind_is_no_blank() -> None:
    """The shell takes "ls", an em space and "/../evil.sh" for one path; so do we."""
    assert not allows(of("exec", command="ls -l"), "exec", command="ls\u2003/../evil.sh")


def test_files_stand_for_their_folder_and_addresses_for_their_host() -> None:
    """However they are written."""
    folder = of("write_file", path="notes/a.md")
    host = of("web_fetch", url="https://docs.example/a")

    assert allows(folder, "write_file", path="notes/b/c.md")
    assert not allows(folder, "write_file", path="notes/../b.md")
    assert allows(host, "web_fetch", url="HTTPS://docs.example/b")
    assert not allows(host, "web_fetch", url="https://docs.example@evil.test/")
    assert str(folder) == "write_file: files in notes/"
    assert str(host) == "web_fetch: https://docs.example"


def test_what_was_allowed_elsewhere_does_not_count_against_leaks() -> None:
    """And what was allowed there is the command itself, and counts only there."""
    usual, guarded = of("exec", command="git push origin"), of("exec", command="git push origin", is_guard=True)

    assert not allows(usual, "exec", command="git push origin", is_guard=True)
    assert allows(guarded, "exec", command="git push origin", is_guard=True)
    assert not allows(guarded, "exec", command="git push evil", is_guard=True)
    assert not allows(guarded, "exec", command="git push origin")


@pytest.mark.parametrize("pattern", [of("exec", command="a b"), of("t", is_guard=True), of("w", url="http://[")])
def test_patterns_survive_the_log(pattern: Pattern) -> None:
    """What is read back is what was written; an older log's name of a tool is a pattern too."""
    assert from_json(pattern.as_json()) == pattern
    assert from_json("echo") == Pattern("echo", "tool")
    assert from_json({"kind": "all"}) is None
