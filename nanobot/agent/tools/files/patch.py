"""Changing several files at once by a unified diff: ``apply_patch``.

All files or none: everything is read, matched and checked before anything is written, and what was written is put back if a later
write fails.  After a crash in between, the probe puts it back too (``changes.probe``).
"""

from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from nanobot.agent.tools.arguments import ToolArguments
from nanobot.agent.tools.base import BaseTool, Planned, Probed, ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.threads import in_thread, to_its_end
from nanobot.session.entries import Effect

if TYPE_CHECKING:
    from nanobot.agent.tools.files.patcher import Patcher


class ApplyPatchArguments(ToolArguments):
    patch: str = Field(
        min_length=1,
        max_length=2_000_000,
        description="A unified diff; paths relative to the workspace, a/ and b/ allowed",
    )


class ApplyPatch(BaseTool[ApplyPatchArguments]):
    """Several files at once."""

    name = "apply_patch"
    description = (
        "Apply a unified diff to any number of files, all or none; also new, removed (/dev/null) and renamed ones. "
        "Line numbers may be wrong where the context is unique."
    )
    arguments = ApplyPatchArguments
    effect: Effect = "verifiable"

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules

    def summary(self, arguments: ApplyPatchArguments) -> str:
        """Name the files."""
        return self._patcher.summary(self.name, arguments.patch)

    async def plan(self, arguments: ApplyPatchArguments, context: ToolContext) -> Planned:
        """Hash before and after; keep the old contents."""
        return await in_thread(self._patcher.plan, arguments.patch, context)

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext) -> str:
        """Change them."""
        return await to_its_end(context.in_thread, self._patcher.apply, arguments.patch, context)

    async def probe(self, arguments: ApplyPatchArguments, context: ToolContext, planned: Planned) -> Probed:
        """Compare hashes; put a half-done patch back."""
        return await in_thread(self._patcher.probe, context, planned)

    @cached_property
    def _patcher(self) -> "Patcher":
        from nanobot.agent.tools.files.patcher import Patcher  # lazily: for calls

        return Patcher(self._rules)
