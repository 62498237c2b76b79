"""``nanobot agent``: one question, or a chat."""

import asyncio
import os
from pathlib import Path

from nanobot.bus.events import is_plain_key, shown_key
from nanobot.cli.streams import is_person, must_have_out, piped_input
from nanobot.errors import MisuseError


def run_agent(*, message: str | None, session_key: str, config: Path | None, as_json: bool) -> int:
    """Ask or chat; return the exit code."""
    from nanobot.config.environment import environment
    from nanobot.config.settings import find, load

    if not session_key.strip():
        raise MisuseError("--session must name a conversation, such as cli:direct")
    if not is_plain_key(session_key):
        raise MisuseError(f"--session holds a control character: {shown_key(session_key)}; leave it out")
    must_have_out()  # before a model is asked for what cannot be shown
    path = find(config, environment())
    settings = load(path)
    if message is None and is_person():
        if as_json:
            raise MisuseError("--json needs a message: -m TEXT, or piped input")
        from nanobot.cli.chat import chat

        return asyncio.run(chat(settings, session_key, config_path=path))
    text = compose(message and as_typed(message), piped_input())
    from nanobot.app import Nanobot
    from nanobot.cli.ask import ask

    bot = Nanobot.from_settings(settings, config_path=path)
    return asyncio.run(ask(bot, text, session_key=session_key, as_json=as_json))


def as_typed(argument: str) -> str:
    """Return an argument as UTF-8, whatever the locale made of its bytes."""
    return os.fsencode(argument).decode("utf-8", "replace")


def compose(message: str | None, piped: str) -> str:
    """Return the text to ask: the message, then what was piped in.

    Raises:
        MisuseError: there is neither.
    """
    parts = [part for part in (message or "", piped.rstrip("\n")) if part.strip()]
    if not parts:
        raise MisuseError("nothing to ask: give -m TEXT or pipe text in; without both, a terminal is needed to chat")
    return "\n\n".join(parts)
