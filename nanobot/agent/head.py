"""The head of a prompt: system text and tool list, frozen in the session's log until the next cut.

A provider's prompt cache works as long as the beginning of the prompt stays the same, so the beginning is taken from the log and
not from the files and settings it was once made of.  What changed meanwhile takes effect at a cut.  When tools of our own change,
or the configuration names other sources of tools, that is a cut of its own: a model must not call what is no longer there.

What a source brings comes and goes by itself, as servers do.  That is no cut: the list stays as it was frozen, a call of what is
not there gets an error that says so, and what is new waits for the next cut.  Nor may it crowd out the conversation: together, what
sources bring gets a share of the window, the small ones first, and what has no place is named in the prompt and by ``/status``.
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from nanobot.agent.context import ContextBuilder
from nanobot.agent.models import Model
from nanobot.agent.tokens import estimate_tools
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.errors import DiskRefused
from nanobot.messages import JsonObject
from nanobot.providers.base import ToolSpec
from nanobot.session.entries import BlobId, EntryId, Head
from nanobot.session.manager import Session
from nanobot.values import frozen

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

_REMEMBERED = 64
_TOOLS_SHARE = 0.4  # of the window, for what sources bring
_NAMED = 20
_FILES_SHARE = 0.75  # characters of the workspace's files per token of the window: about a quarter of it


@frozen
class FrozenHead:
    """What the prompt of a session begins with, and the entry that froze it."""

    entry: EntryId
    system: str
    specs: tuple[ToolSpec, ...]


async def _at_once() -> None:
    return


class _Newest(OrderedDict[K, V]):
    """A mapping that keeps its newest entries."""

    def keep(self, key: K, value: V) -> V:
        """Have this entry as the newest one."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > _REMEMBERED:
            self.popitem(last=False)
        return value


class Heads:
    """Finds the frozen head of a session, or freezes one.

    ``settled`` waits a moment for sources of tools that are just starting: only a head that has yet to be frozen waits for them.
    """

    def __init__(self, settled: Callable[[], Awaitable[None]] = _at_once) -> None:
        self._settled = settled
        self._known: _Newest[tuple[str, EntryId], FrozenHead] = _Newest()
        # Most sessions begin alike, so that is read once, in memory once, and encoded once.
        self._texts: _Newest[BlobId, str] = _Newest()
        self._lists: _Newest[BlobId, tuple[ToolSpec, ...]] = _Newest()
        self._last_written: tuple[tuple[ToolSpec, ...], bytes] = ((), _written(()))

    async def current(self, session: Session, builder: ContextBuilder, tools: ToolRegistry, model: Model) -> FrozenHead:
        """Return the session's head; freeze a new one where there is none or our own tools have changed."""
        head = session.log.head
        frozen = await self._load(session, head, tools, model) if head else None
        return frozen or await self._freeze(session, builder, tools, model)

    async def _load(self, session: Session, head: Head, tools: ToolRegistry, model: Model) -> FrozenHead | None:
        known = self._known.get((session.key, head.id))
        if known is None:
            try:
                known = FrozenHead(
                    head.id, await self._text(session, head.system), await self._list(session, head.tools)
                )
            except (KeyError, ValueError):
                return None
        own = tuple(spec for spec in known.specs if not spec.source)
        if own != tools.own_specs() or frozenset(head.sources) != tools.sources:
            return None
        if len(fitting(known.specs, model.window)) < len(known.specs):
            return None  # frozen for a model with a larger window
        present = {spec.name: spec for spec in tools.specs()}  # the same objects for all sessions: each is encoded once
        specs = tuple(present[s.name] if present.get(s.name) == s else s for s in known.specs)
        return self._known.keep((session.key, head.id), FrozenHead(head.id, known.system, specs))

    async def _text(self, session: Session, blob: BlobId) -> str:
        known = self._texts.get(blob)
        return self._texts.keep(blob, (await session.get_blob(blob)).decode() if known is None else known)

    async def _list(self, session: Session, blob: BlobId) -> tuple[ToolSpec, ...]:
        known = self._lists.get(blob)
        return self._lists.keep(blob, _read(await session.get_blob(blob)) if known is None else known)

    def waiting(self, session: Session, tools: ToolRegistry, model: Model) -> Sequence[str]:
        """Return the names of tools that a new head would have and the session's has not, as far as that is in memory."""
        head = session.log.head
        known = self._known.get((session.key, head.id)) if head else None
        if known is None:
            return ()
        frozen = set(map(_identity, known.specs))
        return [spec.name for spec in fitting(tools.specs(), model.window) if _identity(spec) not in frozen]

    async def _freeze(self, session: Session, builder: ContextBuilder, tools: ToolRegistry, model: Model) -> FrozenHead:
        await self._settled()
        system = await asyncio.to_thread(builder.build_system_prompt, room_chars=int(model.window * _FILES_SHARE))
        specs, sources = fitting(tools.specs(), model.window), tuple(sorted(tools.sources))
        if note := crowded(tools.specs(), model.window):
            log.warning("session %r: %s", session.key, note)
            system = f"{system}\n\n[{note}]"
        entry = session.log.new_id()
        try:
            blobs = await asyncio.gather(session.put_blob(system.encode()), session.put_blob(self._written(specs)))
            system = self._texts.keep(blobs[0], self._texts.get(blobs[0], system))
            self._lists.keep(blobs[1], specs)
            session.append(Head(id=entry, system=blobs[0], tools=blobs[1], model=model.ref, sources=sources))
        except DiskRefused:
            pass  # this Turn runs from memory; the next one freezes again
        return self._known.keep((session.key, entry), FrozenHead(entry, system, specs))

    def _written(self, specs: tuple[ToolSpec, ...]) -> bytes:
        if self._last_written[0] is not specs:  # they are the same object as long as they are the same tools
            self._last_written = (specs, _written(specs))
        return self._last_written[1]


def fitting(specs: Sequence[ToolSpec], window: int) -> tuple[ToolSpec, ...]:
    """Return the tools that a model with this window is offered, in their order: all of ours, and of the others what has room."""
    room = window * _TOOLS_SHARE
    brought = [spec for spec in specs if spec.source]
    if estimate_tools(brought) <= room:
        return tuple(specs)
    kept: set[str] = set()
    for spec in sorted(brought, key=lambda one: estimate_tools([one])):
        room -= estimate_tools([spec])
        if room < 0:
            break
        kept.add(spec.name)
    return tuple(spec for spec in specs if not spec.source or spec.name in kept)


def crowded(specs: Sequence[ToolSpec], window: int) -> str:
    """Say which tools have no room in this window, and what to do about it; empty if all have."""
    offered = {spec.name for spec in fitting(specs, window)}
    names = [spec.name for spec in specs if spec.name not in offered]
    if not names:
        return ""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return (
        f"{len(names)} tools of MCP servers are not offered, as they would take too much of this model's window: {shown}. "
        "`tools.mcp.servers.<name>.tools` names those that are wanted"
    )


def _identity(spec: ToolSpec) -> tuple[str, str, str]:
    return spec.name, spec.description, json.dumps(spec.parameters)


def _written(specs: tuple[ToolSpec, ...]) -> bytes:
    rows = [
        {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        | ({"source": spec.source} if spec.source else {})
        for spec in specs
    ]
    return json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace")


def _read(data: bytes) -> tuple[ToolSpec, ...]:
    rows = cast("list[JsonObject]", json.loads(data))
    return tuple(
        ToolSpec(
            str(row["name"]),
            str(row["description"]),
            cast("JsonObject", row["parameters"]),
            str(row.get("source", "")),
        )
        for row in rows
    )
