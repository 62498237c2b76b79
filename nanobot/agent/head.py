"""The head of a prompt: system text and tool list, frozen in the session's log until the next cut.

A provider's prompt cache works as long as the beginning of the prompt stays the same, so the beginning is taken from the log and
not from the files and settings it was once made of.  What changed meanwhile takes effect at a cut.  A changed tool list is a cut of
its own: a model must not call what is no longer there.
"""

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

from nanobot.agent.context import ContextBuilder
from nanobot.agent.models import Model
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.errors import DiskRefused
from nanobot.messages import JsonObject
from nanobot.providers.base import ToolSpec
from nanobot.session.entries import EntryId, Head
from nanobot.session.manager import Session

_REMEMBERED = 64
_FILES_SHARE = 0.75  # characters of the workspace's files per token of the window: about a quarter of it


@dataclass(frozen=True, slots=True)
class FrozenHead:
    """What the prompt of a session begins with, and the entry that froze it."""

    entry: EntryId
    system: str
    specs: tuple[ToolSpec, ...]


class Heads:
    """Finds the frozen head of a session, or freezes one."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, EntryId], FrozenHead] = OrderedDict()

    async def current(self, session: Session, builder: ContextBuilder, tools: ToolRegistry, model: Model) -> FrozenHead:
        """Return the session's head; freeze a new one where there is none or the tools have changed."""
        head = session.log.head
        frozen = await self._load(session, head, tools) if head else None
        return frozen or await self._freeze(session, builder, tools, model)

    async def _load(self, session: Session, head: Head, tools: ToolRegistry) -> FrozenHead | None:
        known = self._known.get((session.key, head.id))
        if known is None:
            try:
                system = (await session.get_blob(head.system)).decode()
                specs = _read(await session.get_blob(head.tools))
            except (KeyError, ValueError):
                return None
            known = FrozenHead(head.id, system, specs)
        if known.specs != tools.specs():
            return None
        return self._remember(session, FrozenHead(head.id, known.system, tools.specs()))

    async def _freeze(self, session: Session, builder: ContextBuilder, tools: ToolRegistry, model: Model) -> FrozenHead:
        system = await asyncio.to_thread(builder.build_system_prompt, room_chars=int(model.window * _FILES_SHARE))
        specs = tools.specs()
        entry = session.log.new_id()
        try:
            blobs = await session.put_blob(system.encode()), await session.put_blob(_written(specs))
            session.append(Head(id=entry, system=blobs[0], tools=blobs[1], model=model.ref))
        except DiskRefused:
            pass  # this Turn runs from memory; the next one freezes again
        return self._remember(session, FrozenHead(entry, system, specs))

    def _remember(self, session: Session, head: FrozenHead) -> FrozenHead:
        self._known[session.key, head.entry] = head
        self._known.move_to_end((session.key, head.entry))
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return head


def _written(specs: tuple[ToolSpec, ...]) -> bytes:
    rows = [{"name": spec.name, "description": spec.description, "parameters": spec.parameters} for spec in specs]
    return json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace")


def _read(data: bytes) -> tuple[ToolSpec, ...]:
    rows = cast("list[JsonObject]", json.loads(data))
    return tuple(
        ToolSpec(str(row["name"]), str(row["description"]), cast("JsonObject", row["parameters"])) for row in rows
    )
