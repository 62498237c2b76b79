"""The veto seam: who may look at a call before it runs.

A gate sees the validated call and answers ``Allow``, ``Deny(why)`` or ``Ask(question)``.  The first gate that does not allow
decides.  ``Ask`` needs somebody to ask; where nobody can be asked, it is a denial.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from nanobot.agent.tools.base import ToolContext
from nanobot.messages import ToolCall
from nanobot.values import frozen


@frozen
class Allow:
    """The call may run."""


@frozen
class Deny:
    """The call may not run; ``why`` is told to the model."""

    why: str


@frozen
class Ask:
    """A person must decide.  ``why`` is told to them beside the question.

    ``is_guard`` asks for the sake of what the conversation holds: what a person allowed for other reasons does not count then.
    """

    question: str
    why: str = ""
    is_guard: bool = False


Verdict: TypeAlias = Allow | Deny | Ask


class Gate(Protocol):
    """Something that may veto calls."""

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: the tool's model
        """Judge one call whose arguments were validated."""
        ...


async def review(gates: Sequence[Gate], call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:
    """Return the first verdict that is not ``Allow``, else ``Allow``."""
    for gate in gates:
        verdict = await gate.review(call, arguments, context)
        if not isinstance(verdict, Allow):
            return verdict
    return Allow()
