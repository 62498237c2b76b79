"""A rule that can never hold, because no tool has the argument that it names, is refused."""

from pathlib import Path

import pytest

from nanobot.agent.tools.settings import BUILTIN_TOOLS
from nanobot.config.loader import parse
from nanobot.config.rule_arguments import known_arguments
from nanobot.config.settings import build
from nanobot.errors import ConfigError

SERVERS = "  mcp: {servers: {github: {command: gh}}}\n"


def test_the_arguments_of_every_built_in_tool_are_known() -> None:
    """Those that are off by default included."""
    assert set(known_arguments()) == set(BUILTIN_TOOLS)


@pytest.mark.parametrize(
    ("tool", "argument", "said"),
    [
        (
            "exec",
            "comand",
            "'exec' does not have an argument of this name, so the rule would never hold for it; did you mean 'command'?",
        ),
        ("[write_file, exec]", "path", "'exec' does not have an argument of this name"),
        ("web_search", "url", "'web_search' does not have"),
        (
            "'*_file'",
            "paht",
            "no tool like '*_file' has an argument of this name, so the rule would never hold for it; did you mean 'path'?",
        ),
        ("'*'", "zzzzzz", "no tool like '*' has an argument of this name"),
    ],
)
def test_an_argument_that_no_tool_has_is_refused(tool: str, argument: str, said: str) -> None:
    """With file, line, rule and the closest name: a deny that never holds would be found out too late."""
    with pytest.raises(ConfigError) as caught:
        build(parse(_config(tool, argument), Path("/etc/c.yaml"), {}), {"HOME": "/h"})

    assert str(caught.value).startswith(f"/etc/c.yaml:3: tools.rules[0].argument.{argument}: {said}")


@pytest.mark.parametrize(
    ("tool", "argument", "more"),
    [
        ("exec", "command", ""),
        ("'*_file'", "content", ""),  # write_file has it
        ("'*'", "url", ""),
        ("'*'", "repo", SERVERS),
        ("'mcp_github_*'", "repo", SERVERS),
        ("mcp_github_push", "repo", SERVERS),
        ("weather", "town", ""),
    ],
)
def test_an_argument_that_a_tool_may_have_is_taken(tool: str, argument: str, more: str) -> None:
    """What servers and scripts bring is not known before they run."""
    made = build(parse(_config(tool, argument) + more, Path("/etc/c.yaml"), {}), {"HOME": "/h"}, own_tools=["weather"])

    assert argument in made.tools.rules[0].argument


def _config(tool: str, argument: str) -> str:
    return f"tools:\n  rules:\n    - {{tool: {tool}, argument: {{{argument}: x}}, action: deny}}\n"
