"""The commands and their arguments.  Each imports what it needs when it runs, so that ``--help`` is quick."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from nanobot.cli.streams import write_err, write_out
from nanobot.errors import ConfigError, MisuseError, NanobotError

if TYPE_CHECKING:
    from nanobot.cli.service import Service

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

app = typer.Typer(
    name="nanobot",
    help="A self-hosted personal agent that lives in chat.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)
sessions = typer.Typer(help="Look at conversations.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(sessions, name="sessions")
mcp = typer.Typer(help="Look at MCP servers.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(mcp, name="mcp")
service = typer.Typer(help="Keep the daemon running under systemd.", rich_markup_mode=None, no_args_is_help=True)
app.add_typer(service, name="service")

Config: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration file instead of ~/.nanobot/config.yaml.")
]


class ExportFormat(StrEnum):
    """What ``sessions export`` writes."""

    turns = "turns"
    jsonl = "jsonl"
    markdown = "markdown"


class LogFormat(StrEnum):
    """How a log line looks."""

    text = "text"
    json = "json"


class MessageList(StrEnum):
    """The four message lists of a Turn."""

    session = "session"
    history = "history"
    initial = "initial"
    model = "model"


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """A self-hosted personal agent that lives in chat."""


@app.command()
def agent(
    message: Annotated[
        str | None, typer.Option("-m", "--message", metavar="TEXT", help="Ask this and leave; piped input is added.")
    ] = None,
    session: Annotated[
        str, typer.Option("--session", metavar="KEY", help="The conversation to go on with.")
    ] = "cli:direct",
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with the whole result.")] = False,
) -> None:
    """Ask one thing (-m, or piped input), or chat."""
    from nanobot.cli.agent import run_agent

    _exit_with(lambda: run_agent(message=message, session_key=session, config=config, as_json=as_json))


@app.command()
def init(
    config: Config = None,
    provider: Annotated[
        str | None,
        typer.Option(help="anthropic, openai, ollama, lmstudio, llamacpp, vllm, offline, or a name of yours."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="ID", help="Which of its models.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="The environment variable that holds the key.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's address, if it is your own.")
    ] = None,
    telegram_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="A bot's token; better in TELEGRAM_BOT_TOKEN than here.")
    ] = None,
    telegram_base_url: Annotated[str | None, typer.Option(metavar="URL", hidden=True)] = None,
    allow_from: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Who may talk to the bot; can be given several times.")
    ] = None,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Try model and bot before writing.")] = True,
    chat: Annotated[bool, typer.Option("--chat/--no-chat", help="Begin a first chat afterwards.")] = True,
) -> None:
    """Set up: ask, try the answers, write the configuration."""
    from nanobot.cli.init import init as run
    from nanobot.setup.wizard import Wishes

    wishes = Wishes(
        provider=provider,
        model=model,
        api_key_env=api_key_env,
        base_url=base_url,
        telegram_token=telegram_token,
        telegram_base_url=telegram_base_url,
        allow_from=tuple(allow_from or ()),
        checks=check,
    )
    _exit_with(lambda: run(config, wishes, chats=chat))


@app.command()
def gateway(
    config: Config = None,
    log_format: Annotated[
        LogFormat | None, typer.Option("--log-format", help="How log lines look, instead of log.format.")
    ] = None,
) -> None:
    """Run the daemon with all configured channels, until it is ended."""
    from nanobot.cli.gateway import start_gateway

    _exit_with(lambda: start_gateway(config, log_format.value if log_format else None))


@app.command()
def pair(
    code: str,
    config: Config = None,
    as_owner: Annotated[bool, typer.Option("--owner", help="With the owner's rights.")] = False,
) -> None:
    """Let in whoever was given this code by a bot."""
    from nanobot.cli.pair import approve

    _exit_with(lambda: approve(code, config, as_owner=as_owner))


@app.command()
def doctor(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of findings.")] = False,
    ask: Annotated[bool, typer.Option("--ask/--no-ask", help="Try the models and bots, too.")] = True,
) -> None:
    """Look for what is wrong, and say what mends it."""
    from nanobot.cli.doctor import doctor as run

    _exit_with(lambda: run(config, as_json=as_json, asks=ask))


@app.command()
def status(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how the running daemon is."""
    from nanobot.cli.status import show_status

    _exit_with(lambda: show_status(config, as_json=as_json))


@app.command()
def tools(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the tools, and what the rules say of them to whom."""
    from nanobot.cli.tools import list_tools

    _exit_with(lambda: list_tools(config, as_json=as_json))


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

    _exit_with(lambda: install(_service(name, system, run_as), config, starts=start))


@service.command("uninstall")
def service_uninstall(system: System = False, name: Name = "nanobot") -> None:
    """Stop it and remove the unit."""
    from nanobot.cli.service import uninstall

    _exit_with(lambda: uninstall(_service(name, system)))


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

    _exit_with(lambda: logs(_service(name, system), lines=lines, follows=follow))


@mcp.command("list")
def mcp_list(config: Config = None) -> None:
    """Connect to each server and show what it offers."""
    from nanobot.cli.mcp import list_servers

    _exit_with(lambda: list_servers(config))


@mcp.command("login")
def mcp_login(name: str, config: Config = None) -> None:
    """Log in to a server that wants OAuth."""
    from nanobot.cli.mcp import log_in

    _exit_with(lambda: log_in(name, config))


@sessions.command("list")
def sessions_list(config: Config = None) -> None:
    """List conversations, the newest first."""
    from nanobot.cli.sessions import list_sessions

    _exit_with(lambda: list_sessions(config))


@sessions.command("show")
def sessions_show(key: str, config: Config = None) -> None:
    """Print a conversation for reading."""
    from nanobot.cli.sessions import export_session

    _exit_with(lambda: export_session(config, key, "markdown"))


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

    _exit_with(lambda: export_session(config, key, form.value))


@sessions.command("repair")
def sessions_repair(
    key: Annotated[str | None, typer.Argument(help="Which one; all of them without.")] = None, config: Config = None
) -> None:
    """Show what is wrong in conversations' logs, and mend it; nothing is thrown away."""
    from nanobot.cli.mending import repair_sessions

    _exit_with(lambda: repair_sessions(config, key))


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

    _exit_with(lambda: fork_session(config, key, at, new_key))


@app.command()
def inspect(
    session: Annotated[str, typer.Argument(metavar="SESSION")],
    turn: Annotated[
        str | None,
        typer.Option("--turn", metavar="N", help="Which Turn (as sessions export names it); the last one without."),
    ] = None,
    which: Annotated[
        MessageList,
        typer.Option(
            "--list",
            help="session: all that was said; history: what was replayed; initial: what the Turn began with; "
            "model: what each request held.",
        ),
    ] = MessageList.model,
    config: Config = None,
) -> None:
    """Show what the model saw in a Turn, and why something is missing."""
    from nanobot.cli.inspection import inspect_session

    _exit_with(lambda: inspect_session(config, session, turn=turn, which=which.value))


@app.command()
def context(
    session: Annotated[str, typer.Argument(metavar="SESSION")],
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Draw the curves into FILE (.svg or .png) instead.")
    ] = None,
    config: Config = None,
) -> None:
    """Show where the window goes, and what each Turn costs."""
    from nanobot.cli.context import show_context

    _exit_with(lambda: show_context(config, session, output))


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    def work() -> int:
        write_out(f"nanobot {installed('nanobot')}\n")
        return 0

    _exit_with(work)


def _service(name: str, is_system: bool, run_as: str | None = None) -> "Service":
    from nanobot.cli.service import Service
    from nanobot.config.environment import environment

    return Service(environ=environment(), name=name, is_system=is_system, run_as=run_as)


def _control(verb: str, name: str, is_system: bool) -> None:
    from nanobot.cli.service import control

    _exit_with(lambda: control(_service(name, is_system), verb))


def _exit_with(work: Callable[[], int]) -> None:
    """Leave with the work's exit code, or with the one its error stands for."""
    try:
        code = work()
    except (ConfigError, MisuseError) as error:
        write_err(f"nanobot: {error}\n")
        code = MISUSED
    except NanobotError as error:
        write_err(f"nanobot: {error}\n")
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)
