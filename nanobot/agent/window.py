"""Where a session's window goes, and what its Turns cost: recomputed from the log.  Pure.

``contents`` splits the newest prompt by what it is made of; ``history`` gives each Turn's figures, with the size that its prompt
would have had without governance, so that a curve of both shows where it bends and why.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nanobot.agent.meter import believable, changes_view
from nanobot.agent.tokens import estimate_message
from nanobot.bus.runtime_events import Usage
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage
from nanobot.session.entries import Cut, Entry, Finished, Head, Reset, Started, Step, Summary
from nanobot.values import frozen


@frozen
class TurnCost:
    """One Turn's tokens.

    Args:
        turn: its id.
        usage: of all its requests, as reported.
        prompt: the last request's prompt, as reported, or estimated where no report can be believed.
        ungoverned: what that prompt would have been with everything that was ever said, also before a reset.
        cuts: what was cut since the Turn before.
    """

    turn: str
    usage: Usage
    prompt: int
    ungoverned: int
    cuts: tuple[str, ...]


@frozen
class Reuse:
    """The session's metric of its prefix: how often it was cut, and how much of all prompts the provider had read before."""

    cuts: int
    input_tokens: int
    cached_tokens: int


def contents(
    messages: Sequence[Message], *, system_tokens: int, tools_tokens: int, total: int | None = None
) -> Mapping[str, int]:
    """Return tokens by what they are: system, tools, summary, results by tool, people, the model, notes; larger than 0 only.

    ``total`` is the prompt's size as reported: the parts are scaled to it.
    """
    parts: Counter[str] = Counter(system=system_tokens, tools=tools_tokens)
    for message in messages:
        parts[_part(message)] += estimate_message(message)
    estimated = sum(parts.values())
    scale = total / estimated if total is not None and believable(estimated, total) else 1.0
    return {name: round(size * scale) for name, size in parts.items() if size}


def history(entries: Iterable[Entry], *, head_tokens: int) -> list[TurnCost]:
    """Return the figures of each Turn that asked a model, oldest first.

    Args:
        entries: the whole log, oldest first.
        head_tokens: what system text and tools take.
    """
    out: list[TurnCost] = []
    costs = _Costs(head_tokens)
    for entry in entries:
        if isinstance(entry, Finished) and (cost := costs.turn(entry)) is not None:
            out.append(cost)
        costs.read(entry)
    return out


def reuse(entries: Iterable[Entry]) -> Reuse:
    """Return how well the prefix of a session held."""
    cuts = input_tokens = cached = 0
    heads = FirstHeads()
    for entry in entries:
        is_first = heads.is_first(entry)
        cuts += cut_name(entry) is not None and not is_first
        if isinstance(entry, Step) and entry.usage:
            input_tokens += entry.usage.input_tokens
            cached += entry.usage.cached_tokens
    return Reuse(cuts, input_tokens, cached)


def cut_name(entry: Entry) -> str | None:
    """Return the name of a cut that changed what the model was shown; None for any other entry."""
    match entry:
        case Cut(pass_name=name) if changes_view(name):
            return name
        case Summary():
            return "summary"
        case Head():
            return "head"
        case _:
            return None


class FirstHeads:
    """Tells the head that a conversation begins with from one that replaces another: only the latter cuts anything."""

    def __init__(self) -> None:
        self._is_fresh = True

    def is_first(self, entry: Entry) -> bool:
        """Take the next entry of the log; say whether it is the first head since the beginning or a reset."""
        match entry:
            case Reset() | Finished(effect={"type": "reset"}):
                self._is_fresh = True
            case Head():
                was_fresh, self._is_fresh = self._is_fresh, False
                return was_fresh
            case _:
                pass
        return False


class _Costs:
    def __init__(self, head_tokens: int) -> None:
        self._head = head_tokens
        self._said = 0
        self._before_reset = 0  # how much of that
        self._last = 0
        self._usage = Usage()
        self._prompt = 0
        self._asked = False
        self._cuts: list[str] = []
        self._is_cut = False  # what was said is not all in the prompt
        self._ratio = 1.0  # reported by estimated tokens, of the newest prompt that held all
        self._heads = FirstHeads()

    def read(self, entry: Entry) -> None:
        is_first = self._heads.is_first(entry)
        match entry:
            case Started():
                self._said += estimate_message(entry.message)
            case Step():
                self._step(entry)
            case Reset() | Finished(effect={"type": "reset"}):
                self._is_cut, self._before_reset = True, self._said
            case _:
                if (name := cut_name(entry)) is not None and not is_first:
                    self._cuts.append(name)
                    self._is_cut |= name != "head"

    def _step(self, entry: Step) -> None:
        if isinstance(entry.message, AssistantMessage):
            self._asked = True
            self._last = self._head + self._said
            if entry.usage:
                self._usage += entry.usage
                self._prompt = entry.usage.input_tokens
        self._said += estimate_message(entry.message)

    def turn(self, entry: Finished) -> TurnCost | None:
        """Return the Turn that this entry closes, if it asked a model, and begin the next."""
        if entry.turn is None or not self._asked:
            return None
        prompt = self._prompt or self._last - self._before_reset
        if not self._is_cut and believable(self._last, prompt):
            self._ratio = prompt / self._last
        ungoverned = max(prompt, round(self._last * self._ratio)) if self._is_cut else prompt
        cost = TurnCost(entry.turn, self._usage, prompt, ungoverned, tuple(self._cuts))
        self._usage, self._prompt, self._asked, self._cuts = Usage(), 0, False, []
        return cost


def _part(message: Message) -> str:
    match message:
        case ToolMessage():
            return f"results of {message.name or 'unknown'}"
        case AssistantMessage():
            return "the model"
        case UserMessage():
            return {"user": "people", "summary": "summary", "runtime": "notes"}[message.origin]
