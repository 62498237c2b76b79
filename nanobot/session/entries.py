"""The lines of a session log as typed values.

One entry is one line is one atom: facts that must be true together stand in one entry.  ``session.codec`` turns them into lines and
back.

An entry with a ``floor`` lets a reader stop: nothing before the entry of that id is needed any more, and ``carry`` holds what must
outlive it (recent inbound ids, the session's own settings, the id counter).
"""

from dataclasses import field
from datetime import datetime
from typing import Literal, TypeAlias

from nanobot.bus.events import InboundMessage, Media, Role, Route, SessionKey
from nanobot.bus.runtime_events import Usage
from nanobot.messages import JsonObject, Message, ToolMessage, UserMessage
from nanobot.values import frozen

VERSION = 1

EntryId: TypeAlias = str
BlobId: TypeAlias = str  # full sha256, hex
Effect = Literal["pure", "idempotent", "verifiable", "opaque"]
# completed | max_iterations | user_stop | replaced | limit | error | interrupted | command | ...
StopReason: TypeAlias = str


@frozen(kw_only=True)
class Header:
    """The first line: whose log this is."""

    key: SessionKey
    created_at: datetime
    version: int = VERSION


@frozen(kw_only=True)
class Started:
    """A Turn took up these inbounds; ``message`` is the user message exactly as the model gets it.

    ``origins`` name those whose words are in it besides the sender's; ``secret`` says what of it is secret.
    """

    id: EntryId
    turn: str
    inbound: tuple[str, ...]
    message: UserMessage
    route: Route | None = None
    role: Role = "owner"
    sender: str = ""
    at: str = ""  # ISO 8601 with zone
    undoes: str | None = None  # a Turn that this one takes the place of (retry)
    origins: tuple[str, ...] = ()
    secret: str = ""


@frozen(kw_only=True)
class Step:
    """One message of a running Turn (type ``message`` on disk): the model's, a tool's, a steered or a runtime one.

    ``origins`` and ``secret`` are as in ``Started``; a tool's message itself says whose words it is.
    """

    id: EntryId
    turn: str
    message: Message
    inbound: tuple[str, ...] = ()  # steered inbounds that this user message takes up
    finish: str | None = None
    usage: Usage | None = None
    model: str | None = None  # <provider>/<model> that answered
    head: EntryId | None = None  # the head this request was sent with
    blob: BlobId | None = None  # full text of a result that was cut
    duration_ms: float | None = None
    media: tuple[Media, ...] = ()  # files that this result promises to the Turn's chat; they are owed from here on
    origins: tuple[str, ...] = ()
    secret: str = ""


@frozen(kw_only=True)
class Intent:
    """A call is about to change the world; ``before`` and ``after`` are what a probe compares."""

    id: EntryId
    turn: str
    call: str
    effect: Effect
    before: JsonObject | None = None
    after: JsonObject | None = None


@frozen(kw_only=True)
class Owed:
    """An answer that must arrive: its parts are ``[start, end)`` code point offsets into the answer's text.

    Of a file (``media``), the text is its caption, and the first part is the file itself.  ``anew``: it stands below files.
    """

    out: str
    route: Route
    parts: tuple[tuple[int, int], ...]
    media: Media | None = None
    anew: bool = False


@frozen(kw_only=True)
class Finished:
    """A Turn or a command is over.

    ``answer`` names the entry that holds the text, or ``content`` is the text itself.  ``closes`` answers the calls that were still
    open.  ``effect`` is what a command did to the session (``{"type": "reset" | "undo" | "settings", ...}``), in the same line.
    """

    id: EntryId
    turn: str | None = None
    inbound: tuple[str, ...] = ()
    stop_reason: StopReason = "completed"
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    answer: EntryId | None = None
    content: str | None = None
    error: str | None = None
    closes: tuple[ToolMessage, ...] = ()
    owed: tuple[Owed, ...] = ()
    effect: JsonObject | None = None
    floor: EntryId | None = None
    carry: JsonObject | None = None


@frozen(kw_only=True)
class Resumed:
    """The Turn goes on after a restart, for the ``n``-th time."""

    id: EntryId
    turn: str
    n: int


@frozen(kw_only=True)
class Question:
    """The Turn waits for a person's decision about a call of ``tool``."""

    id: EntryId
    turn: str
    call: str
    expires_at: str  # ISO 8601 with zone
    tool: str = ""
    pattern: JsonObject | None = None  # what "always" would allow (see ``agent.patterns``)


@frozen(kw_only=True)
class Answer:
    """A person decided (``once``, ``always``, ``deny``), or nobody did in time (``expired``)."""

    id: EntryId
    question: EntryId
    by: str
    decision: str


@frozen(kw_only=True)
class Delivery:
    """What became of one part of an owed answer: ``reserving | reserved | sending | sent | refused | withdrawn``."""

    id: EntryId
    out: str
    part: int
    state: str
    ref: str | None = None


@frozen(kw_only=True)
class Head:
    """From here on the prompt begins with this system text and these tools (blobs).

    ``sources`` are those that could have brought tools then, whether they had or not.
    """

    id: EntryId
    system: BlobId
    tools: BlobId
    model: str
    sources: tuple[str, ...] = ()


@frozen(kw_only=True)
class Cut:
    """From here on the named pass works up to (not including) the entry ``at``."""

    id: EntryId
    pass_name: str  # "pass" on disk
    at: EntryId
    why: str = ""
    floor: EntryId | None = None
    carry: JsonObject | None = None
    usage: Usage | None = None  # what it cost to find out


@frozen(kw_only=True)
class Summary:
    """``text`` stands for everything before ``keep_from``; it was made from what went up to ``covers_to``.

    ``undo_floor`` is the oldest entry that is needed to take it back.
    """

    id: EntryId
    text: str
    covers_to: EntryId
    keep_from: EntryId
    floor: EntryId
    undo_floor: EntryId | None = None
    usage: Usage | None = None
    carry: JsonObject | None = None


@frozen(kw_only=True)
class Reset:
    """The conversation starts anew.  Our commands say it as the ``effect`` of their ``finished`` line."""

    id: EntryId
    floor: EntryId
    carry: JsonObject | None = None


@frozen(kw_only=True)
class Undo:
    """The Turn ``target`` and everything said after it is taken back.  Our commands say it as ``Reset`` is said."""

    id: EntryId
    target: str


@frozen(kw_only=True)
class Moved:
    """The chat got a new id: what waits and what is owed goes there from here on.  The log keeps its name (ADR 14)."""

    id: EntryId
    old: SessionKey  # "from" on disk
    new: SessionKey  # "to" on disk


@frozen(kw_only=True)
class Repaired:
    """These lines (kept aside in quarantine) could not be read."""

    id: EntryId
    lines: tuple[int, ...]
    why: str = ""


@frozen(kw_only=True)
class Unknown:
    """A type that this version does not know: kept, and skipped."""

    id: EntryId
    type: str
    raw: JsonObject


Entry: TypeAlias = (
    InboundMessage
    | Started
    | Step
    | Intent
    | Finished
    | Resumed
    | Question
    | Answer
    | Delivery
    | Head
    | Cut
    | Summary
    | Reset
    | Undo
    | Moved
    | Repaired
    | Unknown
)


def blobs_of(entry: Entry) -> tuple[BlobId, ...]:
    """Return the blobs that an entry refers to."""
    match entry:
        case Head(system=system, tools=tools):
            return system, tools
        case Step(blob=str() as blob):
            return (blob,)
        case _:
            return ()
