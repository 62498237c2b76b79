"""The check before every request of a Turn: does it fit, and if not, which cuts make it fit.

``Governor`` answers with the messages for the model and with the boundaries that moved, which the caller logs before it sends.  The
boundaries it starts from come from the log, so a resumed Turn is governed alike.  What is decided stands in ``agent.plan``.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from nanobot.agent.memo import Memo
from nanobot.agent.meter import Gauge
from nanobot.agent.passes import Boundaries
from nanobot.agent.plan import EARLY, CannotFit, plan, without_results
from nanobot.messages import Message
from nanobot.session.log import number
from nanobot.values import frozen

__all__ = ["CannotFit", "Decided", "Fitted", "Governor", "answer_room", "prompt_budget"]

_MARGIN = 0.02  # of the window: what counting may be off by
_ANSWER_SHARE = 4  # an answer gets at most this part of the window
_HARDER = 0.7  # of the budget, after a provider said "too long" without saying how long is right


@frozen
class Decided:
    """A boundary that moved: the pass, the entry number it now works up to, and why."""

    pass_name: str
    at: int
    why: str


@frozen
class Fitted:
    """The messages for the model, what the request is thought to take, and the cuts made for it."""

    messages: list[Message]
    tokens: int
    cuts: tuple[Decided, ...]


def answer_room(window: int, max_tokens: int) -> int:
    """Return the tokens kept free for the answer: what was asked for, but never most of a small window."""
    return min(max_tokens, window // _ANSWER_SHARE)


def prompt_budget(window: int, max_tokens: int) -> int:
    """Return how many tokens a prompt may take, system text and tools included."""
    return int(window * (1 - _MARGIN)) - answer_room(window, max_tokens)


class Governor:
    """Fits requests into a budget of tokens.

    Args:
        budget_tokens: what a whole prompt may take.
        boundaries: where earlier cuts stand.
        gauge: measures.
        memo: what was governed before in this session.
    """

    def __init__(self, *, budget_tokens: int, boundaries: Boundaries, gauge: Gauge, memo: Memo | None = None) -> None:
        self._budget = budget_tokens
        self._boundaries: Boundaries = boundaries
        self._gauge = gauge
        self._memo = memo or Memo()
        self._why: str = "the request did not fit the window"

    def fit(self, messages: Sequence[Message]) -> Fitted:
        """Return messages that fit.

        Raises:
            CannotFit: one message alone is too long; the text names it.
        """
        before = self._boundaries
        out = self._memo.govern(messages, before)
        size = self._gauge.measure(out)
        if size > self._budget * EARLY:
            self._boundaries = plan(messages, before, budget=self._budget, gauge=self._gauge)
            out = self._memo.govern(messages, self._boundaries)
            size = self._gauge.measure(out)
        return Fitted(out, size, _moved(before, self._boundaries, self._why))

    def is_close(self, fitted: Fitted) -> bool:
        """Say whether what was fitted comes so near to the budget that an exact count is worth a round trip."""
        return fitted.tokens > self._budget * EARLY

    def learn(self, messages: Sequence[Message], input_tokens: int) -> None:
        """Take a request's reported size into account."""
        self._gauge.learn(messages, input_tokens)

    def harder(self, messages: Sequence[Message], window: int | None, max_tokens: int) -> int:
        """Believe a provider that said "too long" of these messages; return the window it seems to have.

        ``window`` is what it said.  If that is no less than we thought, our count was wrong, not the window.
        """
        self._why = "the provider refused the request as too long"
        if window:
            self._budget = min(self._budget, prompt_budget(window, max_tokens))
            if self._gauge.measure(messages) <= self._budget:
                self._gauge.was_too_long(messages, window)
        size = self._gauge.measure(messages)
        if size <= self._budget:  # whatever the number means, the same request must not be sent again
            self._budget = int(size * _HARDER)
        return window or int((self._budget + answer_room(self._budget, max_tokens)) / (1 - _MARGIN))

    def leave_out_images(self, up_to: str) -> Decided:
        """Stop sending images up to and including the entry ``up_to``."""
        at = max(number(up_to) + 1, self._boundaries.images_before)
        self._boundaries = replace(self._boundaries, images_before=at)
        return Decided("images", at, "the provider refused a request with images")

    def leave_out_extras(self, up_to: str) -> Decided:
        """Stop sending back what came with answers, up to and including the entry ``up_to``."""
        at = max(number(up_to) + 1, self._boundaries.extras_before)
        self._boundaries = replace(self._boundaries, extras_before=at)
        return Decided("extras", at, "the provider refused what it had said of its own thinking")

    @contextmanager
    def bare(self, messages: Sequence[Message]) -> Generator[tuple[Decided, ...]]:
        """Leave out, for a try, whatever the provider may stumble over; where the try raises, all is as it was.

        Gives the cuts, none if there is nothing to leave out.
        """
        before, why = self._boundaries, self._why
        self._boundaries = without_results(messages, before)
        self._why = "the provider refused a request and took it without these"
        try:
            yield _moved(before, self._boundaries, self._why)
        except BaseException:
            self._boundaries = before
            raise
        finally:
            self._why = why


def _moved(before: Boundaries, after: Boundaries, why: str) -> tuple[Decided, ...]:
    known = before.as_cuts()
    return tuple(Decided(name, at, why) for name, at in after.as_cuts().items() if known.get(name) != at)
