"""The tools that come with nanobot, built from the settings."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

from nanobot.agent.tools.base import Tool
from nanobot.agent.tools.files.listing import ListDir
from nanobot.agent.tools.files.patch import ApplyPatch
from nanobot.agent.tools.files.paths import PathRules
from nanobot.agent.tools.files.read import ReadFile
from nanobot.agent.tools.files.send_file import SendFile
from nanobot.agent.tools.files.write import EditFile, WriteFile
from nanobot.agent.tools.read_result import ReadResult
from nanobot.agent.tools.registry import DEFAULT_MAX_CHARS
from nanobot.agent.tools.sandbox.sandbox import Sandbox
from nanobot.agent.tools.search.glob import Glob
from nanobot.agent.tools.search.grep import Grep
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.agent.tools.settings import BUILTIN_TOOLS, ToolSettings
from nanobot.agent.tools.shell.command import Launcher, child_environment
from nanobot.agent.tools.shell.exec import Exec
from nanobot.agent.tools.shell.job_tools import job_tools
from nanobot.agent.tools.shell.jobs import Jobs
from nanobot.agent.tools.web.build import web_tools
from nanobot.errors import ConfigError


def builtin_tools(
    settings: ToolSettings,
    *,
    environ: Mapping[str, str],
    denied: Sequence[Path] = (),
    extra_roots: Sequence[Path] = (),
    default_max_chars: int = DEFAULT_MAX_CHARS,
    sandbox: Sandbox | None = None,
    others: Collection[str] = (),
    jobs: Jobs | None = None,
) -> list[Tool[Any]]:
    """Return the tools that the settings want.

    Args:
        settings: the ``tools`` part of the configuration.
        environ: our environment; commands get an allow-listed part of it.
        denied: files and directories that stay closed to tools: the config file, the data directory.
        extra_roots: directories outside the workspace that file tools may use, such as received media.
        default_max_chars: the budget of a result, as the registry has it.
        sandbox: what commands run in; None runs them with our rights.
        others: names that are no tools of ours and may be turned off too.
        jobs: what runs in the background; who gives them closes them.

    Raises:
        ConfigError: ``tools.disabled`` names no tool.
    """
    rules = PathRules(settings.restrict_to_workspace, tuple(extra_roots), tuple(denied))
    limit = settings.limits.get
    jobs = jobs or Jobs(Path(gettempdir()) / f"nanobot-jobs-{uuid4().hex}")  # made when it is needed
    confine = sandbox.wrap if sandbox else None
    command = Exec(
        Launcher(rules, child_environment(environ, settings.exec.env_pass), confine=confine),
        jobs,
        timeout_s=settings.exec.timeout_s,
        sandbox=sandbox,
    )
    tools: list[Tool[Any]] = [
        ReadFile(rules, max_chars=limit("read_file", default_max_chars)),
        ListDir(rules),
        WriteFile(rules),
        EditFile(rules),
        ApplyPatch(rules),
        Glob(rules),
        Grep(rules, SecretPaths(settings.secret_paths)),
        SendFile(rules),
        ReadResult(max_chars=limit("read_result", default_max_chars)),
        command,
        *job_tools(jobs, outward=command.outward),
        *web_tools(settings.web, environ=environ),
    ]
    known = {*(tool.name for tool in tools), *BUILTIN_TOOLS, *others}
    if unknown := [name for name in settings.disabled if name not in known]:
        raise ConfigError(
            f"tools.disabled names {unknown[0]!r}, which is no tool; there are {', '.join(sorted(known))}."
        )
    off = {*settings.disabled, *(() if settings.exec.enabled else ("exec",))}
    if "exec" in off:
        off.update(tool.name for tool in job_tools(jobs, outward=False))
    return [tool for tool in tools if tool.name not in off]
