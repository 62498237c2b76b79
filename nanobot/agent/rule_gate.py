"""The ``Gate`` that keeps the rules: it gathers the facts of a call and lets ``rules`` decide."""

from collections.abc import Sequence
from typing import Any, get_args

from nanobot.agent.gates import Verdict
from nanobot.agent.rules import Facts, Placed, decide
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.events import Role
from nanobot.messages import ToolCall


class RuleGate:
    """Judges calls by rules.

    Args:
        rules: in their order.
        tools: what is known of each tool.
    """

    def __init__(self, rules: Sequence[Placed], tools: ToolRegistry) -> None:
        self._rules = rules
        self._tools = tools

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: the tool's model
        """Judge one call."""
        tool = self._tools.get(call.name)
        facts = Facts(
            role=known_role(context.role),
            channel=context.session_key.partition(":")[0],
            workspace=context.workspace,
            outward=tool is not None and tool.outward,
        )
        return decide(self._rules, call, arguments.model_dump(), facts)


def known_role(role: str) -> Role:
    """Return the role; one that this version does not know has the fewest rights."""
    return next((known for known in get_args(Role) if known == role), "member")
