"""A whole agent in memory: the real loop, stages and runner over a scripted model and a store without a disk.

``Agent(steps)`` is one process; ``agent.after_restart(steps)`` is the next one over the same world, as if the first had been killed
between two awaits (its claims are gone, what it wrote is there).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from nanobot.agent.approvals import Approvals
from nanobot.agent.commands import Restart
from nanobot.agent.compaction import Consolidator
from nanobot.agent.context import ContextBuilder
from nanobot.agent.fetching import Files
from nanobot.agent.gates import Gate
from nanobot.agent.loop import AgentLoop
from nanobot.agent.models import Model
from nanobot.agent.run_stage import RunStage
from nanobot.agent.settings import AgentSettings
from nanobot.agent.stages import Stages
from nanobot.agent.tools.base import BaseTool, Tool, ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.turn import TurnResult
from nanobot.bus.events import InboundMessage, Media, OutboundMessage, Role, Route, SessionKey, session_key
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import RuntimeEvent
from nanobot.providers.base import LLMProvider
from nanobot.session.entries import Delivery, Effect, Entry
from nanobot.session.log import SessionLog
from nanobot.session.manager import SessionManager
from tests.fakes.provider import ScriptedProvider, Step
from tests.fakes.store import MemoryStore, World

KEY = "test:1"
MAX_FILE_BYTES = 1_000
EPOCH = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class EchoArguments(BaseModel):
    """What ``echo`` takes."""

    text: str = ""


class Echo(BaseTool[EchoArguments]):
    """Says what it is told, and remembers that it was called."""

    name = "echo"
    description = "Say the text."
    arguments = EchoArguments
    effect: Effect = "pure"
    concurrent = True
    chatty = True

    def __init__(self) -> None:
        self.said: list[str] = []

    async def run(self, arguments: EchoArguments, context: ToolContext) -> str:
        self.said.append(arguments.text)
        return arguments.text


class Blocker(BaseTool[EchoArguments]):
    """Waits until it is let go; ``entered`` is set when it waits."""

    name = "block"
    description = "Wait."
    arguments = EchoArguments

    def __init__(self, effect: Effect = "opaque") -> None:
        self.effect: Effect = effect
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.runs = 0

    async def run(self, arguments: EchoArguments, context: ToolContext) -> str:
        self.runs += 1
        self.entered.set()
        await self.gate.wait()
        return "let go"


class OneModel:
    """The ``Models`` of a single provider; other references go to it too."""

    def __init__(self, provider: LLMProvider, window: int) -> None:
        self._provider = provider
        self._window = window

    refs: Sequence[str] = ("fake/model", "fake/other")
    providers: Sequence[str] = ("fake", "local")

    def resolve(self, ref: str | None) -> Model:
        name = ref or self.refs[0]
        return Model(provider=self._provider, model=name.partition("/")[2], ref=name, window=self._window)


class Agent:
    """The loop over fakes.  ``events`` holds every runtime event, ``outbound`` what the bus was given to send."""

    def __init__(
        self,
        steps: Iterable[Step] = (),
        *,
        tools: Iterable[Tool[Any]] = (),
        settings: AgentSettings | None = None,
        world: World | None = None,
        window: int = 128_000,
        gates: Sequence[Gate] = (),
        approval_s: float = 600.0,
        workspace: Path = Path("/nowhere"),
        comply_s: float = 5.0,
        scripts_decide: bool = False,
        files: Files | None = None,
        provider: ScriptedProvider | None = None,
        sources: Sequence[str] = (),
        store: Callable[..., MemoryStore] = MemoryStore,
        notes: Callable[[], Sequence[str]] = tuple,
        restart: Restart | None = None,
    ) -> None:
        self.provider = provider or ScriptedProvider(steps)
        self.store = store(world=world)
        self.bus = MessageBus()
        self.runtime = RuntimeEventBus()
        self.events: list[RuntimeEvent] = []
        self.runtime.observe(self.events.append)
        self.settings = settings or AgentSettings()
        self.sessions = SessionManager(self.store, owner="test")
        self.now = EPOCH
        self._tools = list(tools)
        self._window = window
        self._workspace = workspace
        self._gates = gates
        self._sources = sources
        self.registry = registry = ToolRegistry(
            self._tools, default_max_chars=self.settings.max_tool_result_chars, sources=sources
        )
        self.approvals = Approvals(expires_s=approval_s)
        run_stage = RunStage(
            settings=self.settings,
            tools=registry,
            builder=ContextBuilder(workspace),
            scratch=workspace.parent / "scratch",
            slots=asyncio.Semaphore(self.settings.concurrency),
            now=lambda: self.now,
            approvals=self.approvals,
            files=files or Files(),
            gates=gates,
            media=workspace.parent / "media",
            max_file_bytes=lambda route: MAX_FILE_BYTES,
            comply_s=comply_s,
            scripts_decide=scripts_decide,
        )
        models = OneModel(self.provider, window)
        self.consolidator = Consolidator(
            models=models,
            agent=self.settings,
            events=self.runtime,
            sessions=self.sessions,
            chatty=lambda: registry.chatty,
        )
        stages = Stages(
            models=models, run_stage=run_stage, compactor=self.consolidator, bus=self.bus, notes=notes, restart=restart
        )
        self.loop = AgentLoop(sessions=self.sessions, stages=stages, bus=self.bus, events=self.runtime)
        self._reader: asyncio.Task[None] | None = None
        self._count = 0

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self.loop.run(), name="bus reader")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.bus.close()
        await self.loop.shutdown(grace_s=0)
        if self._reader is not None:
            await self._reader
        await self.consolidator.close()
        await self.sessions.close()

    # -- talking to it ---------------------------------------------------------------------------------------------------------

    async def ask(self, text: str, *, key: SessionKey = KEY, message_id: str | None = None) -> TurnResult:
        """Send a direct message and return its result."""
        async with asyncio.timeout(5):
            return await self.loop.process_direct(text, session_key=key, message_id=message_id)

    async def send(
        self,
        text: str,
        *,
        message_id: str | None = None,
        chat: str = "1",
        role: Role = "owner",
        sender: str = "42",
        after_s: float = 0,
        media: tuple[Media, ...] = (),
        replaces: str = "",
    ) -> InboundMessage:
        """Send a message as a channel named ``test`` does; do not wait for its Turn."""
        self._count += 1
        route = Route("test", chat)
        message = InboundMessage(
            id=message_id or f"test:{chat}:{self._count}",
            session_key=session_key(route),
            sender=sender,
            role=role,
            text=text,
            route=route,
            media=media,
            replaces=replaces,
            at=self.now + timedelta(seconds=after_s),
        )
        await self.loop.accept(message)
        return message

    async def quiet(self) -> None:
        """Wait until no session has work left."""
        async with asyncio.timeout(5):
            while self.loop.busy or self.bus.inbound.waiting:  # noqa: ASYNC110  # two objects, and no event for both
                await asyncio.sleep(0.001)

    @property
    def outbound(self) -> list[OutboundMessage]:
        """What was published to the channels and not taken yet."""
        return list(self.bus.outbound.waiting)

    @property
    def answers(self) -> list[str]:
        """The texts of ``outbound``."""
        return [message.text for message in self.outbound]

    async def deliver_all(self, key: SessionKey = KEY) -> None:
        """Record every owed part as sent."""
        async with self.sessions.open(key) as session:
            await session.restore()
            for owed in list(session.log.owed.values()):
                for part in range(len(owed.parts)):
                    await session.append(
                        Delivery(id=session.log.new_id(), out=owed.out, part=part, state="sent", ref="1")
                    )

    # -- looking at it ---------------------------------------------------------------------------------------------------------

    async def entries(self, key: SessionKey = KEY) -> list[Entry]:
        """Return the whole log, oldest first."""
        return list(reversed(await self.store.read(key, before=None, limit=1_000_000)))

    async def log(self, key: SessionKey = KEY) -> SessionLog:
        """Return the fold of what is on disk."""
        log = SessionLog(key)
        log.extend(await self.entries(key))
        return log

    def after_restart(self, steps: Iterable[Step] = (), **options: Any) -> "Agent":  # Any: as the constructor's
        """Return the next process over the same disk."""
        for log in self.store.world.logs.values():
            log.holder = log.claim = None
        options = {
            "tools": self._tools,
            "settings": self.settings,
            "window": self._window,
            "workspace": self._workspace,
            "gates": self._gates,
            "sources": self._sources,
            **options,
        }
        later = Agent(steps, world=self.store.world, **options)
        later._count = self._count  # the platform goes on counting
        return later
