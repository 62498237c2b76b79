"""What is said where no sandbox works, and the question before each command."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from nanobot.agent.bare import bare_context
from nanobot.agent.gates import Allow, Ask
from nanobot.agent.tools.sandbox.advice import advice, concern
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.sandbox.state import Kind, State
from nanobot.agent.tools.shell.exec import ExecArguments
from nanobot.agent.unsandboxed import AskUnsandboxed
from nanobot.messages import ToolCall

NONE = State("none", ("/usr/bin/bwrap: setting up uid map: Permission denied", "Landlock: not supported"))


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        (
            {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"/proc/sys/kernel/unprivileged_userns_clone": "0"}, "kernel.unprivileged_userns_clone=1"),
        ({"/proc/sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces=15000"),
        ({"/proc/sys/user/max_user_namespaces": "63000"}, "docs/sandbox.md"),
    ],
)
def test_the_setting_that_forbids_it_is_named(settings: dict[str, str], fix: str) -> None:
    """The owner gets a line to paste, not a riddle."""
    assert fix in advice(NONE, read=settings.get, exists=lambda path: False)


def test_a_container_and_a_missing_program_are_told_apart() -> None:
    """In a container the container has to be started differently; without bubblewrap it has to be installed."""
    nothing: dict[str, str] = {}

    assert "In Docker" in advice(NONE, read=nothing.get, exists=lambda path: path == "/.dockerenv")
    missing = State("none", ("bubblewrap is not installed",))
    assert "pip install" in advice(missing, read=nothing.get, exists=lambda path: False)


def test_only_what_is_missing_is_a_concern() -> None:
    """Who has a sandbox, or turned it off, is not bothered."""
    assert "each command is asked for" in concern(NONE)
    assert [concern(State(kind)) for kind in ("bwrap", "landlock", "off")] == ["", "", ""]


@dataclass
class Standing:
    """A sandbox in a given state."""

    kind: Kind
    asked: list[Path] = field(default_factory=list[Path])

    def state(self, workspace: Path) -> State:
        """Return it."""
        self.asked.append(workspace)
        return State(self.kind, NONE.why if self.kind == "none" else ())


@pytest.mark.parametrize("kind", ["bwrap", "landlock", "off"])
async def test_commands_that_are_kept_in_are_not_asked_for(kind: Kind) -> None:
    """Nor are those of an owner who turned the sandbox off."""
    gate = AskUnsandboxed(cast("Sandbox", Standing(kind)))

    verdict = await gate.review(ToolCall("e1.0", "exec", {}), ExecArguments(command="ls"), bare_context())

    assert verdict == Allow()


async def test_without_a_sandbox_each_command_is_asked_for() -> None:
    """The question shows the command and why nothing keeps it in; other tools are not asked for, and nothing is tried for them."""
    standing = Standing("none")
    gate = AskUnsandboxed(cast("Sandbox", standing))

    other = await gate.review(ToolCall("e1.0", "read_file", {}), None, bare_context())
    assert (other, standing.asked) == (Allow(), [])
    verdict = await gate.review(ToolCall("e1.0", "exec", {}), ExecArguments(command="ls -l"), bare_context())

    assert isinstance(verdict, Ask)
    assert "ls -l" in verdict.question
    assert "setting up uid map" in verdict.question
