"""A bench on which one tool is called as the runner calls it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.registry import Observation, PreparedCall, ToolRegistry
from nanobot.messages import ToolCall


@dataclass
class Bench:
    """A workspace, kept results, and calls through a registry."""

    root: Path
    results: dict[str, str] = field(default_factory=dict[str, str])
    redact: Callable[[str], str] = str
    _numbers: Iterable[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.workspace = self.root / "ws"
        self.workspace.mkdir()

    def context(self) -> ToolContext:
        """Return a new call's context."""
        call = f"e{next(iter(self._numbers))}.0"
        return ToolContext(
            session_key="cli:direct",
            turn="t1",
            call_id=call,
            role="owner",
            workspace=self.workspace,
            scratch=self.root / "scratch" / call.replace(".", "_"),
            full_result=self.full_result,
            media=self.root / "media",
        )

    async def full_result(self, entry: str) -> str:
        """Return a kept result."""
        return self.results[entry]

    def prepare(self, tool: Tool[Any], **arguments: Any) -> tuple[ToolRegistry, PreparedCall]:
        """Return a registry of this tool alone, and the prepared call."""
        registry = ToolRegistry([tool], redact=self.redact)
        return registry, registry.prepare_call(ToolCall("e1.0", tool.name, arguments))

    async def call(self, tool: Tool[Any], **arguments: Any) -> Observation:
        """Prepare and execute."""
        registry, prepared = self.prepare(tool, **arguments)
        return await registry.execute(prepared, self.context())

    async def text(self, tool: Tool[Any], **arguments: Any) -> str:
        """Return the observation of a call that works."""
        observation = await self.call(tool, **arguments)
        assert not observation.is_error, observation.text
        return observation.text

    async def error(self, tool: Tool[Any], **arguments: Any) -> str:
        """Return the observation of a call that fails while it runs."""
        observation = await self.call(tool, **arguments)
        assert observation.is_error, observation.text
        return observation.text


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A fresh workspace."""
    return Bench(tmp_path)
