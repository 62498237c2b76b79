"""A long conversation for a small window: what a person says, and a model that follows it.

The model is honest: it answers questions about earlier facts only from the text of the request it got.  Its summaries keep the
facts and decisions of what it was shown, as a good summarizer would; ``summarizes`` can be replaced by worse ones.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.llm.recorded import Recorded
from tests.fakes.llm.script import Call, Reply

SUMMARY_MARK = "You condense a conversation"
_FACT = re.compile(r"(?:the )?(\w[\w ]*?) is ([A-Z]{2}-\d{4})")
_ASKED = re.compile(r"What is the (\w[\w ]*?)\?")
_TURN = re.compile(r"^\[turn (\d+)\] ", re.MULTILINE)


def facts(turns: int) -> dict[str, str]:
    """Return what the person tells in the course of so many Turns: name and value."""
    names = ["deploy key", "ticket", "invoice", "build", "door code", "case", "order"]
    told = [turn for turn in range(turns) if turn % 40 == 3]
    return {f"{names[i % len(names)]} {i}": f"{'KXZQ'[i % 4]}Q-{4000 + 37 * i}" for i, _ in enumerate(told)}


def sayings(turns: int) -> list[str]:
    """Return what the person says: talk, facts, big reads, parallel calls, long shell output; facts are asked at the end."""
    known = facts(turns)
    told = iter(known.items())
    out: list[str] = []
    for turn in range(turns):
        match turn % 40:
            case 3:
                name, value = next(told)
                said = f"Decided: the {name} is {value}. Keep that in mind."
            case 5 | 15 | 25:
                said = f"Please read chapter {turn} of the manual."
            case 12:
                said = f"Please compare chapters {turn}, {turn + 1}, {turn + 2} and {turn + 3}."
            case 9 | 18 | 33:
                said = f"Please count to {2000 + turn} in the shell."
            case _:
                said = f"What do you think about topic {turn}? I have read a little and I am not sure what follows from it."
        out.append(f"[turn {turn}] {said}")
    return out + [f"[turn {turns + i}] What is the {name}?" for i, name in enumerate(known)]


def chapter(number: int) -> str:
    """Return a chapter of the manual: 24,000 characters or so, different from all others."""
    return "\n".join(
        f"{number}.{line} The valve {number * line % 977} opens at {line * 13 % 101} degrees." for line in range(500)
    )


@dataclass
class Model:
    """The model; set ``respond`` as a server's responder."""

    summarizes: Callable[[str], str] | None = None
    summaries: int = 0
    answers: dict[str, str] = field(default_factory=dict[str, str])

    def respond(self, recorded: Recorded) -> Reply:
        """Answer a request."""
        texts = _texts(recorded.body)
        if any(SUMMARY_MARK in text for role, text in texts if role == "system"):
            self.summaries += 1
            return Reply((self.summarizes or summary_of)("\n".join(text for role, text in texts if role == "user")))
        role, last = texts[-1]
        said = _TURN.split(last)[-1].partition("\n\n[")[0] if _TURN.search(last) else ""
        if role != "user" or not said:
            return Reply("That is done. I looked at what came back and nothing in it was unexpected.")
        return self._answer(said, texts)

    def _answer(self, said: str, texts: list[tuple[str, str]]) -> Reply:
        if asked := _ASKED.search(said):
            seen = dict(_FACT.findall("\n".join(text for role, text in texts if role != "tool")))
            self.answers[asked[1]] = seen.get(asked[1], "unknown")
            return Reply(f"The {asked[1]} is {self.answers[asked[1]]}.")
        numbers = [int(number) for number in re.findall(r"\d+", said)]
        if "chapter" in said:
            return Reply(tool_calls=[Call("read_chapter", {"number": number}) for number in numbers])
        if "in the shell" in said:
            return Reply(tool_calls=[Call("exec", {"command": f"seq 1 {numbers[-1]}"})])
        return Reply("I would say that it depends on what you want from it. " * 4)


def summary_of(prompt: str) -> str:
    """Return what a good summarizer keeps of a prompt."""
    kept = [f"the {name} is {value}" for name, value in dict(_FACT.findall(prompt)).items()]
    names = re.search(r"Names and numbers to keep exactly: (.*)", prompt)
    return f"Goal: talk and check the manual.\nDecisions: {'; '.join(kept)}.\nFacts: {names[1] if names else 'none'}"


def _texts(body: Mapping[str, Any]) -> list[tuple[str, str]]:  # Any: a request's JSON on either wire
    """Return each message's role and text; results of tools count as role ``tool``."""
    out: list[tuple[str, str]] = []
    system = body.get("system")
    if system:
        out.append(("system", system if isinstance(system, str) else json.dumps(system)))
    for message in body["messages"]:
        content = message.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            is_result = block.get("type") == "tool_result" or message["role"] == "tool"
            text = block.get("text") or block.get("content") or ""
            out.append(("tool" if is_result else message["role"], text if isinstance(text, str) else json.dumps(text)))
    return out
