"""The interactive chat: the terminal channel on the bus, in one process with the core."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from nanobot.agent.commands import COMMANDS
from nanobot.agent.tools.sandbox.advice import concern
from nanobot.app import Nanobot
from nanobot.channels.cli import Terminal, TerminalChannel
from nanobot.channels.manager import ChannelManager
from nanobot.channels.terminal.view import Segment
from nanobot.cli.bot import Bot
from nanobot.cli.streams import is_shown, must_have_out, write_err
from nanobot.config.environment import terminal_facts
from nanobot.config.settings import Settings
from nanobot.errors import NanobotError

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


async def chat(settings: Settings, session_key: str, *, config_path: Path | None) -> int:
    """Chat until the person leaves; return the exit code."""
    bot = Nanobot.from_settings(settings, config_path=config_path)

    def worry() -> str:
        return "" if bot.tools.get("exec") is None else concern(bot.sandbox.state(settings.workspace))

    return await converse(bot, settings, session_key, worry=worry)


async def converse(bot: Bot, settings: Settings, session_key: str, *, worry: Callable[[], str] = str) -> int:
    """Chat with this bot; ``worry`` returns what the person must know first, if anything, and may take a moment."""
    must_have_out()
    facts = terminal_facts()
    is_plain = facts.is_dumb or not is_shown() or not sys.stdin.isatty()
    channel = TerminalChannel(session_key=session_key, events=bot.events, stop=bot.stop, one_by_one=is_plain)
    terminal, on_interrupt = (
        _plain_terminal(channel) if is_plain else _prompt_terminal(channel, settings.data_dir, colour=facts.colour)
    )
    channel.attach(terminal)
    async with bot:
        await terminal.show([Segment("notice", welcome(settings, session_key))])
        if text := await asyncio.to_thread(worry):
            await terminal.show([Segment("notice", text)])
        return await _until_left(bot, channel, session_key, on_interrupt)


def welcome(settings: Settings, session_key: str) -> str:
    """Return the first lines a person sees."""
    models = settings.models
    first = f"nanobot {version('nanobot')} · {models[0]} · session {session_key} · {_short(settings.workspace)}"
    if settings.providers[models[0].partition("/")[0]].type != "offline":
        return f"{first}\n/help lists commands, Ctrl-C stops a Turn, Ctrl-D leaves"
    return (
        f"{first}\nNo model is configured: I understand a few fixed phrases only (try: help).\n"
        "For a model, run `nanobot init`, or set ANTHROPIC_API_KEY or OPENAI_API_KEY.\n"
        "/help lists commands, Ctrl-C stops a Turn, Ctrl-D leaves"
    )


async def _until_left(bot: Bot, channel: TerminalChannel, session_key: str, on_interrupt: Callable[[], None]) -> int:
    """Run core, outbox and terminal; end the first two when the person leaves or a signal ends us."""
    manager = ChannelManager([channel], record=bot.record, publish=bot.events.publish)
    refused: NanobotError | None = None
    async with asyncio.TaskGroup() as group:
        core = group.create_task(bot.run(), name="core")
        outbox = group.create_task(manager.run(bot.bus.outbound), name="outbox")
        listening = group.create_task(channel.listen(bot.accept), name="terminal")
        with _signals(on_interrupt, listening) as ended_by:
            await asyncio.sleep(0)  # the terminal must watch before anything goes on
            try:
                await bot.resume(session_key)
            except NanobotError as error:
                refused = error
                listening.cancel()
            await asyncio.wait({listening})
        if channel.is_busy:
            write_err("(a Turn was running; it goes on when you come back to this session)\n")
        core.cancel()
        outbox.cancel()
    if refused is not None:
        raise refused
    return 128 + ended_by[0] if ended_by else 0


@contextmanager
def _signals(on_interrupt: Callable[[], None], listening: asyncio.Task[None]) -> Generator[list[int]]:
    """Let SIGINT do what Ctrl-C does, and the ending signals end the chat in order, with the terminal restored."""
    loop = asyncio.get_running_loop()
    ended_by: list[int] = []

    def end(number: int) -> None:
        ended_by.append(number)
        listening.cancel()

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, end, number)
    try:
        yield ended_by
    finally:
        for number in (signal.SIGINT, *ENDING_SIGNALS):
            loop.remove_signal_handler(number)


def _plain_terminal(channel: TerminalChannel) -> tuple[Terminal, Callable[[], None]]:
    from nanobot.channels.terminal.plain import PlainTerminal

    terminal = PlainTerminal(
        stdin=sys.stdin.fileno(),
        out=sys.stdout.buffer,
        err=sys.stderr.buffer,
        interrupt=channel.interrupt,
        prompt="> " if sys.stdin.isatty() and sys.stderr.isatty() else "",
    )
    return terminal, terminal.on_interrupt


def _prompt_terminal(channel: TerminalChannel, data_dir: Path, *, colour: bool) -> tuple[Terminal, Callable[[], None]]:
    from nanobot.channels.terminal.prompt import PromptTerminal  # it loads for half a second: only for people

    terminal = PromptTerminal(
        history=data_dir / "cli_history",
        commands={f"/{name}": command.help for name, command in COMMANDS.items()},
        live=channel.live,
        interrupt=channel.interrupt,
        colour=colour,
    )
    return terminal, terminal.on_interrupt


def _short(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
