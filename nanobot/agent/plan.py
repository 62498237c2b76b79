"""Where to cut when a request does not fit.  Pure: messages, budget and measure in, boundaries out.

Cuts come in steps.  A cut makes room for a while, because each one costs the provider's cached prefix; so the gentlest one that
makes enough room is taken, not the smallest one that fits.  ``_rungs`` is the ladder, from the gentlest cut to the hardest; each
rung includes those before it.  Only when the last one does not fit, nothing does, and the error names what is too long.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from nanobot.agent.meter import Gauge, Ratios
from nanobot.agent.passes import Boundaries, govern, is_chatty
from nanobot.agent.repair import is_person
from nanobot.agent.tokens import estimate_message
from nanobot.errors import NanobotError
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage, images_of
from nanobot.session.log import number

KEEP_VERBATIM = 10  # newest results of chatty tools that stay as they are, unless nothing else makes the request fit
EARLY = 0.75  # of the budget: from here on old results are compacted, if that alone makes room again
TARGET = 0.5  # of the budget: what cuts aim at
_ROOM = 0.6  # of the budget: a gentle cut that gets below this is enough
_ENOUGH = 0.85  # of the budget: so is a hard one that gets below this
_IMPORTED_CHARS = 16_000  # a result longer than this was not cut by us before it was logged


class CannotFit(NanobotError):
    """Nothing that may be left out is left, and the request still exceeds the window."""


class Measure(Protocol):
    """Measures requests; ``agent.meter.Gauge`` is one."""

    def measure(self, messages: Sequence[Message]) -> int:
        """Return the tokens of a request with these messages."""
        ...

    def weights(self, messages: Sequence[Message]) -> list[int]:
        """Return, for each index, the tokens of the messages from there to the end."""
        ...

    def overhead(self) -> int:
        """Return the tokens of what is sent with any messages."""
        ...


def plan(messages: Sequence[Message], boundaries: Boundaries, *, budget: int, gauge: Measure) -> Boundaries:
    """Return boundaries with which the messages fit ``budget`` tokens; the given ones, if they do already.

    Raises:
        CannotFit: not even the request alone fits; the text names the message that is too long.
    """
    size = gauge.measure(govern(messages, boundaries))
    if size <= budget * EARLY:
        return boundaries
    if size <= budget:
        early = _compact(messages, boundaries, KEEP_VERBATIM)
        worth_it = early != boundaries and gauge.measure(govern(messages, early)) <= budget * TARGET
        return early if worth_it else boundaries
    return _harder(messages, boundaries, budget, gauge)


def plan_messages(messages: Sequence[Message], boundaries: Boundaries, *, budget: int) -> Boundaries:
    """Plan by estimates alone, for messages without a request around them."""
    return plan(messages, boundaries, budget=budget, gauge=Gauge(model="", ratios=Ratios(), overhead=0))


def compacted(messages: Sequence[Message], boundaries: Boundaries) -> Boundaries:
    """Return boundaries with which all but the newest results of chatty tools are one line each."""
    return _compact(messages, boundaries, KEEP_VERBATIM)


def without_results(messages: Sequence[Message], boundaries: Boundaries) -> Boundaries:
    """Return boundaries with which all results of chatty tools are one line, and nothing goes back that came with answers."""
    at = _compact(messages, boundaries, 0)
    extras = [number(m.entry) for m in messages if isinstance(m, AssistantMessage) and m.extra]
    return replace(at, extras_before=max([at.extras_before, *(entry + 1 for entry in extras)]))


def _harder(messages: Sequence[Message], start: Boundaries, budget: int, gauge: Measure) -> Boundaries:
    enough: Boundaries | None = None
    fits: Boundaries | None = None
    last = start
    for rung, is_gentle in _rungs(messages, start, budget, gauge):
        last = rung
        size = gauge.measure(govern(messages, rung))
        if size <= budget * (_ROOM if is_gentle else _ENOUGH):
            return rung if is_gentle else enough or rung
        if enough is None and size <= budget * _ENOUGH:
            enough = rung
        if fits is None and size <= budget:
            fits = rung
    if enough or fits:
        return enough or fits or start
    raise CannotFit(_sentence(govern(messages, last), budget, gauge))


def _rungs(
    messages: Sequence[Message], at: Boundaries, budget: int, gauge: Measure
) -> Iterator[tuple[Boundaries, bool]]:
    """Yield cuts, each harder than the one before, and whether it is a gentle one."""
    at = _compact(messages, at, KEEP_VERBATIM)
    yield at, True
    at = _limit(messages, at, _IMPORTED_CHARS)
    yield at, True
    at = _snip_turns(messages, at, budget, gauge)
    yield at, True
    for keep in (5, 3, 1):
        at = _compact(messages, at, keep)
        yield at, False
    at = _drop_images(messages, at, _newest_request(messages))
    yield at, False
    at = _limit(messages, at, 4_000)
    yield at, False
    at = _snip(messages, at, [int(budget * TARGET)], gauge, begins=_begins_step)
    yield at, False
    for chars in (1_000, 300):
        at = _limit(messages, at, chars)
        yield at, False
    at = _compact(messages, at, 0)
    yield at, False
    at = _drop_images(messages, at, _after_last(messages))
    yield at, False
    at = replace(at, bare_before=max(at.bare_before, _newest_request(messages), at.snip_before))
    yield at, False
    yield replace(at, snip_before=_after_last(messages), bare_before=_after_last(messages)), False


def _compact(messages: Sequence[Message], at: Boundaries, keep: int) -> Boundaries:
    results = [
        number(m.entry)
        for m in messages
        if isinstance(m, ToolMessage) and is_chatty(m.name, at.chatty) and number(m.entry) > 0
    ]
    if len(results) <= keep:
        return at
    before = results[-keep] if keep else results[-1] + 1
    return replace(at, compact_before=max(at.compact_before, before))


def _limit(messages: Sequence[Message], at: Boundaries, chars: int) -> Boundaries:
    if not any(isinstance(m, ToolMessage) and len(m.text) > chars for m in messages):
        return at
    limits = {**dict(at.limits), chars: _after_last(messages)}
    return replace(at, limits=tuple(sorted(limits.items(), reverse=True)))


def _drop_images(messages: Sequence[Message], at: Boundaries, before: int) -> Boundaries:
    if not any(at.images_before <= number(m.entry) < before for m in messages if images_of(m)):
        return at
    return replace(at, images_before=before)


def _snip_turns(messages: Sequence[Message], at: Boundaries, budget: int, gauge: Measure) -> Boundaries:
    """Leave out whole exchanges, the oldest first.

    If the newest one is so long that the target cannot be met, some before it stay as long as it fits at all.
    """
    targets = [int(budget * share) for share in (TARGET, (TARGET + _ENOUGH) / 2, _ENOUGH)]
    return _snip(messages, at, targets, gauge, begins=_begins_exchange)


class _Begins(Protocol):
    def __call__(self, messages: Sequence[Message], index: int) -> bool: ...


def _snip(
    messages: Sequence[Message], at: Boundaries, targets: Sequence[int], gauge: Measure, *, begins: _Begins
) -> Boundaries:
    """Move the snip to the oldest place from which on the rest meets the first target that more than the newest part can meet."""
    view = govern(messages, replace(at, snip_before=0, bare_before=0))
    starts = [i for i in range(len(view)) if number(view[i].entry) > at.snip_before and begins(view, i)]
    if not starts:
        return at
    weights = gauge.weights(view)
    found = starts[-1]
    for target in targets:
        room = target - gauge.overhead()
        found = next((i for i in starts if weights[i] <= room), starts[-1])
        if found != starts[-1]:
            break
    return replace(at, snip_before=number(view[found].entry))


def _begins_exchange(messages: Sequence[Message], index: int) -> bool:
    if not is_person(messages[index]):
        return False
    before = messages[index - 1] if index else None
    return not isinstance(before, ToolMessage)  # else it was sent while the Turn ran


def _begins_step(messages: Sequence[Message], index: int) -> bool:
    return _begins_exchange(messages, index) or isinstance(messages[index], AssistantMessage)


def _newest_request(messages: Sequence[Message]) -> int:
    return next((number(m.entry) for m in reversed(messages) if is_person(m)), 0)


def _after_last(messages: Sequence[Message]) -> int:
    return max((number(m.entry) for m in messages), default=0) + 1


def _sentence(messages: Sequence[Message], budget: int, gauge: Measure) -> str:
    fixed = gauge.overhead()
    longest = max(messages, key=estimate_message, default=None)
    size = gauge.weights([longest])[0] if longest else 0
    if longest is None or fixed > budget * 0.8:
        return (
            f"This cannot be sent to the model: the system prompt and the tools alone take about {fixed} tokens, "
            f"and the window has room for {budget}. Use a model with a larger window, or fewer tools."
        )
    images = len(images_of(longest))
    with_images = f" with {images} images" if images else ""
    return (
        f"This cannot be sent to the model: {_who(longest)}{with_images} ({longest.entry or 'not saved'}) takes about "
        f"{size} tokens, and there is room for {max(0, budget - fixed)}. Shorten it, or use a model with a larger window."
    )


def _who(message: Message) -> str:
    match message:
        case UserMessage():
            return "your message" if message.origin == "user" else "a note"
        case AssistantMessage():
            return "an answer of the model"
        case ToolMessage():
            return f"the result of {message.name}"
