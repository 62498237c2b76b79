"""The built-in tools as a whole."""

import pytest
from pydantic import ValidationError

from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.settings import BUILTIN_TOOLS, ExecSettings, ToolSettings
from nanobot.errors import ConfigError

SHELL = ["exec", "exec_input", "exec_kill", "exec_output", "exec_status"]
ALL = [
    "apply_patch",
    "edit_file",
    *SHELL,
    "glob",
    "grep",
    "list_dir",
    "read_file",
    "read_result",
    "send_file",
    "web_fetch",
    "write_file",
]
ON_WISH = {"web_search"}


def names(settings: ToolSettings) -> list[str]:
    """Return the names of the tools that these settings give."""
    return sorted(tool.name for tool in builtin_tools(settings, environ={}))


def test_settings_choose_the_tools() -> None:
    """All by default, without those that are turned off."""
    assert names(ToolSettings()) == ALL == [name for name in BUILTIN_TOOLS if name not in ON_WISH]
    assert names(ToolSettings(disabled=("grep",), exec=ExecSettings(enabled=False))) == [
        name for name in ALL if name not in ("grep", *SHELL)
    ]


def test_a_tool_that_does_not_exist_cannot_be_disabled() -> None:
    """A typo must not leave a tool on; one that is off anyway may be named."""
    assert names(ToolSettings(disabled=("web_search",))) == ALL

    with pytest.raises(ConfigError, match=r"tools.disabled names 'exce'"):
        names(ToolSettings(disabled=("exce",)))


def test_unknown_settings_are_refused() -> None:
    """Nothing falls back to a default silently."""
    with pytest.raises(ValidationError, match="restrict_to_workspce"):
        ToolSettings.model_validate({"restrict_to_workspce": False})
