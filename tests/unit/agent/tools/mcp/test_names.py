"""Names of remote tools: what both wires accept, and the same after every restart."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.tools.mcp.names import label_of, server_label, tool_name

SERVERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}", fullmatch=True)


@given(SERVERS, st.text(max_size=300))
def test_every_name_is_accepted_by_both_wires(server: str, tool: str) -> None:
    """Whatever a server calls its tools, models can call them, and the server can be told from the name."""
    name = tool_name(server, tool)

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert server_label(name) == label_of(server)


@given(SERVERS, st.lists(st.text(max_size=80), unique=True, max_size=20))
def test_different_tools_get_different_names(server: str, tools: list[str]) -> None:
    """Cleaning a name makes no two tools one."""
    assert len({tool_name(server, tool) for tool in tools}) == len(tools)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [("time", "get_time", "mcp_time_get_time"), ("my_files", "read", "mcp_my-files_read")],
)
def test_a_plain_name_stays_as_it_is(server: str, tool: str, name: str) -> None:
    """What is fine is not touched, so that people and prompts can name it."""
    assert tool_name(server, tool) == name


def test_tools_of_ours_belong_to_no_server() -> None:
    """Only names of the family have a server in them."""
    assert server_label("read_file") == ""
