"""What to do with a model's answer: one pure table.

``decide`` looks at an answer and at the ``Tally`` of the Turn so far.  The tally is a fold over the Turn's own messages, so a Turn
that goes on after a restart decides as the undisturbed one would have.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from nanobot.messages import AssistantMessage, Message, ToolMessage
from nanobot.values import frozen

MAX_EMPTY = 2  # empty answers in a row before we stop asking
MAX_CUT_TEXT = 4  # answers cut off by length that are continued
MAX_MALFORMED = 3  # calls in a row that cannot be run as written
REPEATS_NOTED = 3  # identical call and result in a row: the model is told
REPEATS_LIMIT = 6  # ... and is made to stop


@frozen
class RunTools:
    """Run the calls; ``note`` is a runtime message to add after their results."""

    note: str = ""


@frozen
class RefuseCalls:
    """Answer every call with ``why`` instead of running it, then ask again."""

    why: str


@frozen
class AskAgain:
    """Add ``text`` as a runtime message and ask again; ``tools`` says whether calls are allowed then."""

    text: str
    tools: bool = True


@frozen
class Finish:
    """The answer is complete, as far as the limits allowed."""

    reason: Literal["completed", "max_iterations"] = "completed"


@frozen
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
REPEATING = (
    "This call gave the same result each time. Do something else, or tell the user what you found and what is missing."
)
STOP_REPEATING = (
    "Nothing was run: the same call gave the same result many times in a row. "
    "Do not call tools any more: tell the user what you found and what is missing."
)
OUT_OF_ITERATIONS = (
    "Nothing was run: the limit of steps for one request is reached. Do not call tools any more: "
    "sum up what was done and found, and what is still open."
)


@frozen(kw_only=True)
class Tally:
    """What happened in this Turn so far, as far as decisions need it."""

    iterations: int = 0
    empty: int = 0  # empty answers in a row
    cut_text: int = 0  # answers cut off by length, in a row
    malformed: int = 0  # answers in a row none of whose calls could be run as written
    repeats: int = 0  # rounds in a row that made the calls of the last answer and got the same results
    called: str = ""  # the calls of the last answer, to compare
    results: str = ""  # what they gave
    round_before: str = ""  # calls and results of the round before
    same_rounds: int = 0  # completed rounds in a row that were identical
    last_round: bool = False  # the model was told to stop calling tools

    def after(self, message: Message, finish: str | None = None) -> "Tally":
        """Return the tally with one more message of the Turn."""
        match message:
            case AssistantMessage():
                return self._after_answer(message, finish)
            case ToolMessage():
                told = message.text in (STOP_REPEATING, OUT_OF_ITERATIONS)
                return replace(self, results=f"{self.results}\0{message.text}", last_round=self.last_round or told)
            case _:
                return self

    def _after_answer(self, message: AssistantMessage, finish: str | None) -> "Tally":
        calls, text = message.tool_calls, message.text.strip()
        broken = bool(calls) and (finish == "length" or all(isinstance(call.arguments, str) for call in calls))
        round_ = self.called + self.results
        same_rounds = self.same_rounds + 1 if round_ and round_ == self.round_before else int(bool(round_))
        called = _written(message)
        return replace(
            self,
            iterations=self.iterations + 1,
            empty=self.empty + 1 if not calls and not text else 0,
            cut_text=self.cut_text + 1 if finish == "length" and not calls and text else 0,
            malformed=self.malformed + 1 if broken else 0,
            repeats=same_rounds if calls and called == self.called else 0,
            called=called,
            results="",
            round_before=round_,
            same_rounds=same_rounds,
        )


def tally(steps: Iterable[tuple[Message, str | None]]) -> Tally:
    """Fold a Turn's messages, each with its finish reason, into a tally."""
    out = Tally()
    for message, finish in steps:
        out = out.after(message, finish)
    return out


def final_text(steps: Sequence[tuple[Message, str | None]]) -> str:
    """Return the Turn's answer: its last text, joined with the parts before it that the output limit cut off."""
    parts: list[str] = []
    for message, finish in reversed(steps):
        if isinstance(message, AssistantMessage):
            if parts and not (finish == "length" and not message.tool_calls):
                break
            parts.append(message.text)
        elif parts and not (message.text == CONTINUE and not isinstance(message, ToolMessage)):
            break
    return "".join(reversed(parts))


def with_tools(text: str, used: Sequence[str]) -> str:
    """Return why there is no answer, with the tools that ran meanwhile: their effects are there all the same."""
    counted = ", ".join(f"{name} ({times} times)" if times > 1 else name for name, times in Counter(used).items())
    return f"{text} Tools called before: {counted}." if used else text


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
        return AskAgain(CONTINUE)
    return Finish("max_iterations" if so_far.last_round else "completed")


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
    return RunTools(REPEATING if so_far.repeats >= REPEATS_NOTED else "")


def _about_nothing(so_far: Tally, max_iterations: int) -> Decision:
    if so_far.empty >= MAX_EMPTY or so_far.iterations >= max_iterations:
        return GiveUp("empty", "The model gave no answer.")
    return AskAgain(EMPTY, tools=False)


def _written(message: AssistantMessage) -> str:
    calls = [[call.name, call.arguments] for call in message.tool_calls]
    return json.dumps(calls, sort_keys=True) if calls else ""
