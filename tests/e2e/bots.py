"""The facade against the strict model server, and what must be true of its logs at any time."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from nanobot.agent.settings import AgentSettings
from nanobot.app import Nanobot
from nanobot.config.settings import Settings
from nanobot.messages import AssistantMessage, ToolMessage
from nanobot.providers.base import LLMProvider
from nanobot.providers.factory import build_one
from nanobot.providers.fallback import Fallback
from nanobot.providers.retry import Retrying
from nanobot.providers.settings import (
    AnthropicSettings,
    OpenAISettings,
    ProviderSettings,
    RetrySettings,
    TimeoutSettings,
)
from nanobot.session.entries import Entry, Finished, Started, Step
from nanobot.session.jsonl import JsonlStore
from nanobot.session.log import SessionLog
from nanobot.session.settings import SessionSettings
from tests.fakes.llm_server import LLMServer

Wire = Literal["openai", "anthropic"]
WIRES: Sequence[Wire] = ("openai", "anthropic")
KEY = "script:wires"
QUICK = RetrySettings(attempts=3, base_s=0.001, cap_s=0.01)


def provider_settings(server: LLMServer, wire: Wire, **timeouts: float) -> ProviderSettings:
    """Return what a config would say about this server."""
    limits = TimeoutSettings(**timeouts)
    if wire == "anthropic":
        return AnthropicSettings.model_validate({"api_key": "test-key", "base_url": server.url, "timeouts": limits})
    return OpenAISettings.model_validate({"api_key": "test-key", "base_url": f"{server.url}/v1", "timeouts": limits})


def settings_for(server: LLMServer, wire: Wire, home: Path, **agent: Any) -> Settings:  # Any: the agent's settings
    """Return settings with both wires configured, of which the agent uses ``wire``."""
    others = [f"{other}/test-model" for other in WIRES if other != wire]
    return Settings(
        workspace=home / "workspace",
        data_dir=home / "data",
        providers={name: provider_settings(server, name) for name in WIRES},
        agent=AgentSettings.model_validate({"model": [f"{wire}/test-model", *others], **agent}),
    )


def bot_on(
    server: LLMServer,
    wire: Wire,
    home: Path,
    *,
    tools: Iterable[Any] = (),  # Any: tools or functions
    provider: LLMProvider | None = None,
    **agent: Any,  # Any: the agent's settings
) -> Nanobot:
    """Return a bot of one process over ``home``; a second one is the process after a restart."""
    settings = settings_for(server, wire, home, **agent)
    return Nanobot.from_settings(settings, environ={}, tools=tools, provider=provider)


def impatient(server: LLMServer, wire: Wire, **timeouts: float) -> LLMProvider:
    """Return the configured provider with waits that a test can afford."""
    one = build_one(wire, provider_settings(server, wire, **timeouts), environ={})
    return Retrying(one, QUICK)


def chain(*providers: LLMProvider) -> LLMProvider:
    """Return a chain of these, each for ``test-model``."""
    return Fallback([(provider, "test-model") for provider in providers])


async def entries_of(home: Path, key: str = KEY) -> list[Entry]:
    """Return a session's whole log, oldest first, as another process reads it."""
    store = JsonlStore(home / "data", settings=SessionSettings(), owner="reader")
    try:
        return list(reversed(await store.read(key, before=None, limit=1_000_000)))
    finally:
        await store.close()


async def log_of(home: Path, key: str = KEY) -> SessionLog:
    """Return the fold of a session's log on disk."""
    log = SessionLog(key)
    log.extend(await entries_of(home, key))
    return log


async def log_faults(home: Path, key: str = KEY) -> list[str]:
    """Return what is wrong with a session's log when nothing runs: open work, unanswered calls, ids twice, bad lines."""
    entries = await entries_of(home, key)
    faults = [*_bad_lines(home), *_call_faults(entries)]
    ids = [entry.id for entry in entries]
    faults += [f"id {one} stands twice" for one in set(ids) if ids.count(one) > 1]
    log = SessionLog(key)
    log.extend(entries)
    if log.open:
        faults.append(f"{log.open.turn} is open")
    return faults + [f"{one} is pending" for one in log.pending]


def _call_faults(entries: Iterable[Entry]) -> list[str]:
    asked: list[str] = []
    answered: list[str] = []
    for entry in entries:
        messages = (entry.message,) if isinstance(entry, Started | Step) else ()
        for message in entry.closes if isinstance(entry, Finished) else messages:
            if isinstance(message, AssistantMessage):
                asked += [call.id for call in message.tool_calls]
            elif isinstance(message, ToolMessage):
                answered.append(message.call_id)
    faults = [f"call {one} has {answered.count(one)} results" for one in asked if answered.count(one) != 1]
    faults += [f"call id {one} stands twice" for one in set(asked) if asked.count(one) > 1]
    return faults + [f"result of unknown call {one}" for one in answered if one not in asked]


def _bad_lines(home: Path) -> list[str]:
    faults: list[str] = []
    for path in (home / "data").rglob("*.jsonl"):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                json.loads(line.decode("utf-8"))
            except ValueError as error:
                faults.append(f"line {number} of {path.name}: {error}")
    if any((home / "data").rglob("quarantine/*")):
        faults.append("something is in quarantine")
    return faults
