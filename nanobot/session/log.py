"""What a log says: the fold from entries to a session's state.  Pure.

``SessionLog.apply`` takes entries in the order of the file; the state after each of them is what a reader of the file would find.
It never fails on an entry: what refers to something unknown (before the floor, or undone) is skipped.

Three lists live here.  ``rows`` is the transcript since the floor: what was said, minus what was undone, reset or summarized away.
``pending`` is the inbox: accepted and not yet taken up.  ``owed`` is the outbox: answers with parts that are not settled.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields

from nanobot.bus.events import InboundMessage, Media, OutboundMessage, Route, SessionKey, moved_route
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, JsonObject, JsonValue, Message, ToolMessage
from nanobot.session.entries import (
    Answer,
    Cut,
    Delivery,
    Entry,
    EntryId,
    Finished,
    Head,
    Intent,
    Moved,
    Question,
    Reset,
    Resumed,
    Started,
    Step,
    Summary,
    Undo,
)
from nanobot.session.inbox import Inbox
from nanobot.session.marks import Marks
from nanobot.session.outbox import Anchor, Outbox, owed_by
from nanobot.session.rows import BeforeSummary, OpenTurn, Recorded, Row

KEPT_IDS = 512  # inbound ids that outlive a floor, for recognising duplicates
KEPT_RESULTS = 64  # finished Turns whose result a repeated direct call may ask for


def number(entry_id: EntryId) -> int:
    """Return the position number of an ``e<n>`` id; -1 for ids that are not ours."""
    return _count(entry_id[1:]) if entry_id[:1] == "e" else -1


class SessionLog:
    """One session's state, folded from its log."""

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.chat = key  # the key that the chat's present id would make
        self.rows: list[Row] = []
        self._messages: list[Message] = []  # of ``rows``, as far as they were asked for
        self.open: OpenTurn | None = None
        self.recorded: dict[str, Recorded] = {}
        self.head: Head | None = None
        self.cuts: dict[str, Cut] = {}
        self.summary: Summary | None = None
        self.before_summary: BeforeSummary | None = None  # of the newest summary, as far as it was read
        self.settings: JsonObject = {}
        self.usage = Usage()
        self.last_turn = 0
        self.restarting: Route | None = None  # the chat that asked for a restart and was not told of it yet
        self.resets = 0  # since this fold began, like ``undone``: to notice that a snapshot is void
        self.undone = 0
        self.summary_position = 0  # where in the fold the newest summary stands
        self.marks = Marks()
        self._inbox = Inbox()
        self._outbox = Outbox()
        self._last_id = 0
        self._position = 0

    # -- asking ----------------------------------------------------------------------------------------------------------------

    def new_id(self) -> EntryId:
        """Return the next entry id; each call returns another one."""
        self._last_id += 1
        return f"e{self._last_id}"

    def new_turn(self) -> str:
        """Return the next Turn's id."""
        return f"t{self.last_turn + 1}"

    @property
    def messages(self) -> list[Message]:
        """The transcript's messages, oldest first, without the summary.  A new list; only new rows are looked at for it."""
        known, rows = self._messages, self.rows
        count = len(known)
        if not (0 < count <= len(rows) and known[0] is rows[0].message and known[-1] is rows[count - 1].message):
            known.clear()
        known += [row.message for row in rows[len(known) :]]
        return known.copy()

    @property
    def pending(self) -> Mapping[str, InboundMessage]:
        """The messages that nothing has taken up yet, by id, oldest first."""
        return self._inbox.pending

    @property
    def overheard(self) -> tuple[InboundMessage, ...]:
        """The last messages that were not said to us, since a message was taken up; oldest first."""
        return tuple(self._inbox.overheard)

    def newest(self, message_id: str) -> InboundMessage | None:
        """Return the pending message that stands where this one did, or this one; None if neither is pending."""
        return self.pending.get(self._inbox.newest(message_id))

    @property
    def seen(self) -> Collection[str]:
        """The ids of inbound messages, as far as they are known, oldest first."""
        return self._inbox.seen

    @property
    def owed(self) -> Mapping[str, OutboundMessage]:
        """The answers with parts that are not settled."""
        return self._outbox.owed

    @property
    def model(self) -> str | None:
        """The reference of the model that was chosen for this session, if one was."""
        chosen = self.settings.get("model")
        return chosen if isinstance(chosen, str) else None

    def turn_rows(self, turn: str) -> list[Row]:
        """Return the rows of one Turn, oldest first.  They lie together, and the last Turn's are found at once."""
        found: list[Row] = []
        for row in reversed(self.rows):
            if row.turn == turn:
                found.append(row)
            elif found:
                break
        return found[::-1]

    @property
    def allowed(self) -> tuple[JsonValue, ...]:
        """What a person allowed for this session from then on: patterns of calls, or, in older logs, names of tools."""
        patterns = self.settings.get("allowed")
        return tuple(patterns) if isinstance(patterns, list) else ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever said here."""
        return not self._position

    def settled(self) -> bool:
        """Say whether nothing is waiting: no pending message, no open Turn, no owed answer, no word after a restart."""
        return not (self.pending or self.open or self.owed or self.restarting)

    def floor(
        self, keep_from: EntryId | None, *, without_summary: bool = False, taken: Collection[str] = ()
    ) -> EntryId | None:
        """Return the oldest entry still needed if the transcript were kept from ``keep_from`` on (None: none of it).

        ``without_summary`` says that the summary so far is about to be superseded, ``taken`` which pending messages are about to be
        taken up.  None when nothing is needed.
        """
        needed = [place for name, place in self._inbox.arrived.items() if name not in taken]
        needed += self._outbox.anchors.values()
        if self.open:
            needed.append((self.open.position, self.open.started))
        if self.summary and not without_summary:
            needed.append((self.summary_position, self.summary.id))
        needed += [(row.position, row.entry) for row in self.rows if row.entry == keep_from]
        return min(needed)[1] if needed else None

    def carry(self) -> JsonObject:
        """Return what an entry with a floor must carry over it, as JSON.

        The head is not among it: whatever writes a floor is a cut, and the prompt gets a new head there.
        """
        return {
            "seen": list[JsonValue](self.seen)[-KEPT_IDS:],
            "turns": self.last_turn,
            "settings": self.settings,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cached_tokens": self.usage.cached_tokens,
            },
            "cuts": {name: cut.at for name, cut in self.cuts.items()},
            "marks": self.marks.carry(),
        }

    # -- folding ---------------------------------------------------------------------------------------------------------------

    def extend(self, entries: Iterable[Entry]) -> None:
        """Apply many entries."""
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Entry) -> None:
        """Take one more entry into account."""
        self._position += 1
        self._last_id = max(self._last_id, number(entry.id))
        self._inbox.note(entry)
        if isinstance(entry, Cut | Summary | Reset | Finished) and entry.carry:
            self._restore(entry.carry)
        match entry:
            case Started():
                self._started(entry)
            case Step():
                self._said(entry)
            case Intent():
                if self.open and self.open.turn == entry.turn:
                    self.open.intents[entry.call] = entry
            case Finished():
                self._finished(entry)
            case Question():
                if self.open and self.open.turn == entry.turn:
                    self.open.questions[entry.call] = entry
            case Answer():
                self._decided(entry)
            case Resumed():
                if self.open and self.open.turn == entry.turn:
                    self.open.resumed = entry.n
            case Delivery():
                self._outbox.deliver(entry, open_turn=self.open.turn if self.open else None)
            case Head():
                self.head = entry
            case Cut():
                self._cut(entry)
            case Summary():
                self._summarized(entry)
            case Reset():
                self._reset()
            case Undo():
                self._undo(entry.target)
            case Moved():
                self._moved(entry)
            case _:
                pass

    def _moved(self, entry: Moved) -> None:
        self.chat = entry.new
        self._outbox.move(entry)
        if self.open and self.open.route:
            self.open.route = moved_route(self.open.route, old=entry.old, new=entry.new)

    def _started(self, entry: Started) -> None:
        if entry.undoes:
            self._undo(entry.undoes)
        self.last_turn = max(self.last_turn, _count((entry.turn or "")[1:]))
        self.open = OpenTurn(
            turn=entry.turn,
            started=entry.id,
            position=self._position,
            route=entry.route,
            role=entry.role,
            inbound=list(entry.inbound),
            sender=entry.sender,
        )
        self.marks.note(number(entry.id), origins=entry.origins, secret=entry.secret, is_said=True)
        self._add(entry.message, entry.id, entry.turn)

    def _said(self, entry: Step) -> None:
        is_result = isinstance(entry.message, ToolMessage)
        origins = (
            (entry.message.origin,)
            if isinstance(entry.message, ToolMessage) and entry.message.origin
            else entry.origins
        )
        self.marks.note(number(entry.id), origins=origins, secret=entry.secret, is_said=not is_result)
        if entry.usage:
            self.usage += entry.usage
        turn = self.open if self.open and self.open.turn == entry.turn else None
        if turn:
            turn.inbound += entry.inbound
            turn.files += entry.media
            if isinstance(entry.message, AssistantMessage):
                turn.calls = {call.id: call for call in entry.message.tool_calls}
            elif isinstance(entry.message, ToolMessage):
                turn.calls.pop(entry.message.call_id, None)
        self._add(entry.message, entry.id, entry.turn, entry)

    def _add(self, message: Message, entry: EntryId, turn: str, step: Step | None = None) -> None:
        if step is None:
            row = Row(message, entry, turn, self._position)
        else:
            row = Row(message, entry, turn, self._position, step.finish, step.usage, step.blob)
        self.rows.append(row)

    def _decided(self, entry: Answer) -> None:
        asked = self.open.questions.values() if self.open else ()
        question = next((question for question in asked if question.id == entry.question), None)
        if question is None or self.open is None:
            return
        self.open.answers[question.call] = entry
        if entry.decision == "always":
            pattern = question.pattern or question.tool
            known: list[JsonValue] = [one for one in self.allowed if one != pattern]
            self.settings = {**self.settings, "allowed": [*known, pattern]}

    def _finished(self, entry: Finished) -> None:
        for message in entry.closes:
            self._add(message, entry.id, entry.turn or "")
        answer = next((row for row in reversed(self.rows) if row.entry == entry.answer), None) if entry.answer else None
        content = entry.content if entry.content is not None else _text(answer)
        inbound = entry.inbound
        began: Anchor | None = None
        files: tuple[Media, ...] = ()
        if self.open and self.open.turn == entry.turn:
            began = (self.open.position, self.open.started)
            files = self.open.files
            inbound = (*self.open.inbound, *inbound)
            self.open = None
        anchor = (answer.position, answer.entry) if answer else (self._position, entry.id)
        self._outbox.owe(owed_by(entry, self.key, content), anchor=anchor, began=began)
        tools = tuple(
            row.message.name for row in self.turn_rows(entry.turn or "") if isinstance(row.message, ToolMessage)
        )
        for message_id in inbound:
            self.recorded[message_id] = Recorded(entry, content, tools, files)
        while len(self.recorded) > KEPT_RESULTS:
            del self.recorded[next(iter(self.recorded))]
        if entry.effect:
            self._take_effect(entry.effect)
            self._note_restart(entry, entry.effect)

    def _note_restart(self, entry: Finished, effect: JsonObject) -> None:
        match effect.get("type"):
            case "restart" if entry.owed:
                self.restarting = entry.owed[0].route
            case "restarted":
                self.restarting = None
            case _:
                pass

    def _take_effect(self, effect: JsonObject) -> None:
        match effect.get("type"):
            case "reset":
                self._reset()
            case "undo":
                self._undo(str(effect.get("target")))
            case "settings":
                changes = {name: value for name, value in effect.items() if name != "type"}
                self.settings = {**self.settings, **changes}
                if "model" in changes:
                    self.head = None  # another model has another cache, and may want another prompt
            case "uncompact":
                self._uncompact(str(effect.get("target")))
            case _:
                pass

    def _cut(self, entry: Cut) -> None:
        self.cuts[entry.pass_name] = entry
        if entry.usage:
            self.usage += entry.usage
        if entry.pass_name == "trim":  # rows that no pass shows any more; the head lies before the floor, too
            self.head = None
            self._drop_before(entry.at)

    def _summarized(self, entry: Summary) -> None:
        self.before_summary = BeforeSummary(tuple(self.rows), self.summary, self.summary_position, dict(self.cuts))
        self.summary = entry
        self.summary_position = self._position
        self.head = None
        if entry.usage:
            self.usage += entry.usage
        # The summary stands for what was left out; what is kept stays as short as it was.
        self.cuts = {name: cut for name, cut in self.cuts.items() if name not in ("snip", "bare", "trim")}
        self._drop_before(entry.keep_from)

    def _uncompact(self, target: str) -> None:
        """Take the newest summary back: what it replaced stands again, and what was said since after it."""
        before = self.before_summary
        if before is None or self.summary is None or self.summary.id != target:
            return
        last = number(before.rows[-1].entry) if before.rows else -1
        self.rows = [*before.rows, *(row for row in self.rows if number(row.entry) > last)]
        self.summary, self.summary_position = before.summary, before.summary_position
        self.cuts = {**before.cuts, **self.cuts}
        self.head = None
        self.before_summary = None
        self.undone += 1

    def _drop_before(self, entry: EntryId) -> None:
        keep = next(
            (index for index, row in enumerate(self.rows) if number(row.entry) >= number(entry)), len(self.rows)
        )
        del self.rows[:keep]

    def _reset(self) -> None:
        self.resets += 1
        self.marks.clear()
        self.rows = []
        self.summary = self.before_summary = None
        self.head = None
        self.cuts = {name: cut for name, cut in self.cuts.items() if name.startswith("window:")}

    def _undo(self, target: str) -> None:
        self.undone += 1
        self.before_summary = None
        start = next((index for index, row in enumerate(self.rows) if row.turn == target), None)
        if start is None:
            return
        gone = {row.turn for row in self.rows[start:]}
        first = number(self.rows[start].entry)
        self.cuts = {
            name: cut
            for name, cut in self.cuts.items()
            # What was left out for the sake of a Turn that is taken back is shown again.
            if name not in ("snip", "bare") or number(cut.at) < first
        }
        self.marks.drop_from(first)
        del self.rows[start:]
        self._outbox.withdraw(gone)
        if self.open and self.open.turn in gone:
            self.open = None

    def _restore(self, carry: JsonObject) -> None:
        """Adopt what an entry with a floor carries: it speaks for everything before itself."""
        turns = carry.get("turns")
        self.last_turn = max(self.last_turn, turns if isinstance(turns, int) else 0)
        self.settings = {**_object(carry, "settings")}
        known = {name: count for name, count in _object(carry, "usage").items() if isinstance(count, int)}
        self.usage = Usage(**{field.name: known[field.name] for field in fields(Usage) if field.name in known})
        self.marks.restore(_object(carry, "marks"))
        for name, at in _object(carry, "cuts").items():
            if isinstance(at, str):
                self.cuts.setdefault(name, Cut(id=at, pass_name=name, at=at))


def _count(digits: str) -> int:
    """Return the number of these digits; -1 if they are none, or more than anybody counts."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1


def _object(holder: JsonObject, name: str) -> JsonObject:
    """Return what a carried object holds under a name, if that is an object: a newer version may carry other things."""
    found = holder.get(name)
    return found if isinstance(found, dict) else {}


def _text(row: Row | None) -> str:
    return row.message.text if row else ""
