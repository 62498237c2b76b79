"""Files of a Telegram channel on disk: updates nobody could read, and small state."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import TypeVar, cast

from nanobot.bus.events import Role
from nanobot.channels.access import OpenCode, Pairing
from nanobot.values import frozen

T = TypeVar("T")
KEPT_QUESTIONS = 1_000


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut; only we may read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names in a directory outlive a power cut."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def quarantine(raw: object, directory: Path, why: str) -> Path:
    """Keep an update that could not be dealt with, for somebody to look at."""
    update_id = cast("dict[str, object]", raw).get("update_id") if isinstance(raw, dict) else None
    text = json.dumps({"why": why, "update": raw}, ensure_ascii=True)
    name = str(update_id) if isinstance(update_id, int) else hashlib.sha256(text.encode()).hexdigest()[:16]
    path = directory / f"update-{name}.json"
    write_atomic(path, text.encode())
    return path


def state_path(data_dir: Path, name: str) -> Path:
    """Return where a channel's state lies."""
    return data_dir / "channels" / f"{name}.json"


@frozen
class KeptQuestion:
    """A question, and a message that shows it or says where it is asked; ``chat`` is empty for the chat that asks."""

    session_key: str
    question: str
    turn: str
    text: str
    ref: str
    chat: str = ""


class ChannelState:
    """What a channel remembers over a restart: groups that moved, pairing, and questions that are shown.

    ``change`` is the only way to change it, from whatever process; ``refresh`` takes in what another one changed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen_ns = 0
        self.moved: dict[str, str] = {}
        self.questions: tuple[KeptQuestion, ...] = ()
        self.pairing = Pairing()

    def load(self) -> None:
        """Read the file, if there is one; a broken one is set aside and begun anew."""
        try:
            self._seen_ns = self._path.stat().st_mtime_ns
            known = json.loads(self._path.read_bytes())
            roles: Mapping[str, Role] = {
                str(k): "owner" if v == "owner" else "user" for k, v in known["paired"].items()
            }
            codes = tuple(OpenCode(str(c), str(s), float(at)) for c, s, at in known["codes"])
            self.moved = {str(old): str(new) for old, new in known["moved"].items()}
            self.questions = tuple(KeptQuestion(*map(str, one)) for one in known.get("questions", ()))
            self.pairing = Pairing(open=codes, approved=roles, wrong_tries=int(known.get("wrong_tries", 0)))
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError, AttributeError):
            self._path.replace(self._path.with_suffix(".broken"))

    def refresh(self) -> bool:
        """Read the file again if it was changed; say whether it was."""
        try:
            changed = self._path.stat().st_mtime_ns != self._seen_ns
        except FileNotFoundError:
            return False
        if changed:
            self.load()
        return changed

    def change(self, step: Callable[["ChannelState"], T]) -> T:
        """Let ``step`` change the newest state, keep that, and return what the step returned."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for a few milliseconds
            newest = ChannelState(self._path)  # apart, so that others never see half of it
            newest.load()
            result = step(newest)
            write_atomic(self._path, json.dumps(newest.as_json(), indent=1).encode())
            self._seen_ns = self._path.stat().st_mtime_ns
            self.moved, self.pairing, self.questions = newest.moved, newest.pairing, newest.questions
            return result

    def as_json(self) -> dict[str, object]:
        """Return what is kept."""
        return {
            "moved": self.moved,
            "paired": dict(self.pairing.approved),
            "codes": [[one.code, one.sender, one.at] for one in self.pairing.open],
            "wrong_tries": self.pairing.wrong_tries,
            "questions": [astuple(one) for one in self.questions],
        }

    def move(self, old: str, new: str) -> None:
        """Note that a group has a new id."""
        self.moved = {**self.moved, old: new}

    def keep_question(self, question: KeptQuestion) -> None:
        """Note that a question is shown."""
        self.questions = (*self.questions, question)[-KEPT_QUESTIONS:]

    def drop_question(self, session_key: str, question: str) -> None:
        """Note that a question is settled."""
        self.questions = tuple(
            one for one in self.questions if (one.session_key, one.question) != (session_key, question)
        )

    def ask(self, sender: str, *, now: float) -> str | None:
        """Return a stranger's code, if there is to be one."""
        self.pairing, code = self.pairing.ask(sender, now=now)
        return code

    def approve(self, code: str, *, now: float, role: Role) -> str | None:
        """Let in who has the code; return who that is."""
        self.pairing, sender = self.pairing.approve(code, now=now, role=role)
        return sender

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
