"""What the environment says about the terminal.  Light: read before anything is loaded."""

import os
from collections.abc import Mapping

from nanobot.values import frozen


@frozen(kw_only=True)
class TerminalFacts:
    """``is_dumb``: cannot move its cursor.  ``colour``: nobody asked for none (https://no-color.org)."""

    is_dumb: bool
    colour: bool


def terminal_facts(environ: Mapping[str, str] | None = None) -> TerminalFacts:
    """Read TERM and NO_COLOR."""
    environ = os.environ if environ is None else environ
    return TerminalFacts(is_dumb=environ.get("TERM", "") in ("", "dumb", "unknown"), colour=not environ.get("NO_COLOR"))


def environment() -> Mapping[str, str]:
    """Return the process's environment, for those who are handed it: only this package reads it."""
    return os.environ
