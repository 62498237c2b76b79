"""The gate for machines on which no sandbox works: each command is asked for, because nothing keeps it in."""

import asyncio
from typing import Any

from nanobot.agent.gates import Allow, Ask, Verdict
from nanobot.agent.tools.base import ToolContext, one_line
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.messages import ToolCall


class AskUnsandboxed:
    """A ``Gate`` that has a person asked before a command runs without a sandbox that is wanted."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: the tool's model
        """Ask for commands where nothing keeps them in, allow everything else."""
        if call.name not in ("exec", "exec_input"):
            return Allow()
        state = await asyncio.to_thread(self._sandbox.state, context.workspace)
        if (
            state.kind != "none" or state.is_lost
        ):  # of a sandbox that is lost the tool tells: nobody can allow to do without
            return Allow()
        why = "; ".join(state.why)
        command = one_line(str(getattr(arguments, "command", "") or getattr(arguments, "text", "")))
        return Ask(f"No sandbox works here ({why}). May {call.name} run this with your rights: {command}?")
