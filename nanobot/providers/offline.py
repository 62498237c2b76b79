"""The provider inside: no network, no model, a few fixed phrases.

It lets a newcomer see the machine work before any key exists: its phrases ask for real tools, and it reports what they said.  To
everything else it answers that no model is configured, and how to configure one.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence

from nanobot.bus.runtime_events import TextDelta, Usage
from nanobot.messages import JsonObject, Message, ToolMessage, UserMessage, as_dict
from nanobot.providers.base import Emit, LLMRequest, LLMResponse, ToolCallRequest

MAX_REPORT_CHARS = 6_000
PHRASES = "time · list files [in FOLDER] · read FILE · run COMMAND · search TEXT [in FOLDER]"
HELP = f"""\
No model is configured, so this is nanobot's built-in offline helper. It knows a few phrases and nothing else.

To talk to a real model, do one of these and start nanobot again:

- run `nanobot init`, which asks a few questions and tries the answers;
- or set ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment;
- or name a model server in ~/.nanobot/config.yaml, for example a local one:

```yaml
providers:
  local: {{type: openai, base_url: "http://localhost:11434/v1"}}
agent:
  model: local/llama3.2
```

Phrases to try now: {PHRASES}"""


class OfflineProvider:
    """An ``LLMProvider`` that needs nothing."""

    def __init__(self, name: str = "offline") -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: LLMRequest, emit: Emit) -> LLMResponse:
        offered = {tool.name for tool in request.tools} if request.tool_choice == "auto" else set[str]()
        text, calls = answer(request.messages, offered)
        for piece in re.findall(r"\S+\s*|\s+", text):
            emit(TextDelta(piece))
            await asyncio.sleep(0)
        return LLMResponse(
            text=text,
            tool_calls=calls,
            finish="tool_calls" if calls else "stop",
            usage=Usage(),
            model=request.model,
            provider=self._name,
        )

    async def encoded(self, request: LLMRequest) -> list[bytes]:
        tools = json.dumps([[tool.name, tool.description, tool.parameters] for tool in request.tools])
        rows = [tools, json.dumps(request.system), *(json.dumps(as_dict(message)) for message in request.messages)]
        return [row.encode() for row in rows]

    async def close(self) -> None:
        """Nothing to close."""


def answer(messages: Sequence[Message], offered: set[str]) -> tuple[str, tuple[ToolCallRequest, ...]]:
    """Return (text, calls) for a conversation: what a phrase asks for, or what its tools said.  Pure."""
    said = list(messages)
    while said and isinstance(said[-1], UserMessage) and said[-1].origin == "runtime":
        said.pop()  # the runtime's own words are no phrase
    results: list[ToolMessage] = []
    while said and isinstance(message := said[-1], ToolMessage):
        results.insert(0, message)
        said.pop()
    if results:
        return "\n\n".join(map(_report, results)), ()
    last = said[-1] if said else None
    line = _first_line(last.text) if isinstance(last, UserMessage) else ""
    for pattern, call_of in _PHRASES:
        match = pattern.fullmatch(line)
        if match:
            call = call_of(match)
            if call.name in offered:
                return "", (call,)
            return f"That phrase needs the tool {call.name!r}, which is not available here.\n\n{HELP}", ()
    return HELP, ()


def _first_line(text: str) -> str:
    """Return the first line that a person wrote: a line in brackets is the runtime's block."""
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not (line.startswith("[") and line.endswith("]"))), "")


def _report(result: ToolMessage) -> str:
    text = result.text
    if len(text) > MAX_REPORT_CHARS:
        text = f"{text[:MAX_REPORT_CHARS]}\n[{len(text) - MAX_REPORT_CHARS} more characters not shown]"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    what = "could not do that" if result.is_error else "says"
    return f"{result.name} {what}:\n\n{fence}\n{text.rstrip()}\n{fence}"


def _call(name: str, **arguments: str) -> ToolCallRequest:
    values: JsonObject = {key: value for key, value in arguments.items() if value}
    return ToolCallRequest(name, values)


def _literal(text: str) -> str:
    """Return a pattern that finds the text itself."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def _place(text: str | None) -> str:
    return (text or "").strip().strip("\"'") or "."


_PHRASES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], ToolCallRequest]], ...] = (
    (
        re.compile(
            r"(?:(?:what(?:'s| is) the |what |the )?(?:current )?time(?: is it)?(?: now)?|date)\W*", re.IGNORECASE
        ),
        lambda match: _call("exec", command="date"),
    ),
    (
        re.compile(r"(?:list|show)(?: (?:the|all|my))? files(?: (?:in|of|under) (.+?))?[.?!]?", re.IGNORECASE),
        lambda match: _call("list_dir", path=_place(match[1])),
    ),
    (
        re.compile(r"(?:read|show me|open)(?: (?:the )?file)? (.+)", re.IGNORECASE),
        lambda match: _call("read_file", path=_place(match[1])),
    ),
    (
        re.compile(r"(?:run|execute)(?: (?:the )?command)?:? (.+)", re.IGNORECASE),
        lambda match: _call("exec", command=match[1].strip().strip("`")),
    ),
    (
        re.compile(r"(?:search|grep|find)(?: for)? (.+?)(?: in (\S+))?", re.IGNORECASE),
        lambda match: _call("grep", pattern=_literal(match[1].strip("\"'")), path=_place(match[2])),
    ),
)
