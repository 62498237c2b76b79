"""``AgentHook``: the observe and veto seams as one class, for scripts that like classes.

Override what you need and hand the hook to ``Nanobot(hooks=[...])``.  The ``on_`` methods watch: they are called in order, must be
quick, and cannot change anything; ``before_tool`` may veto.
"""

from typing import Any

from nanobot.agent.gates import Allow, Verdict
from nanobot.agent.tools.base import ToolContext
from nanobot.bus.runtime_events import RuntimeEvent, TextDelta, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from nanobot.messages import ToolCall


class AgentHook:
    """Does nothing; subclasses say what."""

    def on_event(self, event: RuntimeEvent) -> None:
        """Watch every runtime event; the methods below are called from here."""
        match event:
            case TurnStarted():
                self.on_turn_started(event)
            case TextDelta():
                self.on_text(event)
            case ToolStarted():
                self.on_tool_started(event)
            case ToolFinished():
                self.on_tool_finished(event)
            case TurnFinished():
                self.on_turn_finished(event)
            case _:
                pass

    def on_turn_started(self, event: TurnStarted) -> None:
        """Watch a Turn begin."""

    def on_text(self, event: TextDelta) -> None:
        """Watch text arrive."""

    def on_tool_started(self, event: ToolStarted) -> None:
        """Watch a call begin."""

    def on_tool_finished(self, event: ToolFinished) -> None:
        """Watch a call end."""

    def on_turn_finished(self, event: TurnFinished) -> None:
        """Watch a Turn end."""

    async def before_tool(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: as a Gate's
        """Judge a call before it runs."""
        return Allow()


class HookGate:
    """A hook's ``before_tool`` as a ``Gate``."""

    def __init__(self, hook: AgentHook) -> None:
        self._hook = hook

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: the tool's model
        """Ask the hook."""
        return await self._hook.before_tool(call, arguments, context)
