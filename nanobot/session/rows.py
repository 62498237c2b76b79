"""What a session's state is made of: rows of the transcript, the open Turn, a summary's past, the record of an ended Turn."""

from dataclasses import dataclass, field

from nanobot.bus.events import Media, Role, Route
from nanobot.bus.runtime_events import Usage
from nanobot.messages import Message, ToolCall
from nanobot.session.entries import Answer, Cut, EntryId, Finished, Intent, Question, Summary
from nanobot.values import frozen


@frozen
class Row:
    """One message of the transcript, with what the log knows about it."""

    message: Message
    entry: EntryId
    turn: str
    position: int
    finish: str | None = None
    usage: Usage | None = None
    blob: str | None = None


@dataclass(slots=True)
class OpenTurn:
    """A Turn that has no ``finished`` line yet."""

    turn: str
    started: EntryId
    position: int
    route: Route | None
    role: Role
    inbound: list[str]
    sender: str = ""
    resumed: int = 0
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])  # not answered yet, in order
    intents: dict[str, Intent] = field(default_factory=dict[str, Intent])
    questions: dict[str, Question] = field(default_factory=dict[str, Question])  # by call
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])  # by call
    files: tuple[Media, ...] = ()  # promised to its chat, in order


@frozen
class BeforeSummary:
    """What a summary took the place of, for taking it back."""

    rows: tuple[Row, ...]
    summary: Summary | None
    summary_position: int
    cuts: dict[str, Cut]


@frozen
class Recorded:
    """How the Turn or command of an inbound message ended."""

    finished: Finished
    content: str
    tools_used: tuple[str, ...]
    files: tuple[Media, ...] = ()
