"""What is asked when there is a message, piped input, or both."""

import pytest

from nanobot.cli.agent import compose
from nanobot.errors import MisuseError


@pytest.mark.parametrize(
    ("message", "piped", "expected"),
    [
        ("review", "", "review"),
        ("review", "diff\n", "review\n\ndiff"),
        (None, "only this\n", "only this"),
        ("", "  indented\n", "  indented"),
    ],
)
def test_message_and_pipe_are_joined(message: str | None, piped: str, expected: str) -> None:
    """The message comes first; what was piped is kept as it is, but for the last newline."""
    assert compose(message, piped) == expected


@pytest.mark.parametrize(("message", "piped"), [(None, ""), ("", ""), (" ", "\n\n")])
def test_nothing_to_ask_is_misuse(message: str | None, piped: str) -> None:
    """An empty question is refused with what to do, not sent to a model."""
    with pytest.raises(MisuseError, match="-m TEXT"):
        compose(message, piped)
