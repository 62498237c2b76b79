"""What is known of a result once it is there: whose words it is, and whether it holds secrets."""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nanobot.agent.rules import normal_path
from nanobot.agent.tools.registry import Observation, PreparedCall
from nanobot.agent.tools.secret_paths import SecretPaths
from nanobot.bus.events import InboundMessage

_FETCHES = re.compile(
    r"://|(?<![\w.-])(?:curl|wget|git\s+(?:clone|pull|fetch|submodule)|ssh|scp|sftp|rsync|ftp|nc|ncat|telnet|lynx|w3m|gh|dig|nslookup)(?![\w.-])"
)
_DOCUMENTS = frozenset(
    {".pdf", ".docx", ".xlsx", ".pptx", ".doc", ".odt", ".epub", ".eml", ".msg", ".html", ".htm", ".ipynb"}
)
_FOREIGN = frozenset(
    {"node_modules", "site-packages", "vendor", "third_party", "downloads", "download", "attachments", "inbox"}
)

FROM_A_COMMAND = "output of a command that fetched something"


class Labels:
    """Tells what results hold.

    Args:
        secret_paths: which files hold secrets.
    """

    def __init__(self, secret_paths: SecretPaths | None = None) -> None:
        self._secret_paths = secret_paths or SecretPaths()

    async def of(self, prepared: PreparedCall, observation: Observation, workspace: Path) -> Observation:
        """Return the observation with its origin and its secret, as far as they can be told.

        What a call that never ran came to is in our words and shows nothing.
        """
        if not observation.ran:
            return observation
        arguments = prepared.arguments.model_dump()
        named, found = await asyncio.to_thread(self._look, prepared, arguments, observation, workspace)
        return replace(observation, origin=observation.origin or found, secret=observation.secret or named)

    def _look(
        self, prepared: PreparedCall, arguments: dict[str, object], observation: Observation, workspace: Path
    ) -> tuple[str, str]:
        """Return the secret and the origin.  Looks at the disk: all in one go, as a thread for each costs more than the looking."""
        secret = self._secret(prepared, arguments, observation, workspace)
        return secret, _origin(prepared, arguments, workspace)

    def _secret(
        self, prepared: PreparedCall, arguments: dict[str, object], observation: Observation, workspace: Path
    ) -> str:
        if observation.is_error and prepared.tool.effect == "pure":
            return ""  # nothing was read
        named = self._secret_paths.named_through(arguments, workspace)
        if not named and prepared.tool.name == "grep":
            named = self._secret_paths.named_before_colon(observation.text)
        return f"{prepared.tool.name} {named}" if named else ""


def _origin(prepared: PreparedCall, arguments: dict[str, object], workspace: Path) -> str:
    tool = prepared.tool
    command = arguments.get("command")
    if isinstance(command, str):
        return FROM_A_COMMAND if tool.outward and brings_others_words(command) else ""
    if tool.name == "exec_output":  # of a job whose command is not known here
        return FROM_A_COMMAND
    if tool.outward:
        return tool.name
    path = arguments.get("path")
    return file_origin(path, workspace) if tool.effect == "pure" and isinstance(path, str) else ""


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
