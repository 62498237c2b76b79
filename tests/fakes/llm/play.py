"""A model to play with: echoes, and calls the tool that a phrase asks for.  Pure.

``run: CMD``, ``read: PATH`` and a question for the time become calls of whatever tool in the request looks right for them; what the
tool said comes back as the answer.
"""

import re
from collections.abc import Iterable

from tests.fakes.llm.prompts import last_results, last_user_text, tool_arguments
from tests.fakes.llm.recorded import Recorded
from tests.fakes.llm.script import Call, Reply

_ASKED = re.compile(r"^\s*(run|read):\s*(\S.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_TIME = re.compile(r"^\s*time\W*$|\bwhat time\b|\bwhat(?:'s| is) the time\b", re.MULTILINE | re.IGNORECASE)
_TOOLS = {"run": ("exec", "shell", "bash", "run_command", "run"), "read": ("read_file", "read", "cat")}
_TIME_TOOLS = ("time", "now", "get_time", "current_time")


def play(recorded: Recorded) -> Reply:
    """Answer as a very simple model would."""
    results = last_results(recorded.body)
    if results:
        return Reply("The tool said:\n" + "\n".join(results))
    text = last_user_text(recorded.body)
    call = _call(text, tool_arguments(recorded.body))
    if call and recorded.body.get("tool_choice") not in ("none", {"type": "none"}):
        return Reply("I will look.", [call], reasoning=f"They ask for {call.name}.")
    return Reply(f"echo: {text}", deltas=12)


def _call(text: str, tools: dict[str, list[str]]) -> Call | None:
    asked = _ASKED.search(text)
    if asked:
        return _first(_TOOLS[asked[1].lower()], tools, asked[2])
    if _TIME.search(text):
        return _first(_TIME_TOOLS, tools, None) or _first(_TOOLS["run"], tools, "date")
    return None


def _first(names: Iterable[str], tools: dict[str, list[str]], argument: str | None) -> Call | None:
    for name in names:
        if name in tools:
            return Call(name, {tools[name][0]: argument} if argument is not None and tools[name] else {})
    return None
