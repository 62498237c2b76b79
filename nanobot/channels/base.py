"""What a channel is: a transport between a platform and the bus.

A channel parses its platform's objects into ours, and gives out one part of one answer at a time.  Order, retries and records live
once, in ``manager``; who may come in, in ``access``.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from nanobot.bus.events import Acceptance, Decision, InboundMessage, Media, Role, Route, SessionKey
from nanobot.values import frozen

Accept: TypeAlias = Callable[[InboundMessage], Awaitable[Acceptance]]
"""Takes a message in.  When it returns, the message is durable, and only then may the platform be told so."""


class Record(Protocol):
    """Writes down what became of one part of an owed answer."""

    async def __call__(self, out: str, session_key: SessionKey, part: int, state: str, ref: str | None) -> None:
        """Append the delivery's new state to the session's log."""
        ...


class Decide(Protocol):
    """Hands in a person's decision about a call that waits."""

    async def __call__(
        self, session_key: SessionKey, decision: Decision, *, by: str, role: Role, question: str = ""
    ) -> str:
        """Decide the question (a ``Waiting`` event's ``question_id``); return a sentence for who decided.

        The decision is on disk then, unless the disk refuses; it counts also for a question that is not asked again yet after a
        restart.

        Raises:
            SessionError: the session cannot be opened; nothing was decided.
        """
        ...


class Move(Protocol):
    """Writes down that a chat has a new id."""

    async def __call__(self, session_key: SessionKey, new: SessionKey, /) -> None:
        """Let what is owed to the session's chat, and what waits, follow to the id that would make the key ``new``.

        Raises:
            SessionError: it could not be written down.
        """
        ...


@runtime_checkable
class Fetching(Protocol):
    """A channel whose messages may hold files.  Usable whether it listens or not."""

    async def fetch(self, media: Media) -> Media:
        """Bring a file of an accepted message to the disk; return the media with path and digest, durable.

        May take as long as it takes: whoever waits gives up in time.

        Raises:
            FileUnavailable: it cannot be had; the text says why in a few words, for the model.
        """
        ...


@frozen(kw_only=True)
class Capabilities:
    """What a platform can do.

    ``max_text_units`` is the longest text of one message, counted in ``units``; None where there is no limit.  With ``media``,
    files are given to it as parts; without, as a line of text that names them.
    """

    edit: bool = False
    buttons: bool = False
    media: bool = False
    max_text_units: int | None = None
    units: Literal["code points", "utf-16"] = "code points"


@frozen(kw_only=True)
class OutboundPart:
    """One part of an answer, to be sent as one message.

    ``may_be_repeat`` is true when an earlier try may have arrived: the channel says so in what it sends.  ``before`` is the
    answer's text before this part, which says what is open where the part begins (a code fence, a list).  ``ref`` is the platform's
    id of a message that was reserved for this part: it is edited instead of sending another.

    A part with ``media`` is that file, with ``text`` as its caption.  With ``anew``, files of the same Turn were sent before this
    text: what was reserved for it stands above them, and is taken away instead of being edited.  ``surplus`` are messages of an
    earlier process's draft that was longer than its answer; the last part brings them, to be taken away.
    """

    out: str
    session_key: SessionKey
    route: Route
    index: int
    count: int
    text: str
    may_be_repeat: bool = False
    before: str = ""
    ref: str | None = None
    media: Media | None = None
    anew: bool = False
    surplus: tuple[str, ...] = ()


class Channel(Protocol):
    """The contract; ``tests/contract/test_channel_contract.py`` holds every channel to it."""

    @property
    def name(self) -> str:
        """The configured name: the first part of routes and session keys."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What the platform can do."""
        ...

    async def listen(self, accept: Accept) -> None:
        """Hand incoming messages to ``accept`` until cancelled, or until there can be no more."""
        ...

    async def send(self, part: OutboundPart) -> str | None:
        """Send one part and return the platform's id for it, if it has one.

        Raises:
            SendFailed: it may work later.
            SendRejected: it never will.
        """
        ...
