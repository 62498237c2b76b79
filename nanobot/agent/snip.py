"""Leave out the beginning of a conversation: the last resort, because what is left out can only be asked for again.

Nothing that matters goes with it.  Before the boundary these stay: the summary; the newest request, if the boundary falls inside
its Turn; what else people asked since the last answer; and that answer, which may have been a question.  One line says what is
missing; inside a Turn a second one lists the steps that were done, so that they are not done again.

What stays is a function of the messages before the boundary.  Those never change, so neither does what comes out: once cut, the
prompt's beginning is stable again.
"""

import json
from collections.abc import Sequence

from nanobot.agent.repair import is_person
from nanobot.messages import AssistantMessage, Message, ToolMessage, UserMessage, user_text
from nanobot.session.log import number

_MOST_REQUESTS = 5  # people's messages before the boundary that were not answered
_MOST_STEPS = 40  # calls listed
_STEP_CHARS = 160


def snip_history(messages: Sequence[Message], *, before: int, bare_before: int = 0) -> list[Message]:
    """Leave out what stands before the entry numbered ``before``, but for what must stay.

    ``bare_before`` leaves out of that all but the newest request, where it stands before that entry.
    """
    if not before:
        return list(messages)
    marker = _marker(before)
    if any(message == marker for message in messages):
        return list(messages)
    border = _border(messages, before)
    kept = kept_before(messages, before=before, bare_before=bare_before)
    head = [message for message in messages[:border] if _is_summary(message)]
    done = _done(messages[kept[-1] + 1 : border]) if kept and not _begins_at(messages, border) else []
    return [*head, marker, *(messages[index] for index in kept), *done, *messages[border:]]


def kept_before(messages: Sequence[Message], *, before: int, bare_before: int = 0) -> list[int]:
    """Return the indexes before the boundary that stay, in order; summaries aside."""
    border = _border(messages, before)
    kept: list[int] = []
    requests = int(_begins_at(messages, border))
    for index in range(border - 1, -1, -1):
        is_bare = requests > 0 and number(messages[index].entry) < bare_before
        if is_person(messages[index]):
            if requests < _MOST_REQUESTS and not is_bare:
                kept.append(index)
            requests += 1
        elif _is_answer(messages, index):
            if not is_bare:
                kept.append(index)
            break
    return kept[::-1] if requests else []


def _border(messages: Sequence[Message], before: int) -> int:
    """Return the index of the first message at or after the boundary; one without a number belongs to the one before it."""
    for index, message in enumerate(messages):
        if number(message.entry) >= before and not _is_summary(message):
            return index
    return len(messages)


def _begins_at(messages: Sequence[Message], border: int) -> bool:
    return border < len(messages) and is_person(messages[border])


def _is_answer(messages: Sequence[Message], index: int) -> bool:
    """Say whether this is the text that a person's next message replies to."""
    message = messages[index]
    follows = index + 1 < len(messages) and is_person(messages[index + 1])
    return follows and isinstance(message, AssistantMessage) and not message.tool_calls


def _is_summary(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "summary"


def _marker(before: int) -> UserMessage:
    return user_text(
        f"[Log entries before e{before} were left out here to save room. They are kept: read_result shows results by their id.]",
        origin="runtime",
    )


def _done(steps: Sequence[Message]) -> list[Message]:
    """Return a message that lists calls which were made and are left out; none if there were none."""
    results = {message.call_id: message for message in steps if isinstance(message, ToolMessage)}
    lines = [
        _step(call.name, call.arguments, results.get(call.id))
        for message in steps
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]
    if not lines:
        return []
    more = [f"- {len(lines) - _MOST_STEPS} earlier ones"] if len(lines) > _MOST_STEPS else []
    text = "[Steps already taken for this request, left out to save room. Do not start over.\n"
    return [user_text(text + "\n".join(more + lines[-_MOST_STEPS:]) + "]", origin="runtime")]


def _step(name: str, arguments: object, result: ToolMessage | None) -> str:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    line = " ".join(f"- {name} {written}".split())
    line = line if len(line) <= _STEP_CHARS else line[: _STEP_CHARS - 1] + "…"
    if result is None or not result.entry:
        return line
    return f"{line} → {'error' if result.is_error else 'done'}, {len(result.text):,} characters, {result.entry}"
