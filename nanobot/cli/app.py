"""The commands and their arguments.  Each imports what it needs when it runs, so that ``--help`` is quick."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nanobot.cli.groups import mcp, service, sessions
from nanobot.cli.leaving import Config, exit_with
from nanobot.cli.streams import write_out

app = typer.Typer(
    name="nanobot",
    help="A self-hosted personal agent that lives in chat.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)
app.add_typer(sessions, name="sessions")
app.add_typer(mcp, name="mcp")
app.add_typer(service, name="service")


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

    exit_with(lambda: run_agent(message=message, session_key=session, config=config, as_json=as_json))


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
    exit_with(lambda: run(config, wishes, chats=chat))


@app.command()
def gateway(
    config: Config = None,
    log_format: Annotated[
        LogFormat | None, typer.Option("--log-format", help="How log lines look, instead of log.format.")
    ] = None,
) -> None:
    """Run the daemon with all configured channels, until it is ended."""
    from nanobot.cli.gateway import start_gateway

    exit_with(lambda: start_gateway(config, log_format.value if log_format else None))


@app.command()
def pair(
    code: str,
    config: Config = None,
    as_owner: Annotated[bool, typer.Option("--owner", help="With the owner's rights.")] = False,
) -> None:
    """Let in whoever was given this code by a bot."""
    from nanobot.cli.pair import approve

    exit_with(lambda: approve(code, config, as_owner=as_owner))


@app.command()
def doctor(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of findings.")] = False,
    ask: Annotated[bool, typer.Option("--ask/--no-ask", help="Try the models and bots, too.")] = True,
) -> None:
    """Look for what is wrong, and say what mends it."""
    from nanobot.cli.doctor import doctor as run

    exit_with(lambda: run(config, as_json=as_json, asks=ask))


@app.command()
def status(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how the running daemon is."""
    from nanobot.cli.status import show_status

    exit_with(lambda: show_status(config, as_json=as_json))


@app.command()
def tools(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the tools, and what the rules say of them to whom."""
    from nanobot.cli.tools import list_tools

    exit_with(lambda: list_tools(config, as_json=as_json))


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

    exit_with(lambda: inspect_session(config, session, turn=turn, which=which.value))


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

    exit_with(lambda: show_context(config, session, output))


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    def work() -> int:
        write_out(f"nanobot {installed('nanobot')}\n")
        return 0

    exit_with(work)
