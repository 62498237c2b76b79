"""The composition root, and ``Nanobot``, the facade for scripts.

Everything is built here and in ``assembly``, and closed here.  Building does no work: files, locks and tasks begin
with ``async with``.
"""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from nanobot.agent.approvals import Decision
from nanobot.agent.autocompact import AutoCompact
from nanobot.agent.closing import Split, whole
from nanobot.agent.commands import Restart
from nanobot.agent.compaction import Consolidator
from nanobot.agent.fetching import Fetch, nowhere
from nanobot.agent.gates import Gate
from nanobot.agent.head import Heads
from nanobot.agent.hooks import AgentHook, HookGate
from nanobot.agent.loop import AgentLoop
from nanobot.agent.media import take_in
from nanobot.agent.models import ConfiguredModels
from nanobot.agent.stages import Stages
from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.function import ToolOptions, function_tool
from nanobot.agent.tools.mcp.servers import McpServers
from nanobot.agent.turn import TurnResult
from nanobot.assembly import as_tool, background_jobs, command_sandbox, own_gates, stage_of_runs, tool_registry
from nanobot.bus.events import Acceptance, InboundMessage, Media, Role, Route, SessionKey, is_plain_key
from nanobot.bus.queue import MessageBus
from nanobot.bus.runtime_bus import RuntimeEventBus
from nanobot.bus.runtime_events import RuntimeEvent, TurnFinished
from nanobot.config.environment import environment
from nanobot.config.places import prepare
from nanobot.config.secrets import secrets_in
from nanobot.config.settings import Settings, find, load
from nanobot.errors import MisuseError
from nanobot.providers.base import LLMProvider
from nanobot.redaction import Redactor
from nanobot.session.disk import Disk
from nanobot.session.entries import Delivery, EntryId, Moved
from nanobot.session.jsonl import JsonlStore
from nanobot.session.manager import SessionManager

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])

_SWEEP_S = 15.0  # how often idle sessions are looked for


class Nanobot:
    """An agent for scripts: ``async with Nanobot.from_config(path) as bot: result = await bot.process_direct("hi")``.

    With ``decides=True`` the script answers questions about calls itself: it watches for ``Waiting`` and calls ``decide``.  Without
    it, such calls of its own Turns are refused.

    Calls may run at once: those of one session one after the other, others side by side.  Nothing is printed.  Errors of a Turn are
    in its result; exceptions are for a bad config and for misuse.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        config_path: Path | None = None,
        provider: LLMProvider | None = None,
        tools: Iterable[Tool[Any] | Callable[..., object]] = (),
        gates: Sequence[Gate] = (),
        hooks: Sequence[AgentHook] = (),
        environ: Mapping[str, str] | None = None,
        around: Callable[[LLMProvider], LLMProvider] = lambda provider: provider,
        decides: bool = False,
        split: Split = whole,
        fetch: Fetch = nowhere,
        restart: Restart | None = None,
        max_file_bytes: Callable[[Route], int | None] = lambda route: None,
        disk: Disk | None = None,
    ) -> None:
        environ = environment() if environ is None else environ
        agent = settings.agent
        self.settings = settings
        redact = Redactor(secrets_in(settings))
        self.events = RuntimeEventBus(redact)
        for hook in hooks:
            self.events.observe(hook.on_event)
        self.bus = MessageBus()
        self.models = ConfiguredModels(
            settings.models, settings.providers, agent=agent, environ=environ, instead=provider, around=around
        )
        self._store = JsonlStore(settings.data_dir, settings=settings.session, owner=owner(), disk=disk)
        self.sessions = SessionManager(self._store, owner=owner())
        self._media = settings.data_dir / "media"
        self.sandbox = command_sandbox(settings, environ=environ, config_path=config_path, media=self._media)
        self.mcp = McpServers(settings.tools.mcp, data_dir=settings.data_dir, redact=redact)
        own = [as_tool(tool) for tool in tools]
        self._own_tools = {tool.name for tool in own}
        self.jobs = background_jobs(settings)
        self.tools = tool_registry(
            settings,
            own,
            environ=environ,
            config_path=config_path,
            media=self._media,
            sandbox=self.sandbox,
            redact=redact,
            mcp=self.mcp,
            jobs=self.jobs,
        )
        run_stage = stage_of_runs(
            settings,
            tools=self.tools,
            gates=[*gates, *(HookGate(hook) for hook in hooks), *own_gates(settings, self.tools, self.sandbox)],
            jobs=self.jobs,
            media=self._media,
            fetch=fetch,
            decides=decides,
            max_file_bytes=max_file_bytes,
            config_path=config_path,
        )
        self._consolidator = Consolidator(
            models=self.models,
            agent=agent,
            events=self.events,
            sessions=self.sessions,
            chatty=lambda: self.tools.chatty,
        )
        ttl = agent.session_ttl_minutes
        self._idle = AutoCompact(self._consolidator, sessions=self.sessions, ttl_s=ttl * 60) if ttl else None
        stages = Stages(
            models=self.models,
            run_stage=run_stage,
            compactor=self._idle or self._consolidator,
            bus=self.bus,
            split=split,
            restart=restart,
            heads=Heads(self.mcp.settled),
            notes=self.mcp.lines,
            redact=redact,
        )
        self.loop = AgentLoop(sessions=self.sessions, stages=stages, bus=self.bus, events=self.events)
        self._sweeper: asyncio.Task[None] | None = None

    @classmethod
    def from_config(cls, path: Path | str | None = None, **options: Any) -> Self:  # Any: as ``__init__`` takes them
        """Build one from a config file, or from what is found without one (see docs/configuration.md).

        Raises:
            ConfigError: names file, key and fix.
        """
        environ = environment()
        found = find(Path(path) if path is not None else None, environ)
        own = [as_tool(tool) for tool in options.pop("tools", ())]
        settings = load(found, environ, own_tools=[tool.name for tool in own])
        return cls(settings, config_path=found, tools=own, **options)

    @classmethod
    def from_settings(cls, settings: Settings, **options: Any) -> Self:  # Any: as ``__init__`` takes them
        """Build one from settings that were loaded already."""
        return cls(settings, **options)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(prepare, self.settings.workspace, self.settings.data_dir)
        self._sweeper = asyncio.create_task(self._sweep(), name="sweep idle sessions")
        self.mcp.start(self.tools.replace)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop what runs, leaving it to be resumed, and close everything.  Who did not wait for a Turn before does not now."""
        self.bus.close()
        await self.loop.shutdown(grace_s=0)
        await self.mcp.close()
        await self.jobs.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
        if self._idle is not None:
            await self._idle.close()
        await self._consolidator.close()
        await self.sessions.close()
        await self._store.close()
        await self.models.close()

    @overload
    def tool(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[FunctionT], FunctionT]: ...

    def tool(
        self, function: FunctionT | None = None, /, **options: Unpack[ToolOptions]
    ) -> FunctionT | Callable[[FunctionT], FunctionT]:
        """Make a typed function a tool, from the next Turn on: ``@bot.tool`` or ``@bot.tool(effect="pure", timeout_s=5)``.

        The function stays what it is.  It takes the place of a built-in tool of its name.

        Raises:
            MisuseError: a model could not call it, or there is a tool of yours with its name.
        """

        def register(given: FunctionT) -> FunctionT:
            made = function_tool(given, **options)
            if made.name in self._own_tools:
                raise MisuseError(f"There are two tools named {made.name!r}; rename one, or pass name=.")
            self.tools.put(made)
            self._own_tools.add(made.name)
            return given

        return register if function is None else register(function)

    # -- for scripts -----------------------------------------------------------------------------------------------------------

    async def process_direct(
        self,
        text: str,
        *,
        session_key: SessionKey = "script:default",
        message_id: str | None = None,
        media: Sequence[Path | str | Media] = (),
    ) -> TurnResult:
        """Run one message as a Turn of the session and return its result.

        Args:
            text: what the agent is told; commands such as ``/new`` work too.
            session_key: the conversation it belongs to.
            message_id: makes the call repeatable: a second one with the same id returns the recorded result.
            media: files to go with it; images are shown to the model, others named by their path.

        Cancelling the call stops its Turn and leaves the session in order.

        Raises:
            MisuseError: a tool called its own session; a file that cannot be read; a key with control characters.
            SessionBusy: another process holds the session.
        """
        if not is_plain_key(session_key):
            raise MisuseError(f"a session's key holds no control characters; this one does: {session_key!r:.80}")
        files = [item if isinstance(item, Media) else await take_in(Path(item), self._media) for item in media]
        return await self.loop.process_direct(text, session_key=session_key, message_id=message_id, media=files)

    async def stream(
        self, text: str, *, session_key: SessionKey = "script:default", message_id: str | None = None
    ) -> AsyncGenerator[RuntimeEvent]:
        """Run one message and yield its session's events while it runs; the last is its ``TurnFinished``.

        Leaving the loop early cancels the Turn as ``process_direct`` says.
        """
        with self.events.subscribe(wants=lambda event: getattr(event, "session_key", None) == session_key) as events:
            call = asyncio.create_task(
                self.process_direct(text, session_key=session_key, message_id=message_id), name=f"stream {session_key}"
            )
            call.add_done_callback(lambda _: events.close())
            last: RuntimeEvent | None = None
            try:
                async for event in events:
                    last = event
                    yield event
                result = await call
                if not isinstance(last, TurnFinished):  # answered from the record, or never begun
                    yield result.as_event()
            finally:
                call.cancel()
                await asyncio.wait({call})

    async def stop(self, session_key: SessionKey) -> bool:
        """Stop the session's running Turn; False if there is none."""
        return self.loop.stop(session_key, "user_stop") is not None

    async def decide(
        self, session_key: SessionKey, decision: Decision, *, by: str, role: Role, question: EntryId = ""
    ) -> str:
        """Answer a call that waits for approval (``question`` is its ``Waiting`` event's id); return a sentence for ``by``.

        The decision is on disk on return, unless the disk refuses.

        Raises:
            SessionBusy: another process holds the session.
        """
        return await self.loop.decide(session_key, decision, by=by, role=role, question=question)

    # -- for channels ----------------------------------------------------------------------------------------------------------

    async def accept(self, message: InboundMessage) -> Acceptance:
        """Take a message in: durable on return, unless it says otherwise."""
        return await self.loop.accept(message)

    async def record(self, out: str, session_key: SessionKey, part: int, state: str, ref: str | None) -> None:
        """Write down what became of a part of an owed answer."""
        async with self.sessions.open(session_key) as session:
            await session.restore()
            await session.append(Delivery(id=session.log.new_id(), out=out, part=part, state=state, ref=ref))

    async def moved(self, session_key: SessionKey, new: SessionKey) -> None:
        """Write down that a session's chat has a new id, which would make the key ``new``: its answers go there from now on."""
        async with self.sessions.open(session_key) as session:
            await session.restore()
            if session.log.is_empty or session.log.chat == new:
                return
            await session.append(Moved(id=session.log.new_id(), old=session.log.chat, new=new), sync=True)

    async def resume(self, session_key: SessionKey) -> None:
        """Take up what an earlier process left in one session: an open Turn, pending messages, owed answers."""
        await self.loop.resume(session_key)

    async def run(self) -> None:
        """Work on what the bus brings, until cancelled or closed."""
        await self.loop.run()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.sessions.sweep()


def owner() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
