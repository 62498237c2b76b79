"""A session's log as Turns: for other programs and for reading.  Pure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from nanobot.agent.closing import content_of
from nanobot.bus.events import InboundMessage
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, JsonObject, JsonValue, UserMessage
from nanobot.session.entries import Entry, EntryId, Finished, Reset, Started, Step, Undo


@dataclass(slots=True)
class TurnRecord:
    """One Turn as its log tells it.  ``stop_reason`` is empty while the Turn is open."""

    turn: str
    prompt: str
    at: str = ""
    answer: str = ""
    iterations: int = 0
    tools: list[str] = field(default_factory=list[str])
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = ""
    error: str | None = None
    undone: bool = False
    is_first: bool = False  # of a conversation that /new began

    def as_json(self) -> JsonObject:
        """Return the record as a JSON object."""
        usage: dict[str, JsonValue] = dict(asdict(self.usage))
        return {
            "turn": self.turn,
            "at": self.at,
            "prompt": self.prompt,
            "answer": self.answer,
            "iterations": self.iterations,
            "tools": list[JsonValue](self.tools),
            "usage": usage,
            "stop_reason": self.stop_reason,
            "error": self.error,
            "undone": self.undone,
        }


class _Reader:
    def __init__(self) -> None:
        self.turns: dict[str, TurnRecord] = {}
        self._inbound: dict[str, str] = {}
        self._texts: dict[EntryId, str] = {}
        self._was_reset = False

    def read(self, entry: Entry) -> None:
        match entry:
            case InboundMessage():
                self._inbound[entry.id] = entry.text
            case Started():
                self._started(entry)
            case Step():
                self._step(entry)
            case Finished():
                self._finished(entry)
            case Undo():
                self._undo(entry.target)
            case Reset():
                self._was_reset = True
            case _:
                return

    def _started(self, entry: Started) -> None:
        self._undo(entry.undoes or "")
        again = self.turns.get(entry.undoes or "")  # its inbound is the /retry, its question the earlier Turn's
        prompt = again.prompt if again else self._said(entry.inbound) or entry.message.text
        is_first, self._was_reset = self._was_reset and bool(self.turns), False
        self.turns[entry.turn] = TurnRecord(entry.turn, prompt, at=entry.at, is_first=is_first)

    def _said(self, inbound: Iterable[str]) -> str:
        return "\n".join(self._inbound[one] for one in inbound if one in self._inbound)

    def _step(self, entry: Step) -> None:
        record = self.turns.get(entry.turn)
        if record is None:
            return
        if isinstance(entry.message, UserMessage) and entry.inbound:
            record.prompt += "\n" + (self._said(entry.inbound) or entry.message.text)
        if isinstance(entry.message, AssistantMessage):
            self._texts[entry.id] = entry.message.text
            record.tools += [call.name for call in entry.message.tool_calls]

    def _finished(self, entry: Finished) -> None:
        effect = entry.effect or {}
        if effect.get("type") == "undo":
            self._undo(str(effect.get("target", "")))
        self._was_reset |= effect.get("type") == "reset"
        record = self.turns.get(entry.turn or "")
        if record is None:
            return
        said = entry.content if entry.content is not None else self._texts.get(entry.answer or "", "")
        record.answer = content_of(said, stop_reason="", error=entry.error)  # the error has its own place
        record.iterations, record.usage = entry.iterations, entry.usage
        record.stop_reason, record.error = entry.stop_reason, entry.error

    def _undo(self, target: str) -> None:
        """Mark the Turn and all that came after it, as the log means it."""
        names = list(self.turns)
        for name in names[names.index(target) :] if target in self.turns else ():
            self.turns[name].undone = True


def turns(entries: Iterable[Entry]) -> list[TurnRecord]:
    """Return the Turns of a log, oldest first; ``entries`` are in the order of the file."""
    reader = _Reader()
    for entry in entries:
        reader.read(entry)
    return list(reader.turns.values())


def as_markdown(records: Iterable[TurnRecord]) -> str:
    """Return a conversation for reading."""
    return "\n".join(_turn_markdown(record) for record in records)


def _turn_markdown(record: TurnRecord) -> str:
    title = f"## {record.turn}" + (f" · {record.at}" if record.at else "") + (" · taken back" if record.undone else "")
    lines = ["---", "*(new conversation)*", ""] if record.is_first else []
    lines += [title, "", *(f"> {line}".rstrip() for line in record.prompt.splitlines()), ""]
    if record.tools:
        lines += [f"*{', '.join(record.tools)}*", ""]
    if record.answer:
        lines += [record.answer, ""]
    if record.stop_reason != "completed":
        lines += [f"*({record.error or record.stop_reason or 'still open'})*", ""]
    return "\n".join(lines)
