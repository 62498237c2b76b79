"""Make any history legal, in pure passes.  Whatever a log or an import holds, every provider takes what comes out.

The order is the one that works: ids first, because everything after compares them; results in the order of their calls before stray
ones are dropped; a call is answered only once no stray result can pass for its answer.

Results in our own logs are legal already; those messages come out as the same objects.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, user_text

INTERRUPTED = "[interrupted; outcome unknown: check before you repeat it]"

_NOT_SHOWN = user_text("[What was said before this is not shown.]", origin="runtime")
_BETWEEN = user_text("[Nothing was said in between.]", origin="runtime")
_GO_ON = user_text("[Go on.]", origin="runtime")


def repair(messages: Sequence[Message]) -> list[Message]:
    """Answer each call once, directly after it, in order; drop orphans and empty rows; let roles take turns."""
    if is_legal(messages):  # as our own logs are: the passes would change nothing, and each walks all of it
        return list(messages)
    out = order_results(own_call_ids(messages))
    return take_turns(drop_empty_answers(answer_open_calls(drop_orphan_results(out))))


def is_legal(messages: Sequence[Message]) -> bool:
    """Say whether every call has our own id and is answered in its order, and roles take turns; there may be more that is legal."""
    waiting: list[str] = []  # calls without a result, the next one last
    is_answer = True  # what came before; nothing may begin with an answer either
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop() != message.call_id:
                return False
            is_answer = False
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [call.id for call in reversed(message.tool_calls)]
            if is_answer or not (waiting or message.text.strip()) or not _has_own_ids(message):
                return False
            is_answer = True
        else:
            is_answer = False
    return not waiting and not is_answer


def _has_own_ids(message: AssistantMessage) -> bool:
    own = message.entry
    return all(bool(own) and call.id == f"{own}.{i}" for i, call in enumerate(message.tool_calls))


def own_call_ids(messages: Sequence[Message]) -> list[Message]:
    """Name calls ``<entry>.<index>``, and their results with them: imported ids may be missing or come twice."""
    out: list[Message] = []
    names: dict[str, list[str]] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            own = names.get(message.call_id)
            out.append(_with_call_id(message, own.pop(0)) if own else message)
            continue
        names = {}
        if isinstance(message, AssistantMessage) and message.tool_calls:
            renamed = _with_own_ids(message)
            if renamed is not message:
                for before, after in zip(message.tool_calls, renamed.tool_calls, strict=True):
                    names.setdefault(before.id, []).append(after.id)
            message = renamed
        out.append(message)
    return out


def order_results(messages: Sequence[Message]) -> list[Message]:
    """Put the results that directly follow an answer into the order of its calls."""
    out: list[Message] = []
    rank: dict[str, int] = {}
    block: list[ToolMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            block.append(message)
            continue
        out += sorted(block, key=lambda result: rank.get(result.call_id, len(rank)))
        block = []
        rank = (
            {call.id: i for i, call in enumerate(message.tool_calls)} if isinstance(message, AssistantMessage) else {}
        )
        out.append(message)
    return out + sorted(block, key=lambda result: rank.get(result.call_id, len(rank)))


def drop_orphan_results(messages: Sequence[Message]) -> list[Message]:
    """Remove every tool result that does not directly answer a call (unknown, late, or second)."""
    waiting: set[str] = set()
    out: list[Message] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in waiting:
                continue
            waiting.remove(message.call_id)
        else:
            waiting = {call.id for call in message.tool_calls} if isinstance(message, AssistantMessage) else set()
        out.append(message)
    return out


def answer_open_calls(messages: Sequence[Message]) -> list[Message]:
    """Answer every call that has no result as interrupted, in its place, and make call ids unique within their message."""
    out: list[Message] = []
    calls: tuple[ToolCall, ...] = ()
    block: list[ToolMessage] = []

    for message in messages:
        if isinstance(message, ToolMessage):
            block.append(message)
            continue
        out += _answered(calls, block)
        block = []
        if isinstance(message, AssistantMessage):
            message = _first_of_each_id(message)
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        out.append(message)
    return out + _answered(calls, block)


def drop_empty_answers(messages: Sequence[Message]) -> list[Message]:
    """Remove assistant rows that say and ask nothing."""
    return [
        message
        for message in messages
        if not isinstance(message, AssistantMessage) or message.tool_calls or message.text.strip()
    ]


def take_turns(messages: Sequence[Message]) -> list[Message]:
    """Begin with a user row, never let two answers follow each other, never end with one.

    A row of ours is put between rather than two answers joined: what was sent before stays a prefix of what is sent next.
    """
    out: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            if not out:
                out.append(_NOT_SHOWN)
            elif isinstance(out[-1], AssistantMessage):
                out.append(_BETWEEN)
        out.append(message)
    if out and isinstance(out[-1], AssistantMessage):
        out.append(_GO_ON)
    return out


def derived(message: Message, key: Hashable, make: Callable[[], Message]) -> Message:
    """Return what a pass makes of a message, made once in its life: so it is encoded and measured once, too."""
    known: Message | None = message.encoded.get(key)
    if known is None:
        known = message.encoded[key] = make()
    return known


def is_person(message: Message) -> bool:
    """Say whether a person wrote this."""
    return isinstance(message, UserMessage) and message.origin == "user"


def _with_own_ids(message: AssistantMessage) -> AssistantMessage:
    entry = message.entry
    if not entry or _has_own_ids(message):
        return message

    def rename() -> Message:
        return replace(
            message, tool_calls=tuple(replace(call, id=f"{entry}.{i}") for i, call in enumerate(message.tool_calls))
        )

    renamed = derived(message, "own ids", rename)
    assert isinstance(renamed, AssistantMessage)
    return renamed


def _with_call_id(message: ToolMessage, call_id: str) -> Message:
    return derived(message, ("call id", call_id), lambda: replace(message, call_id=call_id))


def _answered(calls: Sequence[ToolCall], block: list[ToolMessage]) -> list[ToolMessage]:
    answered = {result.call_id for result in block}
    missing = [ToolMessage(c.id, c.name, INTERRUPTED, is_error=True) for c in calls if c.id not in answered]
    if not missing:
        return block
    rank = {call.id: index for index, call in enumerate(calls)}
    return sorted([*block, *missing], key=lambda result: rank.get(result.call_id, len(rank)))


def _first_of_each_id(message: AssistantMessage) -> AssistantMessage:
    unique: dict[str, ToolCall] = {}
    for call in message.tool_calls:
        unique.setdefault(call.id, call)
    if len(unique) == len(message.tool_calls):
        return message
    return replace(message, tool_calls=tuple(unique.values()))
