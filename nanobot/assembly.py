"""How the larger parts are built from the settings, for ``app``.  Each is a value; who asked for it owns and closes it."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from nanobot.agent.approvals import Approvals
from nanobot.agent.context import ContextBuilder
from nanobot.agent.fetching import Fetch, Files
from nanobot.agent.gates import Gate
from nanobot.agent.labels import Labels
from nanobot.agent.rule_gate import RuleGate
from nanobot.agent.rules import placed
from nanobot.agent.run_stage import RunStage
from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.builtin import builtin_tools
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.function import function_tool
from nanobot.agent.tools.mcp.servers import McpServers
from nanobot.agent.tools.packages import packaged_tools
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.agent.tools.settings import BUILTIN_TOOLS
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.agent.unsandboxed import AskUnsandboxed
from nanobot.bus.events import Route
from nanobot.config.settings import Settings
from nanobot.redaction import Redactor

log = logging.getLogger(__name__)


def command_sandbox(
    settings: Settings, *, environ: Mapping[str, str], config_path: Path | None, media: Path
) -> Sandbox:
    """Return what commands run in: it hides the config file and the data directory, and shows received media."""
    return Sandbox(
        settings.tools.sandbox,
        data_dir=settings.data_dir,
        secret_files=[config_path] if config_path else [],
        home=environ.get("HOME"),
        shared=media,
        path=environ.get("PATH"),
    )


def background_jobs(settings: Settings) -> Jobs:
    """Return what keeps background jobs."""
    given = settings.tools.exec
    return Jobs(settings.data_dir / "jobs", per_session=given.max_jobs, in_all=given.max_jobs_in_all)


def own_gates(settings: Settings, tools: ToolRegistry, sandbox: Sandbox) -> tuple[Gate, ...]:
    """Return the gates that each call passes after a script's own: the rules, and the word about a missing sandbox."""
    given = settings.tools
    rules = placed(given.rules, ask_before=given.ask_before, is_confined=given.restrict_to_workspace)
    by_rule = RuleGate(rules, tools, outward=given.outward, secret_paths=SecretPaths(given.secret_paths))
    return (by_rule, AskUnsandboxed(sandbox))


def stage_of_runs(
    settings: Settings,
    *,
    tools: ToolRegistry,
    gates: Sequence[Gate],
    jobs: Jobs,
    media: Path,
    fetch: Fetch,
    decides: bool,
    max_file_bytes: Callable[[Route], int | None],
    config_path: Path | None,
) -> RunStage:
    """Return the RUN state, and with it what makes prompts, asks people and fetches files."""
    agent = settings.agent
    zone = ZoneInfo(agent.timezone) if agent.timezone else None
    rules = PathRules(settings.tools.restrict_to_workspace, denied=closed_places(settings, config_path))
    return RunStage(
        settings=agent,
        tools=tools,
        builder=ContextBuilder(settings.workspace, agent.system_prompt, zone, rules),
        scratch=settings.data_dir / "scratch",
        slots=asyncio.Semaphore(agent.concurrency),
        now=lambda: datetime.now(UTC),
        approvals=Approvals(expires_s=settings.tools.approval_timeout_s),
        scripts_decide=decides,
        labels=Labels(SecretPaths(settings.tools.secret_paths)),
        files=Files(fetch, agent.fetch_timeout_s),
        gates=gates,
        jobs=jobs,
        media=media,
        max_file_bytes=max_file_bytes,
    )


def tool_registry(
    settings: Settings,
    own: Iterable[Tool[Any]],
    *,
    environ: Mapping[str, str],
    config_path: Path | None,
    media: Path,
    sandbox: Sandbox,
    redact: Redactor,
    mcp: McpServers,
    jobs: Jobs,
) -> ToolRegistry:
    """Return the built-in tools and those of packages with a script's own, which win over those of the same name."""
    most_chars = settings.agent.max_tool_result_chars
    packaged = packaged_tools(disabled=settings.tools.disabled, taken=BUILTIN_TOOLS)
    for fault in packaged.faults:
        log.warning("%s", fault)
    builtin = builtin_tools(
        settings.tools,
        environ=environ,
        denied=closed_places(settings, config_path),
        extra_roots=[media],
        default_max_chars=most_chars,
        sandbox=sandbox,
        others=packaged.names,
        jobs=jobs,
    )
    given = list(own)
    named = {tool.name for tool in given}
    return ToolRegistry(
        [*(tool for tool in (*builtin, *packaged.tools, *mcp.tools()) if tool.name not in named), *given],
        redact=redact,
        default_max_chars=most_chars,
        limits=settings.tools.limits,
        sources=mcp.sources,
        absent=mcp.absent,
    )


def closed_places(settings: Settings, config_path: Path | None) -> tuple[Path, ...]:
    """Return what nothing that a model chooses may read: our data and our configuration."""
    return (settings.data_dir, *([config_path] if config_path else []))


def as_tool(given: Tool[Any] | Callable[..., object]) -> Tool[Any]:
    """Return a tool as it is, and a function as a tool."""
    return function_tool(given) if inspect.isroutine(given) else cast("Tool[Any]", given)
