"""Which answers a log owes, and what is known of each of their parts.  Pure; kept up entry by entry by ``SessionLog``."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeAlias

from nanobot.bus.events import SETTLED, OutboundMessage, SessionKey, moved_route
from nanobot.session.entries import Delivery, EntryId, Finished, Moved

Anchor: TypeAlias = tuple[int, EntryId]  # where in the fold an entry stands, and its id


def owed_by(finished: Finished, key: SessionKey, text: str) -> tuple[OutboundMessage, ...]:
    """Return the answers that a closing line owes, none of their parts sent yet."""
    return tuple(
        OutboundMessage(
            out=owed.out,
            session_key=key,
            route=owed.route,
            text=owed.media.caption if owed.media else text,
            parts=owed.parts,
            states=("owed",) * len(owed.parts),
            refs=(None,) * len(owed.parts),
            media=owed.media,
            anew=owed.anew,
        )
        for owed in finished.owed
    )


class Outbox:
    """``owed`` are the answers with parts that are not settled; ``anchors`` the oldest entry that each of them needs."""

    def __init__(self) -> None:
        self.owed: dict[str, OutboundMessage] = {}
        self.anchors: dict[str, Anchor] = {}
        self._early: dict[str, list[Delivery]] = {}  # of the open Turn's answer, which is not owed yet: drafts

    def owe(self, messages: Collection[OutboundMessage], *, anchor: Anchor, began: Anchor | None) -> None:
        """Take up what a Turn (which ``began`` there) or a command owes; the text stands at ``anchor``."""
        for message in messages:
            early = self._early.pop(message.out, None)
            self.owed[message.out] = replace(message, surplus=_surplus(early or (), len(message.parts)))
            self.anchors[message.out] = began if early and began else anchor
            for delivery in early or ():
                self.deliver(delivery)
        if began:
            self._early.clear()

    def deliver(self, entry: Delivery, *, open_turn: str | None = None) -> None:
        """Take note of what became of a part, also of an answer that ``open_turn`` will owe."""
        message = self.owed.get(entry.out)
        if message is None and open_turn and entry.out.startswith(f"{open_turn}."):
            self._early.setdefault(entry.out, []).append(entry)
        if message is None or not 0 <= entry.part < len(message.parts):
            return
        states, refs = list(message.states), list(message.refs)
        states[entry.part] = entry.state
        refs[entry.part] = entry.ref if entry.ref is not None else refs[entry.part]
        self.owed[entry.out] = replace(message, states=tuple(states), refs=tuple(refs))
        if SETTLED.issuperset(states):
            self._forget(entry.out)

    def withdraw(self, turns: Collection[str]) -> None:
        """Owe nothing any more of what these Turns said."""
        for out in [out for out in self.owed if out.partition(".")[0] in turns]:
            self._forget(out)

    def move(self, entry: Moved) -> None:
        """Owe to a chat's new id what was owed to its old one."""
        for out, message in self.owed.items():
            self.owed[out] = replace(message, route=moved_route(message.route, old=entry.old, new=entry.new))

    def _forget(self, out: str) -> None:
        del self.owed[out]
        del self.anchors[out]


def _surplus(early: Collection[Delivery], count: int) -> tuple[str, ...]:
    """Return the messages that a draft reserved beyond the ``count`` parts of its answer."""
    return tuple(one.ref for one in early if one.part >= count and one.ref)
