"""What to do with a model's answer: one pure table.

``decide`` looks at an answer and at the ``Tally`` of the Turn so far.  The tally is a fold over the Turn's own messages, so a Turn that
goes on after a restart decides as the undisturbed one would have.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from nanobot.messages import AssistantMessage, Message, ToolMessage

MAX_EMPTY = 2  # empty answers in a row before we stop asking
MAX_CUT_TEXT = 4  # answers cut off by length that are continued
MAX_MALFORMED = 3  # calls in a row that cannot be run as written
REPEATS_NOTED = 3  # identical call and result in a row: the model is told
REPEATS_LIMIT = 6  # ... and is made to stop


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run the calls."""


@dataclass(frozen=True, slots=True)
class RefuseCalls:
    """Answer every call with ``why`` instead of running it, then ask again."""

    why: str


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Add ``text`` as a runtime message and ask again; ``tools`` says whether calls are allowed then."""

    text: str
    tools: bool = True


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is complete."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop without a proper answer; ``text`` tells the user why in one sentence."""

    reason: Literal["refusal", "empty", "malformed", "length", "loop", "max_iterations"]
    text: str


Decision: TypeAlias = RunTools | RefuseCalls | AskAgain | Finish | GiveUp

CONTINUE = "Your answer was cut off by the output limit. Go on exactly where it stopped, without repeating anything."
EMPTY = "Your last answer was empty. Answer the user now in plain text."
CUT_CALL = (
    "Nothing was run: the output limit cut this call off before it was complete. "
    "Do it in smaller parts, for example write a file piece by piece."
)
STOP_REPEATING = "The same call gave the same result many times in a row. Stop calling tools: tell the user what you found and what is missing."
OUT_OF_ITERATIONS = (
    "The limit of steps for one request is reached. Do not call tools any more: "
    "sum up what was done and found, and what is still open."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What happened in this Turn so far, as far as decisions need it."""

    iterations: int = 0
    empty: int = 0  # empty answers in a row
    cut_text: int = 0  # answers cut off by length, in a row
    malformed: int = 0  # answers in a row none of whose calls could be run as written
    repeats: int = 0  # identical rounds of calls and results in a row
    called: str = ""  # the calls of the last answer, to compare
    results: str = ""  # what they gave
    previous: str = ""  # calls and results of the round before
    last_round: bool = False  # the model was told to stop calling tools

    def after(self, message: Message, finish: str | None = None) -> "Tally":
        """Return the tally with one more message of the Turn."""
        match message:
            case AssistantMessage():
                return self._after_answer(message, finish)
            case ToolMessage():
                return self._after_result(message)
            case _:
                told = message.origin == "runtime" and message.text in (STOP_REPEATING, OUT_OF_ITERATIONS)
                return replace(self, last_round=True) if told else self

    def _after_answer(self, message: AssistantMessage, finish: str | None) -> "Tally":
        round_ = self.called + self.results
        repeated = bool(message.tool_calls) and round_ != "" and round_ == self.previous
        cut = finish == "length" and not message.tool_calls and bool(message.text.strip())
        empty = not message.tool_calls and not message.text.strip()
        broken = bool(message.tool_calls) and (
            finish == "length" or all(isinstance(call.arguments, str) for call in message.tool_calls)
        )
        return replace(
            self,
            iterations=self.iterations + 1,
            empty=self.empty + 1 if empty else 0,
            cut_text=self.cut_text + 1 if cut else 0,
            malformed=self.malformed + 1 if broken else 0,
            repeats=self.repeats + 1 if repeated else 0,
            previous=round_,
            called=_written(message),
            results="",
        )

    def _after_result(self, message: ToolMessage) -> "Tally":
        return replace(self, results=f"{self.results}\0{message.text}")


def tally(steps: Iterable[tuple[Message, str | None]]) -> Tally:
    """Fold a Turn's messages, each with its finish reason, into a tally."""
    out = Tally()
    for message, finish in steps:
        out = out.after(message, finish)
    return out


def decide(answer: AssistantMessage, finish: str, so_far: Tally, *, max_iterations: int) -> Decision:
    """Say what to do with ``answer``; ``so_far`` counts it already."""
    if finish == "refusal":
        return GiveUp(
            "refusal", answer.text.strip() or "The model declined to answer this (a safety filter stopped it)."
        )
    if answer.tool_calls:
        return _about_calls(finish, so_far, max_iterations)
    if not answer.text.strip():
        return _about_nothing(so_far, max_iterations)
    if finish == "length" and so_far.cut_text <= MAX_CUT_TEXT and so_far.iterations < max_iterations:
        return AskAgain(CONTINUE, tools=False)
    return Finish()


def _about_calls(finish: str, so_far: Tally, max_iterations: int) -> Decision:
    if so_far.last_round:
        return GiveUp(
            "max_iterations", "The model kept calling tools after it was told to stop, so this request ends here."
        )
    if so_far.malformed >= MAX_MALFORMED:
        return GiveUp(
            "malformed",
            f"The model wrote {so_far.malformed} tool calls in a row that could not be run; nothing of them was executed.",
        )
    if finish == "length":
        return RefuseCalls(CUT_CALL)
    if so_far.iterations >= max_iterations:
        return RefuseCalls(OUT_OF_ITERATIONS)
    if so_far.repeats >= REPEATS_LIMIT:
        return RefuseCalls(STOP_REPEATING)
    return RunTools()


def _about_nothing(so_far: Tally, max_iterations: int) -> Decision:
    if so_far.empty >= MAX_EMPTY or so_far.iterations >= max_iterations:
        return GiveUp("empty", "The model gave no answer.")
    return AskAgain(EMPTY, tools=False)


def _written(message: AssistantMessage) -> str:
    return json.dumps([[call.name, call.arguments] for call in message.tool_calls], sort_keys=True)
