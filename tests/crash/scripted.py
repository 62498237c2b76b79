"""The Turn that is disturbed in every way: text, parallel reads, a file write, an edit, a command, steering, a two-part answer.

What its tools do can be counted in the world: the edit adds a line each time it is done, and so does the command.  Its steps wait
for each other, so that it runs the same way each time: the command waits for ``go``, which is made once the steering message is
accepted, and the model says nothing after the command before that either.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nanobot.bus.events import Route
from nanobot.messages import AssistantMessage, ToolMessage
from nanobot.session.codec import BadLine, from_line
from nanobot.session.entries import Entry, Finished, Header, Started, Step
from nanobot.session.files import Layout
from nanobot.session.log import SessionLog
from nanobot.session.tail import without_repeats
from tests.fakes.llm_server import Call, Recorded, Reply

FIRST = "Both files say hello, and nothing else is in them. " * 50 + "\n\n"
SECOND = "The note is written and the count stands at one.\n" * 50
PART_CHARS = 3_500  # room for either, and for a notice; like Telegram's limit, too little for both
ANSWER = FIRST + SECOND
ASKED, STEERED = "look and count", "and say it in two parts"
COMMAND = "echo ran >> counter; until [ -e go ]; do sleep 0.01; done; echo counted"
REQUESTS = 4
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d [^\]]*\]")
_TOOK = re.compile(r"after \d+\.\d s(, in [^\]]*)?")  # and the directory, which is another one in each home


def split(route: Route, text: str, *, is_caption: bool = False) -> tuple[tuple[int, int], ...]:
    """Cut an answer at line ends, as a channel does that fits ``PART_CHARS`` into one message."""
    parts: list[tuple[int, int]] = []
    start = end = 0
    for line in text.splitlines(keepends=True):
        if end > start and end + len(line) - start > PART_CHARS:
            parts.append((start, end))
            start = end
        end += len(line)
    return (*parts, (start, end))


def prepare(work: Path) -> None:
    """Lay out what the Turn finds."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "a.txt").write_text("hello a\n")
    (work / "b.txt").write_text("hello b\n")
    (work / "journal").write_text("begin\n")


@dataclass
class Script:
    """The model's side.  ``asked`` counts the requests by how many answers they held; ``steered`` lets the last ones through."""

    asked: Counter[int] = field(default_factory=Counter[int])
    gate: Any = None  # an asyncio.Event

    def __call__(self, recorded: Recorded) -> Reply:
        """Answer by what the request shows, so that the same history always gets the same answer."""
        messages: list[dict[str, Any]] = recorded.body["messages"]
        step = sum(message["role"] == "assistant" for message in messages)
        self.asked[step] += 1
        match step:
            case 0:
                note = {"path": "note.txt", "content": "noted\n"}
                edit = {"path": "journal", "old_text": "begin\n", "new_text": "begin\nedited\n"}
                reads = [Call("read_file", {"path": name}) for name in ("a.txt", "b.txt")]
                return Reply("Let me look.", [*reads, Call("write_file", note), Call("edit_file", edit)])
            case 1:
                return Reply(tool_calls=[Call("exec", {"command": COMMAND, "timeout_s": 30})])
            case 2:
                return Reply(tool_calls=[Call("read_file", {"path": "note.txt"})], gate=self.gate)
            case _:
                return Reply(ANSWER)


# -- the world afterwards ------------------------------------------------------------------------------------------------------


def effects(work: Path) -> dict[str, object]:
    """Return what the tools did to the world, countable."""
    counter, note = work / "counter", work / "note.txt"
    return {
        "note": note.read_text() if note.exists() else "",
        "edits": (work / "journal").read_text().count("edited\n"),
        "commands": counter.read_text().count("ran\n") if counter.exists() else 0,
    }


def entries(data_dir: Path, key: str) -> list[Entry]:
    """Return what is on disk of a session now, oldest first; a torn tail does not count."""
    path = Layout(data_dir).log(key)
    found: list[Entry] = []
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
        try:
            entry = from_line(line.lstrip(b"\0"), key=key)
        except BadLine:
            continue
        if not isinstance(entry, Header):
            found.append(entry)
    return list(without_repeats(found))


def folded(data_dir: Path, key: str) -> SessionLog:
    """Return the state that the log on disk says."""
    log = SessionLog(key)
    log.extend(entries(data_dir, key))
    return log


def transcript(log: SessionLog) -> list[str]:
    """Return what was said, without times; results of parallel calls, which are logged as they land, in call order."""
    messages = [row.message for row in log.rows]
    for start, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.tool_calls:
            end = start + 1 + len(message.tool_calls)
            messages[start + 1 : end] = sorted(messages[start + 1 : end], key=lambda one: getattr(one, "call_id", ""))
    return [_said(message) for message in messages]


def _said(message: Any) -> str:  # Any: a message
    text = _TOOK.sub("after some time", _STAMP.sub("[now]", message.text))
    calls = [f"{call.name}{call.arguments}" for call in getattr(message, "tool_calls", ())]
    return f"{type(message).__name__} {text} {calls}"


def answers_on_disk(found: Iterable[Entry]) -> int:
    """Return how many of the model's answers are there."""
    return sum(isinstance(one, Step) and isinstance(one.message, AssistantMessage) for one in found)


def log_faults(found: Sequence[Entry], log: SessionLog) -> list[str]:
    """Return what is wrong with a log at rest: calls without one answer each, Turns not closed, work left."""
    asked: list[str] = []
    answered: list[str] = []
    for entry in found:
        said = (entry.message,) if isinstance(entry, Started | Step) else ()
        for message in entry.closes if isinstance(entry, Finished) else said:
            if isinstance(message, AssistantMessage):
                asked += [call.id for call in message.tool_calls]
            elif isinstance(message, ToolMessage):
                answered.append(message.call_id)
    faults = [f"call {one} has {answered.count(one)} results" for one in asked if answered.count(one) != 1]
    faults += [f"result of an unknown call {one}" for one in answered if one not in asked]
    began = [entry.turn for entry in found if isinstance(entry, Started)]
    ended = [entry.turn for entry in found if isinstance(entry, Finished) and entry.turn]
    faults += [f"{turn} was closed {ended.count(turn)} times" for turn in began if ended.count(turn) != 1]
    taken = [one for entry in found if isinstance(entry, Started | Step | Finished) for one in entry.inbound]
    faults += [f"{one} was taken up {taken.count(one)} times" for one in set(taken) if taken.count(one) > 1]
    return faults + ([] if log.settled() else ["something is left to do"])
