"""What a configuration may say of servers, and which of its values are secrets."""

from typing import Any

import pytest
from pydantic import ValidationError

from nanobot.agent.tools.mcp.settings import McpServerSettings, McpSettings
from nanobot.config.secrets import secrets_in


def server(**values: Any) -> McpServerSettings:  # Any: as YAML has it
    return McpServerSettings.model_validate(values)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "give a command to run or a url"),
        ({"command": "x", "url": "http://h/mcp"}, "not both"),
        ({"command": "x", "headers": {"A": "b"}}, "headers and oauth belong to a url"),
        ({"url": "http://h/mcp", "env": {"A": "b"}}, "belong to a command"),
        ({"url": "ftp://h"}, "begins with http"),
        ({"command": "x", "effect": "verifiable"}, "cannot be verified"),
        ({"command": "x", "effect": {"a": "verifiable"}}, "cannot be verified"),
        ({"command": "x", "env": {"A B": "c"}}, "should match pattern"),
    ],
)
def test_what_cannot_work_is_refused(values: dict[str, Any], why: str) -> None:
    """The start is the time to say so."""
    with pytest.raises(ValidationError, match=why):
        server(**values)


@pytest.mark.parametrize("names", [["a b"], ["read"], ["x" * 32], ["my_files", "my-files"]])
def test_names_that_would_not_do_for_tools_are_refused(names: list[str]) -> None:
    """Every server can be told from the names of its tools."""
    with pytest.raises(ValidationError):
        McpSettings.model_validate({"servers": {name: {"command": "x"} for name in names}})


def test_effects_are_by_name_or_pattern() -> None:
    """The exact name wins, then the first pattern; without either nobody knows."""
    one = server(command="x", effect={"read_*": "pure", "read_once": "idempotent"})

    assert [one.effect_of(name) for name in ("read_a", "read_once", "write")] == ["pure", "idempotent", "opaque"]


def test_which_values_are_secrets() -> None:
    """Names decide for env and headers; keys in arguments and addresses are found, and ordinary words are not."""
    program = server(
        command="x",
        args=["--api-key", "arg-secret-1", "--token=arg-secret-2", "--mode", "production"],
        env={"GITHUB_TOKEN": "env-secret-1", "NODE_ENV": "production", "DB_PASSWORD": "env-secret-2"},
    )
    remote = server(
        url="https://me:url-secret-1@h/mcp?apiKey=url-secret-2&page=2",
        headers={"Authorization": "Bearer head-secret-1", "Accept-Language": "german"},
        oauth={"client_id": "public", "client_secret": "oauth-secret-1"},
    )
    settings = McpSettings(servers={"a": program, "b": remote})

    assert set(secrets_in(settings)) == {
        *("arg-secret-1", "arg-secret-2", "env-secret-1", "env-secret-2", "url-secret-1", "url-secret-2"),
        *("Bearer head-secret-1", "head-secret-1", "oauth-secret-1"),
    }
    assert "secret" not in repr(program).replace("arg-secret", "")
