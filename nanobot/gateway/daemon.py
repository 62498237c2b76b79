"""The gateway: one ``Nanobot``, its channels, and what watches over them; started and ended in order.

Starting: locks → channels listen, while what an earlier process left is taken up → ready.  Ending, each step with a deadline:
channels stop listening → running Turns get a grace time → the rest is left to be resumed → owed answers go out → everything is
closed.  Nothing is lost by leaving any of it out: the logs know what is open.
"""

import asyncio
import gc
import hashlib
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from os import getpid
from pathlib import Path

from nanobot.agent.commands import COMMANDS, Restart
from nanobot.agent.fetching import nowhere
from nanobot.agent.tools.sandbox.advice import concern
from nanobot.app import Nanobot, owner
from nanobot.bus.events import Media, SessionKey
from nanobot.channels.base import Channel, Fetching
from nanobot.channels.manager import ChannelManager
from nanobot.channels.registry import ChannelPorts, answer_splitter, build_channel, file_limits
from nanobot.channels.supervisor import ChannelBoard, Noting, Restarts, Supervisor
from nanobot.config.places import exposures
from nanobot.config.secrets import secrets_in
from nanobot.config.settings import Settings, home
from nanobot.errors import ConfigError, SessionBusy
from nanobot.gateway.announce import SEND_S, Announcer
from nanobot.gateway.facts import LoopLag, Observer
from nanobot.gateway.health import Health, Limits, judge
from nanobot.gateway.http import HOST, PageServer
from nanobot.gateway.ledger import Ledger
from nanobot.gateway.measured import Measured
from nanobot.gateway.metrics import Metrics
from nanobot.gateway.notify import Notifier
from nanobot.gateway.prices import Prices
from nanobot.gateway.report import report
from nanobot.gateway.status import LOCK_NAME, StatusServer
from nanobot.messages import JsonObject
from nanobot.providers.around import warm
from nanobot.providers.base import LLMProvider
from nanobot.session.locks import hold

log = logging.getLogger("nanobot.gateway")

BEAT_S = 1.0
FIRST_ROUND_S = (
    10.0  # how long readiness waits for the channels' first rounds; a network that is away must not stop the start
)
STOP_S = 15.0  # what stopping Turns, and then closing everything, may take beyond the grace time, each

Ports = Callable[[str], ChannelPorts]


class Gateway:
    """Build it, then ``run`` it once.

    Args:
        settings: the whole configuration.
        config_path: the file it came from.
        environ: the environment.
        make_channels: builds the channels, given the ports of one by its name.
        restarts: how patiently channels are started again.
        limits: from when on something is wrong.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        config_path: Path | None,
        environ: Mapping[str, str],
        make_channels: Callable[[Settings, Ports], Sequence[Channel]] | None = None,
        restarts: Restarts = Restarts(),  # noqa: B008  # frozen
        limits: Limits = Limits(),  # noqa: B008  # frozen
    ) -> None:
        self.settings = settings
        self._limits = limits
        self._config_path = config_path
        self._environ = environ
        self._notifier = Notifier(environ)
        self._metrics = Metrics()
        self._prices = Prices(settings.providers)
        self.bot = Nanobot.from_settings(
            settings,
            config_path=config_path,
            environ=environ,
            around=self._measured,
            split=answer_splitter(settings.channels),
            fetch=self._fetch,
            restart=lambda: self._restart(),
            max_file_bytes=file_limits(settings.channels),
        )
        self._restart: Restart = lambda: "this process does not start over"
        self._model = self.bot.models.resolve(None)  # a model that cannot be built stops the start
        self._board = ChannelBoard(self.bot.events.publish)
        self._ledger = Ledger(self.bot.record)
        self._channels = (make_channels or configured_channels)(settings, self._ports)
        self._manager = ChannelManager(
            map(self._ledger.timed, self._channels), record=self._ledger.record, publish=self.bot.events.publish
        )
        self._announcer = Announcer(settings.gateway.announce, {channel.name: channel for channel in self._channels})
        self._supervisor = Supervisor(self._channels, accept=self.bot.accept, board=self._board, restarts=restarts)
        self._lag = LoopLag()
        self._observer = Observer(self.bot, board=self._board, ledger=self._ledger, lag=self._lag)
        self._status = StatusServer(settings.data_dir, self.snapshot)
        port = settings.gateway.health_port
        self._pages = (
            None if port is None else PageServer({"/healthz": self._healthz, "/metrics": self._prometheus}, port=port)
        )
        self._commands = "the sandbox is being tried"
        self._began = time.monotonic()
        self._began_at = datetime.now(UTC)

    def _measured(self, provider: LLMProvider) -> LLMProvider:
        return Measured(provider, self._metrics, prices=self._prices)

    @property
    def has_abandoned(self) -> bool:
        """Whether there are listeners that cannot be stopped, so that the process cannot end by itself."""
        return bool(self._supervisor.abandoned)

    @property
    def ending_s(self) -> float:
        """How long ending in order takes at most."""
        return ending_s(self.settings)

    def health(self) -> Health:
        """Judge how we are now."""
        return judge(self._observer.facts(), self._limits)

    async def run(
        self,
        ending: asyncio.Event,
        *,
        restarts_after: Callable[[], bool] = lambda: False,
        restart: Restart | None = None,
    ) -> None:
        """Run until ``ending`` is set, then end in order.

        Args:
            ending: set to end it.
            restarts_after: whether a new gateway follows in this process, when it ends.
            restart: sets ``ending`` for a new gateway to follow, or says why not.

        Raises:
            SessionBusy: another gateway has the data directory or a bot's token; names it.
            ExceptionGroup: a part failed for good; only a new process helps.
        """
        self._restart = restart or self._restart
        with self._locks():
            async with self.bot:
                self.bot.events.observe(self._metrics.observe)
                self.bot.events.observe(report)
                await asyncio.to_thread(self._warn_of_open_files)
                try:
                    await self._run(ending, restarts_after)
                finally:
                    await self._close_servers()

    def _warn_of_open_files(self) -> None:
        for text in exposures(self._config_path, self.settings.data_dir, secrets_in(self.settings)):
            log.warning("%s", text)

    async def _run(self, ending: asyncio.Event, restarts_after: Callable[[], bool]) -> None:
        await self._start_servers()
        async with asyncio.TaskGroup() as group:
            beat = group.create_task(self._beat(), name="heartbeat")
            group.create_task(self.bot.run(), name="core")
            outbound = self._ledger.watch(self.bot.bus.outbound)
            outbox = group.create_task(self._manager.run(outbound), name="outbox")
            recovering = group.create_task(self.bot.loop.recover(), name="recover")  # many long logs take a while
            listening = group.create_task(self._supervisor.run(), name="channels")
            await self._first_rounds()
            self._notifier.status(self._headline())
            self._notifier.ready()
            log.info("ready: %s", self._headline())
            if not self._channels:
                log.warning("no channels are configured: nobody can reach it; `nanobot init` adds one")
            courtesies = [
                group.create_task(self._warm(), name="warm the model"),
                group.create_task(self._announcer.up(self._board), name="announce"),
                group.create_task(self._try_sandbox(), name="try the sandbox"),
            ]
            await ending.wait()
            self._notifier.reloading() if restarts_after() else self._notifier.stopping()
            log.info("ending")
            for task in (recovering, *courtesies):
                task.cancel()
            await self._end_in_order(listening, outbox, says_so=not restarts_after())
            beat.cancel()

    async def _end_in_order(
        self, listening: "asyncio.Task[None]", outbox: "asyncio.Task[None]", *, says_so: bool
    ) -> None:
        gateway = self.settings.gateway
        listening.cancel()
        await asyncio.wait({listening})  # the supervisor has deadlines of its own
        self.bot.bus.inbound.close()
        closing = asyncio.create_task(self.bot.loop.shutdown(grace_s=gateway.shutdown_grace_s), name="end Turns")
        _, late = await asyncio.wait({closing}, timeout=gateway.shutdown_grace_s + STOP_S)
        if late:
            log.error("Turns did not end in time and are left to be resumed: %s", ", ".join(self.bot.loop.running))
            closing.cancel()
        self.bot.bus.outbound.close()
        _, late = await asyncio.wait({outbox}, timeout=gateway.flush_s)
        if late:
            log.warning("not all answers went out in time; they stay owed and go out after the next start")
            outbox.cancel()
        if says_so:
            await self._announcer.ending()
        await self._supervisor.close(timeout_s=STOP_S)

    async def _first_rounds(self) -> None:
        try:
            async with asyncio.timeout(FIRST_ROUND_S):
                await self._board.settled()
        except TimeoutError:
            log.warning("ready, but not every channel has reached its platform yet")

    async def _warm(self) -> None:
        """Load what the first Turn would wait for.  A failure is that Turn's to tell."""
        try:
            await warm(self._model.provider)
            await self._prices.load()
        except Exception:  # whatever an SDK does when it is loaded, the daemon goes on
            log.exception("the model's client could not be loaded")
        gc.freeze()  # what was imported stays; each full look for garbage would stop everything for 70 ms to see that again

    async def _try_sandbox(self) -> None:
        """Find out what keeps commands in, before the first one, and say so."""
        if self.bot.tools.get("exec") is None:
            self._commands = "there is no exec"
            return
        state = await asyncio.to_thread(self.bot.sandbox.state, self.settings.workspace)
        self._commands = state.text
        if text := concern(state):
            log.warning("%s", text)
        else:
            log.log(logging.WARNING if state.kind == "off" else logging.INFO, "sandbox of commands: %s", state.text)

    async def _beat(self) -> None:
        """Measure, judge, and tell systemd, once a second."""
        beat_s = min(BEAT_S, (self._notifier.watchdog_s or BEAT_S * 3) / 3)
        was = Health()
        while True:
            due = time.monotonic() + beat_s
            await asyncio.sleep(beat_s)
            self._lag.note(time.monotonic() - due)
            health = self.health()
            if health.alive:
                self._notifier.alive()
            self._notifier.status(self._headline())
            if {problem.name for problem in health.problems} != {problem.name for problem in was.problems}:
                log.log(logging.INFO if not health.problems else logging.WARNING, "health: %s", health.summary)
            was = health

    # -- what is shown ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> JsonObject:
        """Return what ``nanobot status`` prints."""
        facts = self._observer.facts()
        health = judge(facts, self._limits)
        notes = {channel.name: channel.note for channel in self._channels if isinstance(channel, Noting)}
        return {
            "pid": getpid(),
            "version": version("nanobot"),
            "started_at": self._began_at.isoformat(timespec="seconds"),
            "uptime_s": round(time.monotonic() - self._began, 1),
            "config": str(self._config_path) if self._config_path else None,
            "data_dir": str(self.settings.data_dir),
            "models": list(self.settings.models),
            "commands": self._commands,
            "health_url": self._health_url,
            "alive": health.alive,
            "problems": [problem.text for problem in health.problems],
            "channels": [
                {
                    "name": name,
                    "state": one.state,
                    "detail": one.told(notes.get(name, ""), now=facts.now),
                    "for_s": round(facts.now - one.since, 1),
                    "restarts": one.restarts,
                    "last_round_s": None if one.progress_at is None else round(facts.now - one.progress_at, 1),
                    "owed": facts.outboxes[name].owed if name in facts.outboxes else 0,
                }
                for name, one in facts.channels.items()
            ],
            "turns": [{"session": key, "doing": doing} for key, doing in self.bot.loop.running.items()],
            "mcp": [{"name": name, "state": state, "line": line} for name, state, line in self.bot.mcp.states()],
            "jobs": self.bot.jobs.count,
            "pending": facts.pending,
            "disk": facts.refusing,
            "loop_lag_s": round(facts.lag_s, 3),
        }

    def _headline(self) -> str:
        channels = ", ".join(f"{name} {one.state}" for name, one in self._board.facts.items())
        return f"{channels or 'no channels'}; {len(self.bot.loop.running)} Turns"

    def _healthz(self) -> tuple[int, str]:
        health = self.health()
        return (200 if health.alive else 503), f"{'alive' if health.alive else 'dead'}: {health.summary}\n"

    def _prometheus(self) -> tuple[int, str]:
        facts = self._observer.facts()
        return 200, self._metrics.render(facts, judge(facts, self._limits), uptime_s=time.monotonic() - self._began)

    @property
    def _health_url(self) -> str | None:
        return f"http://{HOST}:{self._pages.port}" if self._pages is not None and self._pages.port else None

    # -- what is held ----------------------------------------------------------------------------------------------------------

    async def _start_servers(self) -> None:
        try:
            await self._status.start()
        except OSError as error:  # the work can be done without it
            log.warning("nanobot status will find nobody: %s", error.strerror or error)
        if self._pages is not None:
            await self._pages.start()
            log.info("health and metrics at %s/healthz and %s/metrics", self._health_url, self._health_url)

    async def _close_servers(self) -> None:
        await self._status.close()
        if self._pages is not None:
            await self._pages.close()

    @contextmanager
    def _locks(self) -> Generator[None]:
        """Hold the data directory, and each bot's token, against every other gateway."""
        with ExitStack() as stack:
            for path, what in self._lock_files():
                try:
                    stack.enter_context(hold(path, owner(), what=what))
                except SessionBusy as error:
                    fix = "`nanobot status` shows it; stop it first, or give this one its own"
                    raise SessionBusy(f"another gateway is running: {error} {fix}", owner=error.owner) from None
                except OSError as error:
                    why = error.strerror or type(error).__name__
                    raise ConfigError(f"{what} cannot be used: {path.parent}: {why}") from None
            yield

    def _lock_files(self) -> list[tuple[Path, str]]:
        found = [(self.settings.data_dir / LOCK_NAME, f"data_dir {str(self.settings.data_dir)!r}")]
        for name, channel in self.settings.channels.items():
            if channel.enabled:
                digest = hashlib.sha256(channel.token.get_secret_value().encode()).hexdigest()[:16]
                found.append(
                    (home(self._environ) / "locks" / f"bot-{digest}.lock", f"the bot token of channel {name!r}")
                )
        return found

    async def _fetch(self, name: str, media: Media) -> Media:
        channel = next((channel for channel in self._channels if channel.name == name), None)
        if not isinstance(channel, Fetching):
            return await nowhere(name, media)
        return await channel.fetch(media)

    def _ports(self, name: str) -> ChannelPorts:
        async def stop(key: SessionKey) -> bool:
            return await self.bot.stop(key)

        return ChannelPorts(
            events=self.bot.events,
            record=self._ledger.record,
            stop=stop,
            decide=self.bot.decide,
            moved=self.bot.moved,
            progress=self._board.progress_of(name),
            data_dir=self.settings.data_dir,
            commands={command.name: command.help for command in COMMANDS.values()},
        )


def configured_channels(settings: Settings, ports: Ports) -> list[Channel]:
    """Build the channels that the configuration enables."""
    return [build_channel(name, channel, ports(name)) for name, channel in settings.channels.items() if channel.enabled]


def ending_s(settings: Settings) -> float:
    """Return how long ending in order takes at most, in seconds."""
    gateway = settings.gateway
    steps = (Restarts().stop_s, gateway.shutdown_grace_s, STOP_S, gateway.flush_s, SEND_S, STOP_S)
    return sum(steps) + settings.session.close_timeout_s + STOP_S
