"""Commands of commands: ``sessions``, ``mcp`` and ``service``.  Each imports what it needs when it runs."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from nanobot.cli.leaving import Config, exit_with

if TYPE_CHECKING:
    from nanobot.cli.service import Service

sessions = typer.Typer(help="Look at conversations.", rich_markup_mode=None, no_args_is_help=True)
mcp = typer.Typer(help="Look at MCP servers.", rich_markup_mode=None, no_args_is_help=True)
service = typer.Typer(help="Keep the daemon running under systemd.", rich_markup_mode=None, no_args_is_help=True)


class ExportFormat(StrEnum):
    """What ``sessions export`` writes."""

    turns = "turns"
    jsonl = "jsonl"
    markdown = "markdown"


System = Annotated[bool, typer.Option("--system", help="A service of the machine instead of one's own; needs root.")]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="The service's name, if there are several.")]


@service.command("install")
def service_install(
    config: Config = None,
    system: System = False,
    name: Name = "nanobot",
    run_as: Annotated[str | None, typer.Option("--run-as", metavar="USER", help="Whose a --system service is.")] = None,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it now.")] = True,
) -> None:
    """Write the unit, enable it and start it."""
    from nanobot.cli.service import install

    exit_with(lambda: install(_service(name, system, run_as), config, starts=start))


@service.command("uninstall")
def service_uninstall(system: System = False, name: Name = "nanobot") -> None:
    """Stop it and remove the unit."""
    from nanobot.cli.service import uninstall

    exit_with(lambda: uninstall(_service(name, system)))


@service.command("start")
def service_start(system: System = False, name: Name = "nanobot") -> None:
    """Start it."""
    _control("start", name, system)


@service.command("stop")
def service_stop(system: System = False, name: Name = "nanobot") -> None:
    """Stop it in order."""
    _control("stop", name, system)


@service.command("restart")
def service_restart(system: System = False, name: Name = "nanobot") -> None:
    """Stop it in order and start it again."""
    _control("restart", name, system)


@service.command("status")
def service_status(system: System = False, name: Name = "nanobot") -> None:
    """Show what systemd knows of it."""
    _control("status", name, system)


@service.command("logs")
def service_logs(
    system: System = False,
    name: Name = "nanobot",
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many of the last lines.")] = 100,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as new lines come.")] = False,
) -> None:
    """Show its log."""
    from nanobot.cli.service import logs

    exit_with(lambda: logs(_service(name, system), lines=lines, follows=follow))


@mcp.command("list")
def mcp_list(config: Config = None) -> None:
    """Connect to each server and show what it offers."""
    from nanobot.cli.mcp import list_servers

    exit_with(lambda: list_servers(config))


@mcp.command("login")
def mcp_login(name: str, config: Config = None) -> None:
    """Log in to a server that wants OAuth."""
    from nanobot.cli.mcp import log_in

    exit_with(lambda: log_in(name, config))


@sessions.command("list")
def sessions_list(config: Config = None) -> None:
    """List conversations, the newest first."""
    from nanobot.cli.sessions import list_sessions

    exit_with(lambda: list_sessions(config))


@sessions.command("show")
def sessions_show(key: str, config: Config = None) -> None:
    """Print a conversation for reading."""
    from nanobot.cli.sessions import export_session

    exit_with(lambda: export_session(config, key, "markdown"))


@sessions.command("export")
def sessions_export(
    key: str,
    config: Config = None,
    form: Annotated[
        ExportFormat,
        typer.Option("--format", help="turns: a JSON line a Turn; jsonl: a JSON line an entry; markdown: for reading."),
    ] = ExportFormat.turns,
) -> None:
    """Print a conversation for other programs."""
    from nanobot.cli.sessions import export_session

    exit_with(lambda: export_session(config, key, form.value))


@sessions.command("repair")
def sessions_repair(
    key: Annotated[str | None, typer.Argument(help="Which one; all of them without.")] = None, config: Config = None
) -> None:
    """Show what is wrong in conversations' logs, and mend it; nothing is thrown away."""
    from nanobot.cli.mending import repair_sessions

    exit_with(lambda: repair_sessions(config, key))


@sessions.command("fork")
def sessions_fork(
    key: str,
    at: Annotated[
        str, typer.Option("--at", metavar="TURN", help="The last Turn of the copy, as sessions export names it.")
    ],
    new_key: Annotated[str | None, typer.Option("--as", metavar="NEWKEY", help="The copy's key; printed.")] = None,
    config: Config = None,
) -> None:
    """Copy a conversation up to a Turn, to go on from there."""
    from nanobot.cli.mending import fork_session

    exit_with(lambda: fork_session(config, key, at, new_key))


def _service(name: str, is_system: bool, run_as: str | None = None) -> "Service":
    from nanobot.cli.service import Service
    from nanobot.config.environment import environment

    return Service(environ=environment(), name=name, is_system=is_system, run_as=run_as)


def _control(verb: str, name: str, is_system: bool) -> None:
    from nanobot.cli.service import control

    exit_with(lambda: control(_service(name, is_system), verb))
