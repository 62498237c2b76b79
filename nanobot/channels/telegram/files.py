"""Files of a Telegram channel on disk: what people sent, updates nobody could read, and small state."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from nanobot.bus.events import Media, Role
from nanobot.channels.access import OpenCode, Pairing

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut; only we may read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def keep_media(media: Media, data: bytes, directory: Path) -> Media:
    """Keep a file under its content's name and return it with path and digest."""
    digest = hashlib.sha256(data).hexdigest()
    suffix = _SUFFIX.search(media.name)
    path = directory / f"{digest}{suffix.group().lower() if suffix else ''}"
    if not path.exists():
        write_atomic(path, data)
    return replace(media, path=str(path), sha256=digest, size_bytes=len(data))


def quarantine(raw: object, directory: Path, why: str) -> Path:
    """Keep an update that could not be dealt with, for somebody to look at."""
    update_id = cast("dict[str, object]", raw).get("update_id") if isinstance(raw, dict) else None
    text = json.dumps({"why": why, "update": raw}, ensure_ascii=True)
    name = str(update_id) if isinstance(update_id, int) else hashlib.sha256(text.encode()).hexdigest()[:16]
    path = directory / f"update-{name}.json"
    write_atomic(path, text.encode())
    return path


class ChannelState:
    """What a channel remembers over a restart: groups that moved, and pairing.  Read once, written when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.moved: dict[str, str] = {}
        self.pairing = Pairing()

    def load(self) -> None:
        """Read the file, if there is one; a broken one is set aside and begun anew."""
        try:
            known = json.loads(self._path.read_bytes())
            roles: Mapping[str, Role] = {
                str(k): "owner" if v == "owner" else "user" for k, v in known["paired"].items()
            }
            self.moved = {str(old): str(new) for old, new in known["moved"].items()}
            codes = tuple(OpenCode(str(c), str(s), float(at)) for c, s, at in known["codes"])
            self.pairing = Pairing(open=codes, approved=roles)
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError):
            self._path.replace(self._path.with_suffix(".broken"))

    def save(self) -> None:
        """Write the file."""
        known = {
            "moved": self.moved,
            "paired": dict(self.pairing.approved),
            "codes": [[one.code, one.sender, one.at] for one in self.pairing.open],
        }
        write_atomic(self._path, json.dumps(known, indent=1).encode())

    def platform_chat(self, chat: str) -> str:
        """Return the id that Telegram knows a session's chat by now."""
        seen = {chat}
        while (new := self.moved.get(chat)) is not None and new not in seen:
            seen.add(chat := new)
        return chat

    def session_chat(self, chat: str) -> str:
        """Return the id that a chat's session began with."""
        seen = {chat}
        while (
            old := next((old for old, new in self.moved.items() if new == chat), None)
        ) is not None and old not in seen:
            seen.add(chat := old)
        return chat
