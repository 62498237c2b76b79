"""How large a request is: anchored on what the provider last reported, estimated for what is new.

A ``Gauge`` measures the requests of one run.  Its anchor is the newest request whose size the provider reported; only what differs
from that request is estimated.  ``Ratios`` remembers, model by model, how far estimates are off.  A learned ratio says *when* to
cut; where a result is cut never depends on it, so the log stays the whole truth.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate

from nanobot.agent.models import Model
from nanobot.agent.tokens import estimate_message, estimate_messages
from nanobot.messages import Message
from nanobot.session.entries import EntryId
from nanobot.session.log import SessionLog, number
from nanobot.values import frozen

_LEAST, _MOST = 0.6, 3.0  # a ratio beyond these says more about the report than about the model
# Reports further off are not sizes of the whole prompt: some servers leave out what they cached.
_BELIEVABLE = (0.4, 5.0)
_HEAD_ROOM = 16_000  # system text and tools may take so much, where messages alone were estimated
_SHARE = 0.5  # of the learned ratio that the newest report makes up
_REMEMBERED = 64
_SHOWN = frozenset({"microcompact", "limit", "images", "extras", "snip", "bare"})
_SMALLEST_WINDOW = 2_000  # less than that no model has


@frozen
class Reported:
    """What a provider said about the request that the assistant message ``entry`` answered."""

    entry: EntryId
    input_tokens: int


def last_reported(log: SessionLog) -> Reported | None:
    """Return the newest report of a session; None if what the model sees was cut after it."""
    row = next((row for row in reversed(log.rows) if row.usage), None)
    if row is None or row.usage is None:
        return None
    moved = [log.head, log.summary, *(cut for name, cut in log.cuts.items() if changes_view(name))]
    is_void = log.head is None or any(entry and number(entry.id) > number(row.entry) for entry in moved)
    return None if is_void else Reported(row.entry, row.usage.input_tokens)


def changes_view(cut: str) -> bool:
    """Say whether a cut of this name changes what the model is shown."""
    return cut.partition(":")[0] in _SHOWN


def prompt_tokens(log: SessionLog, *, estimated: int) -> int:
    """Return the size of the newest prompt and its answer: as reported, or ``estimated`` where no report holds any more.

    ``estimated`` counts messages alone: in a short conversation, system text and tools are most of what is reported.
    """
    row = next((row for row in reversed(log.rows) if row.usage), None)
    if row is None or row.usage is None or last_reported(log) is None:
        return estimated
    reported = row.usage.input_tokens + row.usage.output_tokens
    least, most = _BELIEVABLE
    return reported if least * estimated <= reported <= most * (estimated + _HEAD_ROOM) else estimated


def known_window(log: SessionLog, model: Model) -> int:
    """Return the model's window, or what its provider's refusals in this session taught us of it."""
    learned = log.cuts.get(f"window:{model.model}")
    return min(model.window, max(_SMALLEST_WINDOW, number(learned.at))) if learned else model.window


class Ratios:
    """Tokens per estimated token, model by model, learned from reports; bounded, and 1 for a model nothing is known of."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, float] = OrderedDict()

    def of(self, model: str) -> float:
        """Return the ratio of a model."""
        return self._known.get(model, 1.0)

    def learn(self, model: str, *, estimated: int, reported: int) -> None:
        """Take a report into account, if it can be believed."""
        if not believable(estimated, reported):
            return
        seen = min(_MOST, max(_LEAST, reported / estimated))
        known = self._known.get(model)
        self._known[model] = seen if known is None else known + (seen - known) * _SHARE
        self._known.move_to_end(model)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def believable(estimated: int, reported: int) -> bool:
    """Say whether a report can be the size of the whole prompt."""
    return estimated > 0 and _BELIEVABLE[0] * estimated <= reported <= _BELIEVABLE[1] * estimated


class Gauge:
    """Measures the requests of one run.

    Args:
        model: whose requests.
        ratios: shared by all runs.
        overhead: estimated tokens of system text and tool schemas.
        reported: the newest report of the session, if nothing was cut since.
        estimate: sums the messages' estimates; a memo's does so for what is new alone.
    """

    def __init__(
        self,
        *,
        model: str,
        ratios: Ratios,
        overhead: int,
        reported: Reported | None = None,
        estimate: Callable[[Sequence[Message]], int] = estimate_messages,
    ) -> None:
        self._model = model
        self._ratios = ratios
        self._overhead = overhead
        self._reported = reported
        self._estimate = estimate
        self._anchor: tuple[int, int] | None = None  # reported, estimated

    def measure(self, messages: Sequence[Message]) -> int:
        """Return the tokens of a request with these messages."""
        if self._reported is not None:
            self._find_anchor(messages, self._reported)
        estimated = self._overhead + self._estimate(messages)
        ratio = self._ratios.of(self._model)
        plain = estimated * ratio
        if self._anchor is None:
            return int(plain)
        reported, then = self._anchor
        new = estimated - then
        # What is new may be of another kind than what was learned from, so the ratio never makes it smaller; and after a cut the
        # difference to an old report says little, so the plain estimate has a say.
        return int(reported + new * max(1.0, ratio) if new >= 0 else max(reported + new * ratio, 0.95 * plain))

    def weights(self, messages: Sequence[Message]) -> list[int]:
        """Return, for each index, the tokens of the messages from there to the end."""
        ratio = max(1.0, self._ratios.of(self._model))
        sums = accumulate(estimate_message(message) * ratio for message in reversed(messages))
        return [int(total) for total in sums][::-1]

    def overhead(self) -> int:
        """Return the tokens of what is sent with any messages."""
        return int(self._overhead * max(1.0, self._ratios.of(self._model)))

    def learn(self, messages: Sequence[Message], reported: int) -> None:
        """Take the provider's count of a request that was sent into account."""
        self._learn(self._overhead + self._estimate(messages), reported)

    def _learn(self, estimated: int, reported: int) -> None:
        self._reported = None
        if believable(estimated, reported):
            self._anchor = (reported, estimated)
            self._ratios.learn(self._model, estimated=estimated, reported=reported)

    def was_too_long(self, messages: Sequence[Message], limit: int) -> None:
        """Learn from a refusal: this request was longer than ``limit``, whatever was thought of it."""
        estimated = self._overhead + self._estimate(messages)
        self._reported = self._anchor = None
        self._ratios.learn(
            self._model, estimated=estimated, reported=max(limit, int(estimated * self._ratios.of(self._model)))
        )

    def _find_anchor(self, messages: Sequence[Message], reported: Reported) -> None:
        self._reported = None
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].entry == reported.entry:
                since = estimate_messages(messages[index:])
                self._learn(self._overhead + self._estimate(messages) - since, reported.input_tokens)
                return
