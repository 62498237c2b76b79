"""How a command line becomes a process: the one place where the argv, directory and environment of every command are made.

Foreground commands, background jobs and those on a terminal all come through ``Launcher.launch``; whoever confines commands wraps
what it returns.  The environment is an allow-list, so no key of ours is in it.  Variables that a call asks for are set by ``env``
in front of the shell, never in ``Launch.env``: what wraps the command must not run under a ``LD_PRELOAD`` that a model chose.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.files.paths import PathRules
from nanobot.errors import ToolError
from nanobot.values import frozen

_ALLOWED = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_MAX_COMMAND_BYTES = 100_000  # below the system's limit for one argument
_ON_TERMINAL = {"TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat"}  # a pager would wait for keys
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

SECRET_NAME = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)


def child_environment(environ: Mapping[str, str], env_pass: Iterable[str] = ()) -> dict[str, str]:
    """Return what a command may know of our environment: an allow-list, never a name that looks like a secret's."""
    wanted = {*_ALLOWED, *env_pass}
    out = {k: v for k, v in environ.items() if (k in wanted or k.startswith("LC_")) and not SECRET_NAME.search(k)}
    out.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    out.setdefault("LANG", "C.UTF-8")
    return {**out, "TERM": "dumb"}


@frozen
class Wanted:
    """What a call asks for: a line for the shell, where, and with which variables beside the usual ones."""

    command: str
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    terminal: bool = False


@frozen
class Launch:
    """A process to start: ``argv[0]`` is its program's absolute path, ``env`` its whole environment.

    It is started in a session of its own.  With a terminal, that is its standard input, output and error and its controlling
    terminal: what wraps it must not call ``setsid``, and must end everything inside when it is killed.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


Confine: TypeAlias = Callable[[Launch, Path], Launch]
"""Wraps a process so that it is kept in: what was to be started and the workspace in, what is to be started instead out."""


class Launcher:
    """Turns what calls ask for into processes to start.

    Args:
        rules: where a command may start.
        environment: what every command gets, as ``child_environment`` returns it.
        confine: the sandbox's way; None runs commands with our rights.
    """

    def __init__(self, rules: PathRules, environment: Mapping[str, str], *, confine: Confine | None = None) -> None:
        self._rules = rules
        self._confine = confine
        self._environment = dict(environment)

    def launch(self, wanted: Wanted, context: ToolContext) -> Launch:
        """Return the process to start for this call.  Looks at the disk: call it off the event loop.

        Raises:
            ToolError: the command would end nanobot itself, or cannot be started as it is.
        """
        _must_be_possible(wanted)
        cwd = self._rules.resolve(wanted.cwd, context.workspace)
        if not cwd.is_dir():
            raise ToolError(f"cwd {wanted.cwd!r} is no directory.")
        env = {**self._environment, **(_ON_TERMINAL if wanted.terminal else {})}
        launch = Launch((*self._setting(wanted.env), *self._shell(), "-c", wanted.command), cwd, env)
        return self._confine(launch, context.workspace) if self._confine else launch

    def _shell(self) -> tuple[str, ...]:
        bash = shutil.which("bash", path=self._environment.get("PATH"))
        return (bash, "--noprofile", "--norc") if bash else ("/bin/sh",)

    def _setting(self, env: Mapping[str, str]) -> tuple[str, ...]:
        if not env:
            return ()
        program = shutil.which("env", path=self._environment.get("PATH")) or "/usr/bin/env"
        return (program, *(f"{name}={value}" for name, value in env.items()))


def _must_be_possible(wanted: Wanted) -> None:
    _refuse_suicide(wanted.command)
    if len(wanted.command.encode("utf-8", "replace")) > _MAX_COMMAND_BYTES:
        raise ToolError("the command is too long; write it to a script file and run that.")
    if "\0" in wanted.command:
        raise ToolError("the command holds a NUL character.")
    for name, value in wanted.env.items():
        if not _VARIABLE.fullmatch(name):
            raise ToolError(f"{name!r:.80} is no name of a variable: use letters, digits and _.")
        if "\0" in value or len(value) > _MAX_COMMAND_BYTES:
            raise ToolError(f"the value of {name} is too long or holds a NUL character.")


def _refuse_suicide(command: str) -> None:
    """Refuse what plainly kills this daemon.  A hint to the model, no protection."""
    own = rf"\bkill\b[^;&|\n]*\s{os.getpid()}\b"
    by_name = r"\b(pkill|killall)\b[^;&|\n]*\bnanobot\b|\bsystemctl\b[^;&|\n]*\b(stop|restart|kill)\s+nanobot\b"
    if re.search(own, command) or re.search(by_name, command):
        raise ToolError("this would end nanobot itself, in the middle of this Turn. Ask the user to restart it.")
