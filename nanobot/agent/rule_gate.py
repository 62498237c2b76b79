"""The ``Gate`` that keeps the rules: it gathers the facts of a call and lets ``rules`` and ``guard`` decide."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from nanobot.agent.gates import Allow, Ask, Deny, Verdict
from nanobot.agent.guard import Outward, guard, sends_nothing
from nanobot.agent.rules import FOR_MEMBERS, Facts, Placed, deciding, verdict
from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.agent.tools.threads import in_thread
from nanobot.bus.events import Role
from nanobot.messages import ToolCall

_FRESH_S = 30.0  # how long a look through the workspace for secret files counts


class RuleGate:
    """Judges calls by rules, and outward ones by what their conversation holds.

    Args:
        rules: in their order.
        tools: what is known of each tool.
        outward: what becomes of a call that could leak.
        secret_paths: which files hold secrets.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        rules: Sequence[Placed],
        tools: ToolRegistry,
        *,
        outward: Outward = "ask",
        secret_paths: SecretPaths | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = rules
        self._rules_on_secrets = any(one.rule.secrets is not None for one in rules)
        self._tools = tools
        self._outward: Outward = outward
        self._secret_paths = secret_paths or SecretPaths()
        self._clock = clock
        self._in_reach: dict[Path, tuple[float, str]] = {}

    async def review(self, call: ToolCall, arguments: Any, context: ToolContext) -> Verdict:  # Any: the tool's model
        """Judge one call."""
        given: dict[str, object] = arguments.model_dump()
        facts, named = self._facts(call, context), ""
        if self._turns_on_secrets(facts):
            named = await in_thread(self._secret_paths.named_through, given, context.workspace)
            facts = replace(facts, secrets=(*facts.secrets, f"{call.name} {named}")) if named else facts
        found = deciding(self._rules, call, given, facts)
        if named and found is not None and found.place == FOR_MEMBERS:
            return Deny(f"{named} is kept from members of groups, as files with secrets are")
        ruled = verdict(found, call)
        if isinstance(ruled, Deny) or (found is not None and found.rule.untrusted and found.rule.secrets):
            return ruled  # a rule that knows what the conversation holds has the last word
        guarded = await self._guard(call, given, context, facts)
        if isinstance(ruled, Ask) and isinstance(guarded, Ask):
            return replace(ruled, why=". ".join(filter(None, (ruled.why, guarded.why))), is_guard=True)
        return ruled if isinstance(guarded, Allow) else guarded

    def _turns_on_secrets(self, facts: Facts) -> bool:
        """Say whether anything here depends on the secret files that a call names: else nobody looks at the disk for them."""
        could_leak = self._outward != "allow" and facts.outward and bool(facts.untrusted)
        return self._rules_on_secrets or could_leak or facts.role == "member"

    def _facts(self, call: ToolCall, context: ToolContext) -> Facts:
        standing = context.standing()
        return Facts(
            role=known_role(context.role),
            channel=context.session_key.partition(":")[0],
            workspace=context.workspace,
            outward=self.reaches_out(call.name),
            untrusted=standing.untrusted,
            secrets=standing.secrets,
        )

    def reaches_out(self, name: str) -> bool:
        """Say whether a tool can send something out; one that is not known here might."""
        tool = self._tools.get(name)
        if name == "exec_input":  # it speaks to what exec has started
            return self.reaches_out("exec")
        return tool is None or tool.outward

    async def _guard(
        self, call: ToolCall, arguments: Mapping[str, object], context: ToolContext, facts: Facts
    ) -> Verdict:
        if self._outward == "allow" or not (facts.outward and facts.untrusted):
            return Allow()
        if not facts.secrets and _reads_unnamed(self._tools.get(call.name)) and not sends_nothing(call.name, arguments):
            in_reach = await self._secret_in_reach(context.workspace)
            facts = replace(facts, secrets=(f"{in_reach} in the workspace",) if in_reach else ())
        url = arguments.get("url") if call.name == "web_fetch" else None  # to others, it may mean nothing
        is_said = isinstance(url, str) and context.standing().said(url)
        return guard(self._outward, call, arguments, facts, is_said=is_said)

    async def _secret_in_reach(self, workspace: Path) -> str:
        """Return a secret file that a command could read without naming it."""
        at, found = self._in_reach.get(workspace, (float("-inf"), ""))
        if self._clock() - at > _FRESH_S:
            found = await in_thread(self._secret_paths.within, workspace)
            self._in_reach[workspace] = (self._clock(), found)
        return found


def known_role(role: str) -> Role:
    """Return the role; one that this version does not know has the fewest rights."""
    return next((known for known in get_args(Role) if known == role), "member")


def _reads_unnamed(tool: Tool[Any] | None) -> bool:
    return tool is not None and (tool.reads_unnamed or tool.name == "exec_input")
