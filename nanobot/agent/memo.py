"""Governance that costs what is new: the closed part of a conversation is governed and measured once.

A transcript only grows at its end, except at recorded cuts; and every pass works from one user message to the next.  So what came
out for everything before the newest user message stands, as long as the same messages begin the list and no boundary moved.  A
``Memo`` keeps that for one session; with an empty one, everything is computed from the beginning, with the same outcome.
"""

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from nanobot.agent.passes import Boundaries, govern
from nanobot.agent.tokens import estimate_messages
from nanobot.messages import Message, UserMessage
from nanobot.session.log import number
from nanobot.session.manager import Session


class Memo:
    """What was made of a session's closed part.  Messages are compared by identity: a log never changes one."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._first: Message | None = None
        self._next: Message | None = None  # the user message that the closed part ends before
        self._length = 0
        self._boundaries = Boundaries()
        self._out: list[Message] = []
        self._tokens = 0  # of ``_out``

    def govern(self, messages: Sequence[Message], boundaries: Boundaries) -> list[Message]:
        """Return what ``passes.govern`` returns."""
        if self._stands(messages, boundaries):
            new = govern(messages[self._length :], replace(boundaries, snip_before=0, bare_before=0))
            out = [*self._out, *new]
        else:
            self._forget()
            out = govern(messages, boundaries)
        self._remember(messages, boundaries, out)
        return out

    def estimate(self, messages: Sequence[Message]) -> int:
        """Return the sum of the messages' estimated tokens; quick for what ``govern`` returned last."""
        known = len(self._out)
        goes_on = 0 < known <= len(messages) and messages[0] is self._out[0] and messages[known - 1] is self._out[-1]
        return self._tokens + estimate_messages(messages[known:]) if goes_on else estimate_messages(messages)

    def _stands(self, messages: Sequence[Message], boundaries: Boundaries) -> bool:
        return (
            0 < self._length < len(messages)
            and boundaries == self._boundaries
            and messages[0] is self._first
            and messages[self._length] is self._next
        )

    def _remember(self, messages: Sequence[Message], boundaries: Boundaries, out: list[Message]) -> None:
        """Keep everything before the newest user message, if the boundaries leave that one and what follows alone."""
        length = _newest_user(messages)
        at = _newest_user(out)
        if length < 1 or at < 1 or not _is_past(boundaries, messages[length]) or out[at] is not messages[length]:
            self._forget()
            return
        closed = out[:at]
        self._tokens = self.estimate(closed)
        self._first, self._next = messages[0], messages[length]
        self._length, self._boundaries, self._out = length, boundaries, closed


class Memos:
    """A memo for each session in use; it goes with its session."""

    def __init__(self) -> None:
        self._memos: WeakKeyDictionary[Session, Memo] = WeakKeyDictionary()

    def of(self, session: Session) -> Memo:
        """Return the session's memo."""
        return self._memos.setdefault(session, Memo())


def _newest_user(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage) and message.entry:  # rows that passes put in have none
            return index
    return -1


def _is_past(boundaries: Boundaries, message: Message) -> bool:
    return max(boundaries.snip_before, boundaries.bare_before) <= number(message.entry)
