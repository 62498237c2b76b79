"""Calls written as text."""

import pytest

from nanobot.providers.base import ToolCallRequest, ToolSpec
from nanobot.providers.inline_calls import calls_in, may_be_call

EXEC = ToolSpec(
    "exec", "run", {"type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}}}
)
LS = ToolCallRequest("exec", {"command": "ls"})


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "exec", "arguments": {"command": "ls"}}',
        ' \n{"name": "exec", "parameters": {"command": "ls"}}\n',
        '{"name": "exec", "arguments": "{\\"command\\": \\"ls\\"}"}',
        '{"type": "function", "function": {"name": "exec", "arguments": {"command": "ls"}}}',
        '```json\n{"name": "exec", "arguments": {"command": "ls"}}\n```',
        '[{"name": "exec", "arguments": {"command": "ls"}}]',
        '<tool_call>\n{"name": "exec", "arguments": {"command": "ls"}}\n</tool_call>',
        "<tool_call><function=exec><parameter=command>\nls\n</parameter></function></tool_call>",
        "<function=exec><parameter=command>ls</parameter></function>",
        '<function_calls>\n<invoke name="exec">\n<parameter name="command">ls</parameter>\n</invoke>\n</function_calls>',
        '<invoke name="exec"><parameter name="command">ls</parameter></invoke>',
    ],
)
def test_e23_a_text_that_is_a_call_becomes_one(text: str) -> None:
    """The formats that local models print are read, and never shown while they arrive."""
    assert calls_in(text, [EXEC]) == (LS,)
    assert all(may_be_call(text[:n]) for n in range(len(text)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Run ls",
        '{"name": "unknown", "arguments": {}}',
        '{"name": "exec"}',
        '{"name": "exec", "arguments": {"command": "ls"',
        'I will: {"name": "exec", "arguments": {"command": "ls"}}',
        '{"name": "exec", "arguments": {"command": "ls"}} as you wish',
        '<tool_call>{"name": "exec", "arguments": {"command": "ls"}}</tool_call> and more',
        '{"answer": 42}',
        '[{"name": "exec", "arguments": {}}, 5]',
    ],
)
def test_e23_any_other_text_stays_text(text: str) -> None:
    """Only a whole text of whole calls of known tools is taken: a quoted example is not run."""
    assert calls_in(text, [EXEC]) == ()


def test_several_calls_and_typed_parameters() -> None:
    """Parameters in markup are read as the tool's schema says."""
    text = "".join(
        f"<tool_call>\n<function=exec>\n<parameter=command>\n{c}\n</parameter>\n<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>\n"
        for c in ("1", "ls")
    )

    assert calls_in(text, [EXEC]) == (
        ToolCallRequest("exec", {"command": "1", "timeout": 5}),
        ToolCallRequest("exec", {"command": "ls", "timeout": 5}),
    )


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "<b>bold",
        "`code`",
        '{"answer": "a longer object that is clearly no call, as its key tells"',
        "[link](x)".ljust(70),
    ],
)
def test_other_text_is_not_held_back_for_long(text: str) -> None:
    """Ordinary answers stream from their first words."""
    assert not may_be_call(text)
