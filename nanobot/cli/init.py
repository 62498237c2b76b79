"""``nanobot init``: the first ten minutes."""

import getpass
import shlex
import sys
from pathlib import Path

from nanobot.cli.streams import is_person, write_err, write_out
from nanobot.errors import MisuseError
from nanobot.setup.wizard import Done, Wishes, World, set_up


class Typist:
    """The person at the terminal.  Questions go to stderr, so that stdout stays what a script wants."""

    def ask(self, question: str, default: str = "") -> str:
        write_err(f"{question}{f' [{default}]' if default else ''}: ")
        line = sys.stdin.readline()
        if not line:
            raise MisuseError("the input ended before the last question; nothing was written")
        return line.strip() or default

    def secret(self, question: str) -> str:
        try:
            return getpass.getpass(f"{question}: ", stream=sys.stderr)
        except EOFError:
            raise MisuseError("the input ended before the last question; nothing was written") from None


def init(config: Path | None, wishes: Wishes, *, chats: bool) -> int:
    """Set up; then begin a first chat if somebody is there and wants it.  Return the exit code."""
    from nanobot.config.environment import environment
    from nanobot.config.settings import find, home

    environ = environment()
    path = find(config, environ) or home(environ) / "config.yaml"
    is_asking = is_person()
    world = World(environ=environ, say=lambda text: write_err(f"{text}\n"), person=Typist() if is_asking else None)
    try:
        done = set_up(path, wishes, world)
    except KeyboardInterrupt:  # it writes at its very end
        write_err("\nnanobot: stopped; nothing was written\n")
        raise
    write_out(f"{done.path}\n" if not is_person() else "")
    write_err(next_steps(done, "" if config is None else f" --config {shlex.quote(str(config))}"))
    if not chats or not is_asking:
        return 0
    from nanobot.cli.agent import run_agent

    return run_agent(message=None, session_key="cli:direct", config=path, as_json=False)


def next_steps(done: Done, option: str = "") -> str:
    """Return what can be done now; ``option`` is what each command needs to find a file that lies elsewhere."""
    steps = [(f"agent{option}", "talk to it here")]
    if done.settings.channels:
        here = f"keep it running, also after you log out; or `nanobot gateway{option}` here"
        steps.append((f"service install{option}", here))
    steps.append((f"doctor{option}", "see whether all is well"))
    width = max(len(command) for command, _ in steps)
    lines = [f"  nanobot {command:<{width}}   {what}" for command, what in steps]
    return "\n".join(["Next:", *lines]) + "\n"
