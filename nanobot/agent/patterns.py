"""What "always" means: the calls that a person allows together with the one they were asked about.  Pure.

A command of plain words stands for those that begin with the same words, up to the first that is no option (``git push``,
``python -m pytest``); any other command, and any that sets variables, only for itself.  A file stands for its folder, an address
for its host, and a call of another tool for that tool.  What was allowed although a conversation could leak (``is_guard``) counts
there, and nothing else does.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from nanobot.agent.rules import is_plain, normal_path
from nanobot.messages import JsonObject, ToolCall
from nanobot.values import frozen

Kind = Literal["tool", "command", "words", "folder", "host"]


@frozen
class Pattern:
    """Calls of one tool: all of them, or those whose command, file or address is like ``value``."""

    tool: str
    kind: Kind
    value: str = ""
    is_guard: bool = False

    def as_json(self) -> JsonObject:
        """Return it as the log keeps it."""
        return cast("JsonObject", asdict(self))

    def __str__(self) -> str:
        match self.kind:
            case "words":
                return f"{self.tool}: {self.value} …"
            case "folder":
                return f"{self.tool}: files in {self.value}/"
            case "host" | "command":
                return f"{self.tool}: {self.value}"
            case "tool":
                return f"{self.tool}, whatever it is given"


def from_json(raw: object) -> Pattern | None:
    """Read a pattern back; older logs hold a tool's name alone.  None for what is none."""
    if isinstance(raw, str):
        return Pattern(raw, "tool")
    if not isinstance(raw, Mapping):
        return None
    found = cast("Mapping[str, object]", raw)
    kind = next((one for one in get_args(Kind) if one == found.get("kind")), None)
    if kind is None:
        return None
    return Pattern(str(found.get("tool")), kind, str(found.get("value", "")), found.get("is_guard") is True)


def pattern_of(call: ToolCall, arguments: Mapping[str, object], workspace: Path, *, is_guard: bool) -> Pattern:
    """Return what "always" would allow."""
    command, path, url = (arguments.get(name) for name in ("command", "path", "url"))
    if isinstance(command, str):
        words = "" if is_guard or arguments.get("env") else _first_words(command)
        return Pattern(call.name, "words" if words else "command", words or _whole(command, arguments), is_guard)
    if isinstance(url, str):
        return Pattern(call.name, "host", _host(url), is_guard)
    if isinstance(path, str):
        return Pattern(call.name, "folder", str(PurePosixPath(normal_path(path, workspace)).parent), is_guard)
    return Pattern(call.name, "tool", is_guard=is_guard)


def covers(
    pattern: Pattern, call: ToolCall, arguments: Mapping[str, object], workspace: Path, *, is_guard: bool
) -> bool:
    """Say whether a call was allowed by "always"."""
    if pattern.tool != call.name or pattern.is_guard != is_guard:
        return False
    command, path, url = (arguments.get(name) for name in ("command", "path", "url"))
    match pattern.kind:
        case "tool":
            return True
        case "command":
            return isinstance(command, str) and _whole(command, arguments) == pattern.value
        case "words":
            is_bare = isinstance(command, str) and is_plain(command) and not arguments.get("env")
            return is_bare and _begins(str(command), pattern.value)
        case "host":
            return isinstance(url, str) and _host(url) == pattern.value
        case "folder":
            return isinstance(path, str) and PurePosixPath(normal_path(path, workspace)).is_relative_to(pattern.value)


def _whole(command: str, arguments: Mapping[str, object]) -> str:
    """Return a command with the variables that it sets."""
    env = arguments.get("env")
    return f"{command.strip()} with {json.dumps(env, sort_keys=True, ensure_ascii=False)}" if env else command.strip()


def _first_words(command: str) -> str:
    """Return a plain command's program with what it is told to do; empty for any other command."""
    if not is_plain(command):
        return ""
    taken: list[str] = []
    for word in command.split():
        taken.append(word)
        if len(taken) > 1 and not word.startswith("-"):
            break
    return " ".join(taken)


def _begins(command: str, words: str) -> bool:
    wanted = words.split()
    return command.split()[: len(wanted)] == wanted


def _host(url: str) -> str:
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        return f"{parts.scheme.lower()}://{parts.netloc.lower()}"
    except ValueError:
        return url
