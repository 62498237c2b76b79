"""What is known of a result once it is there: whose words it is, and whether it holds secrets."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from nanobot.agent.rules import normal_path
from nanobot.agent.tools.registry import Observation, PreparedCall
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.agent.tools.threads import in_thread
from nanobot.bus.events import InboundMessage

P = ParamSpec("P")
T = TypeVar("T")

_FETCHES = re.compile(
    r"://|(?<![\w.-])(?:curl|wget|git\s+(?:clone|pull|fetch|submodule)|ssh|scp|sftp|rsync|ftp|nc|ncat|telnet|lynx|w3m|gh|dig|nslookup)(?![\w.-])"
)
_DOCUMENTS = frozenset(
    {".pdf", ".docx", ".xlsx", ".pptx", ".doc", ".odt", ".epub", ".eml", ".msg", ".html", ".htm", ".ipynb"}
)
_FOREIGN = frozenset(
    {"node_modules", "site-packages", "vendor", "third_party", "downloads", "download", "attachments", "inbox"}
)

_BETWEEN = re.compile(r"""[\s;&|<>$`"'(){},]+""")
_HIT = re.compile(r"(.+?):(?:\d+[:-]| )")  # what a search shows begins with its file
_OF_JOBS = ("exec_output", "exec_input")
_FRESH_S = 10.0  # how long a look through the workspace for secrets counts
_MOST_SHOWN = 400_000
_MOST_CHARS = 20_000
_MOST_NAMES = 200

FROM_A_COMMAND = "output of a command that fetched something"


class Labels:
    """Tells what results hold.

    Args:
        secret_paths: which files hold secrets.
    """

    def __init__(self, secret_paths: SecretPaths | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._secret_paths = secret_paths or SecretPaths()
        self._clock = clock
        self._values: dict[Path, tuple[float, frozenset[str]]] = {}

    def shows_secret(self, text: str, workspace: Path) -> bool:
        """Say whether a text holds a value of one of the workspace's secret files.  Reads files: call it off the event loop."""
        at, values = self._values.get(workspace, (float("-inf"), frozenset[str]()))
        if self._clock() - at > _FRESH_S:
            values = self._secret_paths.values(workspace)
            self._values[workspace] = (self._clock(), values)
        return any(value in text for value in values)

    def look(self, prepared: PreparedCall, workspace: Path) -> "Look":
        """Return the look at one call."""
        return Look(self, self._secret_paths, prepared, workspace)


class Look:
    """What can be told of one call's result, by its arguments and the disk.

    A change of thread costs more than the looking, so ``in_thread`` does it where the tool works anyway.
    """

    def __init__(self, labels: Labels, secret_paths: SecretPaths, prepared: PreparedCall, workspace: Path) -> None:
        self._labels = labels
        self._secret_paths = secret_paths
        self._prepared = prepared
        self._workspace = workspace
        self._found: tuple[str, str] | None = None

    async def in_thread(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the tool's work in a thread, and look."""

        def both() -> T:
            try:
                return work(*args, **kwargs)
            finally:
                self._found = self._at_disk()

        return await in_thread(both)

    async def labelled(self, observation: Observation) -> Observation:
        """Return the observation with its origin and its secret, as far as they can be told.

        What a call that never ran came to is in our words and shows nothing.
        """
        if not observation.ran:
            return observation
        named, origin = self._found or await in_thread(self._at_disk)
        tool = self._prepared.tool
        if observation.is_error and tool.effect == "pure":
            named = ""  # nothing was read
        elif tool.name == "grep" and not (named and origin):
            found = await in_thread(self._of_hits, observation.text)
            named, origin = named or found[0], origin or found[1]
        elif not named and not observation.secret and (tool.reads_unnamed or tool.name in _OF_JOBS):
            shows = await in_thread(self._labels.shows_secret, observation.text[:_MOST_SHOWN], self._workspace)
            named = "showed what a file with secrets holds" if shows else ""
        secret = f"{tool.name} {named}" if named else ""
        if not (origin or secret):
            return observation
        return replace(observation, origin=observation.origin or origin, secret=observation.secret or secret)

    def _of_hits(self, text: str) -> tuple[str, str]:
        """Return the secret file whose lines a search has found, and whose words those are that it shows."""
        lines = text[:_MOST_CHARS].splitlines()
        names = dict.fromkeys(hit[1] for line in lines if (hit := _HIT.match(line)))
        origins = (file_origin(name, self._workspace) for name in [*names][:_MOST_NAMES])
        return self._secret_paths.named_before_colon(text), next(filter(None, origins), "")

    def _at_disk(self) -> tuple[str, str]:
        """Return the secret file that the call names, and the origin."""
        arguments = self._prepared.arguments.model_dump()
        named = self._secret_paths.named_through(arguments, self._workspace)
        return named, _origin(self._prepared, arguments, self._workspace)


def _origin(prepared: PreparedCall, arguments: dict[str, object], workspace: Path) -> str:
    tool = prepared.tool
    command = arguments.get("command")
    if isinstance(command, str):
        if tool.outward and brings_others_words(command):
            return FROM_A_COMMAND
        return next(
            filter(None, (file_origin(word, workspace) for word in _files_in(command, arguments, workspace))), ""
        )
    if tool.name == "exec_output":  # of a job whose command is not known here
        return FROM_A_COMMAND
    if tool.outward:
        return tool.name
    path = arguments.get("path")
    return file_origin(path, workspace) if tool.effect == "pure" and isinstance(path, str) else ""


def _files_in(command: str, arguments: Mapping[str, object], workspace: Path) -> Iterator[str]:
    """Yield the words of a command that are files."""
    where = arguments.get("cwd")
    folder = where if isinstance(where, str) else "."
    for word in dict.fromkeys(_BETWEEN.split(command[:_MOST_CHARS])[:_MOST_NAMES]):
        with contextlib.suppress(ValueError):  # no name that a disk takes
            if word and os.path.isfile(workspace / folder / word):
                yield os.path.join(folder, word)


def origins_of(messages: Sequence[InboundMessage], overheard: Sequence[InboundMessage] = ()) -> tuple[str, ...]:
    """Return whose words messages hold besides those of owners and users: members', those quoted, overheard ones, and files'."""
    found: list[str] = ["what was overheard in a group"] if overheard else []
    for message in messages:
        if message.role == "member":
            found.append(f"member {message.sender_name or message.sender} of a group")
        found += message.origins
        found += [f"file {media.name}".strip() for media in message.media]
    return tuple(dict.fromkeys(found))


def brings_others_words(command: str) -> bool:
    """Say whether a command's output is likely to come from somewhere else: a guess by addresses and well-known programs."""
    return _FETCHES.search(command) is not None


def file_origin(path: str, workspace: Path) -> str:
    """Return whose words a file in the workspace is if it came from elsewhere; empty for ordinary files.

    Documents (PDF, Word, mail, saved pages) are seldom written here; folders that came from elsewhere are told by their names, and
    by being a repository inside the workspace.  Looks at the disk: call it off the event loop.
    """
    seen = normal_path(path, workspace)
    inside = Path(seen)
    if inside.is_absolute():
        return f"file {seen}"
    if inside.suffix.lower() in _DOCUMENTS or any(part.lower() in _FOREIGN for part in inside.parts):
        return f"file {seen}"
    folders = [workspace / inside, *(workspace / one for one in inside.parents if one != Path())]
    if inside != Path() and any(os.path.exists(folder / ".git") for folder in folders):  # not Path's: that raises
        return f"file {seen}"
    return ""
