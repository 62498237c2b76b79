"""The budget of a request, and the decision where to cut when it does not fit.

``Governor`` is asked before every request of a Turn.  It answers with the messages for the model and with the cuts it had to make,
which the caller logs before it sends.  The boundaries it starts from come from the log, so a resumed Turn is governed alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nanobot.agent.passes import Boundaries, govern
from nanobot.agent.tokens import estimate_message
from nanobot.errors import NanobotError
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage
from nanobot.session.log import number

KEEP_VERBATIM = 10  # newest results of chatty tools that stay as they are
_TARGET = 0.6  # of the budget, after a cut: so that cuts come in steps and not with every request
_MIN_RESULT_CHARS = 500


class CannotFit(NanobotError):
    """Nothing that may be left out is left, and the request still exceeds the window."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A boundary that moved: the pass, the entry number it now works up to, and why."""

    pass_name: str
    at: int
    why: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """The messages for the model, what they are estimated to take, and the cuts made for them."""

    messages: list[Message]
    tokens: int
    cuts: tuple[Decided, ...]


class Governor:
    """Fits messages into a budget of tokens.

    Args:
        budget_tokens: window minus room for the answer, system text, tool schemas and margin.
        boundaries: where earlier cuts stand.
    """

    def __init__(self, *, budget_tokens: int, boundaries: Boundaries) -> None:
        self._budget = budget_tokens
        self._boundaries = boundaries
        self._ratio = 1.0

    def observe(self, messages: Sequence[Message], overhead_tokens: int, input_tokens: int) -> None:
        """Learn from a request's reported usage how far the estimate is off."""
        estimated = overhead_tokens + sum(map(estimate_message, messages))
        if estimated > 0 and input_tokens > 0:
            self._ratio = min(4.0, max(0.25, input_tokens / estimated))

    def harder(self, limit_tokens: int | None) -> None:
        """Believe a provider that said "too long": shrink the budget for good."""
        self._budget = int(min(self._budget, limit_tokens or self._budget) * 0.6)

    def leave_out_images(self, up_to: str) -> Decided:
        """Stop sending images up to and including the entry ``up_to``."""
        at = number(up_to) + 1
        self._boundaries = replace(self._boundaries, images_before=at)
        return Decided("images", at, "the provider refused a request with images")

    def fit(self, messages: Sequence[Message]) -> Fitted:
        """Return messages that fit.

        Raises:
            CannotFit: one message alone is too long; the text names it.
        """
        before = self._boundaries
        out = govern(messages, before)
        if self._tokens(out) > self._budget:
            out = self._cut(messages)
        return Fitted(out, self._tokens(out), _moved(before, self._boundaries))

    def _cut(self, messages: Sequence[Message]) -> list[Message]:
        target = int(self._budget * _TARGET)
        self._move(compact_before=_compact_boundary(messages, self._boundaries.chatty))
        out = govern(messages, self._boundaries)
        if self._tokens(out) <= target:
            return out
        self._move(snip_before=self._snip_boundary(out, target))
        out = govern(messages, self._boundaries)
        while self._tokens(out) > self._budget and self._boundaries.max_result_chars > _MIN_RESULT_CHARS:
            smaller = max(_MIN_RESULT_CHARS, self._boundaries.max_result_chars // 2)
            self._boundaries = replace(self._boundaries, max_result_chars=smaller)
            out = govern(messages, self._boundaries)
        if self._tokens(out) > self._budget:
            raise CannotFit(self._sentence(out))
        return out

    def _move(self, *, compact_before: int = 0, snip_before: int = 0) -> None:
        self._boundaries = replace(
            self._boundaries,
            compact_before=max(self._boundaries.compact_before, compact_before),
            snip_before=max(self._boundaries.snip_before, snip_before),
        )

    def _snip_boundary(self, messages: Sequence[Message], target: int) -> int:
        """Return the entry number before which to drop: as much from the newest end as fits, and always the newest request."""
        room = target
        boundary = 0
        must = _newest_request(messages)
        for index in range(len(messages) - 1, -1, -1):
            room -= self._tokens(messages[index : index + 1])
            if room < 0 and index < must:
                break
            message = messages[index]
            opens = isinstance(message, UserMessage) or (isinstance(message, AssistantMessage) and index < must)
            if opens and message.entry:
                boundary = number(message.entry)
        return boundary

    def _tokens(self, messages: Sequence[Message]) -> int:
        return int(sum(map(estimate_message, messages)) * self._ratio)

    def _sentence(self, messages: Sequence[Message]) -> str:
        longest = max(messages, key=estimate_message)
        return (
            f"This cannot be sent to the model: {_WHO[type(longest)]} ({longest.entry or 'unsaved'}) takes about "
            f"{self._tokens([longest])} tokens and there is room for {self._budget}. "
            "Shorten it, or use a model with a larger window."
        )


_WHO: dict[type[Message], str] = {
    UserMessage: "your message",
    AssistantMessage: "an answer of the model",
    ToolMessage: "a tool result",
}


def _newest_request(messages: Sequence[Message]) -> int:
    """Return the index of the newest message of a person: it and what follows must stay."""
    indexes = [i for i, m in enumerate(messages) if isinstance(m, UserMessage) and m.origin == "user"]
    return indexes[-1] if indexes else len(messages) - 1


def _compact_boundary(messages: Sequence[Message], chatty: frozenset[str]) -> int:
    results = [m for m in messages if isinstance(m, ToolMessage) and m.name in chatty and number(m.entry) > 0]
    return number(results[-KEEP_VERBATIM].entry) if len(results) > KEEP_VERBATIM else 0


def _moved(before: Boundaries, after: Boundaries) -> tuple[Decided, ...]:
    moved: list[Decided] = []
    if after.compact_before != before.compact_before:
        moved.append(Decided("microcompact", after.compact_before, "the request did not fit the window"))
    if after.snip_before != before.snip_before:
        moved.append(Decided("snip", after.snip_before, "the request did not fit the window"))
    if after.max_result_chars != before.max_result_chars:
        moved.append(Decided("limit", after.max_result_chars, "the request did not fit the window"))
    return tuple(moved)
