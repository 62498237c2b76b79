"""What the model saw, and why something was missing: recomputed from the log.

Messages for the model are a pure function of the log (rows, cuts, summaries in their order), so they can be had again at any time.
``views`` replays the log and stops at each answer.
"""

from collections.abc import Iterable, Iterator, Sequence

from nanobot.agent.passes import Boundaries, at_cuts, govern
from nanobot.agent.window import FirstHeads
from nanobot.messages import AssistantMessage, Message, ToolMessage
from nanobot.session.entries import Cut, Entry, EntryId, Finished, Head, Reset, Started, Step, Summary
from nanobot.session.log import SessionLog
from nanobot.session.manager import summary_message
from nanobot.values import frozen


@frozen(kw_only=True)
class View:
    """One model request: ``model`` is what was sent, ``notes`` why it differs from ``initial`` plus the Turn so far."""

    turn: str
    iteration: int
    answer: EntryId
    head: EntryId | None
    session: Sequence[Message]
    history: Sequence[Message]
    initial: Sequence[Message]
    model: Sequence[Message]
    notes: Sequence[str]


def views(entries: Iterable[Entry], boundaries: Boundaries) -> Iterator[View]:
    """Yield a view for each answer of the log, oldest first.

    Args:
        entries: the whole log, oldest first.
        boundaries: chatty tools and limits of this agent; where they cut is taken from the log.
    """
    everything: list[Message] = []
    log = SessionLog("")
    notes: list[str] = []
    iterations: dict[str, int] = {}
    heads = FirstHeads()
    for entry in entries:
        if isinstance(entry, Step) and isinstance(entry.message, AssistantMessage) and entry.finish != "cut_off":
            iterations[entry.turn] = iterations.get(entry.turn, 0) + 1
            yield _view(entry, iterations[entry.turn], log, everything, at_cuts(boundaries, log.cuts), notes)
        if isinstance(entry, Started | Step):
            everything.append(entry.message)
        elif isinstance(entry, Finished):
            everything += entry.closes
        is_first = heads.is_first(entry)
        if not is_first and (note := _note(entry)) is not None:
            notes.append(note)
        log.apply(entry)


def _view(
    entry: Step,
    iteration: int,
    log: SessionLog,
    everything: Sequence[Message],
    boundaries: Boundaries,
    notes: list[str],
) -> View:
    summary = [summary_message(log.summary.text, log.summary.id)] if log.summary else []
    rows = [row.message for row in log.rows if row.turn != entry.turn]
    own = [row.message for row in log.rows if row.turn == entry.turn]
    history = [*summary, *rows]
    model = govern([*history, *own], boundaries)
    return View(
        turn=entry.turn,
        iteration=iteration,
        answer=entry.id,
        head=entry.head or (log.head.id if log.head else None),
        session=list(everything),
        history=history,
        initial=[*history, *own[:1]],
        model=model,
        notes=[*notes, *_shortened([*history, *own], model)],
    )


def _shortened(before: Sequence[Message], after: Sequence[Message]) -> list[str]:
    results = {message.entry: message for message in before if isinstance(message, ToolMessage)}
    notes: list[str] = []
    for message in after:
        original = results.get(message.entry)
        if isinstance(message, ToolMessage) and original is not None and original.text != message.text:
            notes.append(
                f"{message.entry}: result of {message.name}, {len(original.text)} characters, shown as {len(message.text)}"
            )
    return notes


def _note(entry: Entry) -> str | None:
    match entry:
        case Cut(pass_name=name, at=at, why=why):
            return f"{entry.id}: {name} up to {at}{f': {why}' if why else ''}"
        case Summary(covers_to=covers_to, keep_from=keep_from):
            return f"{entry.id}: a summary stands for everything up to {covers_to}; verbatim from {keep_from}"
        case Reset():
            return f"{entry.id}: the conversation was reset"
        case Head():
            return f"{entry.id}: a new head (system prompt and tools) was frozen"
        case Finished(effect={"type": "reset"}):
            return f"{entry.id}: the conversation was reset"
        case Finished(effect={"type": "undo", "target": target}):
            return f"{entry.id}: {target} was taken back"
        case Started(undoes=str() as undone):
            return f"{entry.id}: {undone} was taken back and run again"
        case _:
            return None
