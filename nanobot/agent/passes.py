"""Context governance, as pure passes over messages.

Each pass takes a sequence of messages and returns a list: no I/O, clock, log or randomness; deterministic and idempotent; the
input is untouched and unchanged messages are the same objects.  Where to cut is not decided here (``agent.plan`` is asked, and the
log remembers what it said); passes take their boundaries as an argument.  So what the model saw is a pure function of the log.

``govern`` runs them in the one order that works:

1. ``order_results``        results may land in any order; wires want them in the order of the calls
2. ``drop_orphan_results``  a result that answers nothing is refused by every provider
3. ``answer_open_calls``    so is a call without a result; after 2, so that a stray result cannot pass for an answer
4. ``drop_empty_answers``   an assistant row with neither text nor calls is no message at all
5. ``microcompact``         old results of chatty tools become one line; needs the pairs that 2 and 3 made
6. ``limit_results``        for imported text and for many results at once; after 5, which made most of them small
7. ``drop_images``          images a provider refused, or that no longer fit
8. ``snip_history``         the last resort, so it comes after everything that saves room more gently
9. 2 to 4 again             the snip may have cut between a call and its result
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nanobot.messages import AssistantMessage, ImagePart, Message, TextPart, ToolMessage, UserMessage, user_text
from nanobot.session.entries import Cut
from nanobot.session.log import number

INTERRUPTED = "[interrupted; outcome unknown: check before you repeat it]"
_ROOM_PER_ITERATION = 4  # results of one answer may together take this many times the budget of one


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """Where the passes cut: entry numbers, exclusive (0: nothing is cut).

    ``chatty`` names the tools whose old results may be compacted; ``max_result_chars`` limits one result.
    """

    compact_before: int = 0
    snip_before: int = 0
    images_before: int = 0
    chatty: frozenset[str] = frozenset()
    max_result_chars: int = 16_000


def at_cuts(boundaries: Boundaries, cuts: Mapping[str, Cut]) -> Boundaries:
    """Return the boundaries where a log's cuts put them."""
    at = {name: number(cut.at) for name, cut in cuts.items()}
    return replace(
        boundaries,
        compact_before=at.get("microcompact", 0),
        snip_before=at.get("snip", 0),
        images_before=at.get("images", 0),
        max_result_chars=at.get("limit", boundaries.max_result_chars),
    )


def govern(messages: Sequence[Message], boundaries: Boundaries) -> list[Message]:
    """Return the messages for the model: legal, and cut at the boundaries."""
    out = repair(messages)
    out = microcompact(out, before=boundaries.compact_before, chatty=boundaries.chatty)
    out = limit_results(out, max_chars=boundaries.max_result_chars)
    out = drop_images(out, before=boundaries.images_before)
    if boundaries.snip_before:
        out = repair(snip_history(out, before=boundaries.snip_before))
    return out


def repair(messages: Sequence[Message]) -> list[Message]:
    """Make any history legal: each call answered once, directly after it, in order; no orphans; no empty rows."""
    return drop_empty_answers(answer_open_calls(drop_orphan_results(order_results(messages))))


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
        if isinstance(message, AssistantMessage):
            rank = {call.id: index for index, call in enumerate(message.tool_calls)}
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
    """Answer every call that has no result as interrupted, and make call ids unique within their message."""
    out: list[Message] = []
    open_calls: dict[str, str] = {}

    def close() -> None:
        out.extend(ToolMessage(call_id, name, INTERRUPTED, is_error=True) for call_id, name in open_calls.items())
        open_calls.clear()

    for message in messages:
        if isinstance(message, ToolMessage):
            open_calls.pop(message.call_id, None)
        else:
            close()
            if isinstance(message, AssistantMessage):
                message = _first_of_each_id(message)
                open_calls = {call.id: call.name for call in message.tool_calls}
        out.append(message)
    close()
    return out


def drop_empty_answers(messages: Sequence[Message]) -> list[Message]:
    """Remove assistant rows that say and ask nothing."""
    return [
        message
        for message in messages
        if not isinstance(message, AssistantMessage) or message.tool_calls or message.text.strip()
    ]


def microcompact(messages: Sequence[Message], *, before: int, chatty: frozenset[str]) -> list[Message]:
    """Replace the results of chatty tools in entries before the boundary by one line each, unless they are shorter."""
    if not before:
        return list(messages)
    return [_placeholder(message) if _is_old(message, before, chatty) else message for message in messages]


def limit_results(messages: Sequence[Message], *, max_chars: int) -> list[Message]:
    """Cut results that are too long, alone or together with the others of the same answer.

    Our own tools' results were cut before they were logged; this catches imported text, and many results at once.
    """
    out: list[Message] = []
    room = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            allowed = max(200, min(max_chars, room))
            message = _shortened(message, allowed)
            room -= len(message.text)
        else:
            room = max_chars * _ROOM_PER_ITERATION
        out.append(message)
    return out


def drop_images(messages: Sequence[Message], *, before: int) -> list[Message]:
    """Replace images in entries before the boundary by a line each."""
    if not before:
        return list(messages)
    return [_without_images(message) if _is_before(message, before) else message for message in messages]


def snip_history(messages: Sequence[Message], *, before: int) -> list[Message]:
    """Leave out every message before the boundary, and say so in their place.

    The line stands as a user message: it is also what makes the remaining history begin legally.
    """
    if not before:
        return list(messages)
    kept = [message for message in messages if not _is_before(message, before)]
    marker = user_text(_snipped(before), origin="runtime")
    return [*_leading(kept), marker, *kept[len(_leading(kept)) :]]


def _leading(messages: Sequence[Message]) -> list[Message]:
    head = messages[:1]
    is_summary = bool(head) and isinstance(head[0], UserMessage) and head[0].origin == "summary"
    return list(head) if is_summary else []


def _snipped(before: int) -> str:
    return f"[The conversation before entry e{before} was left out of context to save room. It is kept in the log.]"


def _is_before(message: Message, before: int) -> bool:
    if isinstance(message, UserMessage) and (message.origin == "summary" or not message.entry):
        return False
    return 0 <= number(message.entry) < before


def _is_old(message: Message, before: int, chatty: frozenset[str]) -> bool:
    return isinstance(message, ToolMessage) and message.name in chatty and 0 <= number(message.entry) < before


def _without_images(message: Message) -> Message:
    if not isinstance(message, UserMessage) or not any(isinstance(part, ImagePart) for part in message.parts):
        return message
    parts = (
        TextPart(f"[image left out: the model did not take it; the file is {part.path}]")
        if isinstance(part, ImagePart)
        else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _placeholder(message: Message) -> Message:
    assert isinstance(message, ToolMessage)
    line = (
        f"[{message.name} finished; its result of {len(message.text)} characters was omitted from context to save room; "
        f'read_result("{message.entry}") shows it again]'
    )
    return message if len(message.text) <= len(line) else replace(message, text=line)


def _shortened(message: ToolMessage, allowed: int) -> ToolMessage:
    if len(message.text) <= allowed:
        return message
    note = (
        f"\n[{len(message.text) - allowed} of {len(message.text)} characters left out here; "
        f'read_result("{message.entry}") shows them]\n'
    )
    keep = max(0, allowed - len(note))
    head = keep * 2 // 3
    tail = keep - head
    return replace(message, text=message.text[:head] + note + message.text[len(message.text) - tail :])


def _first_of_each_id(message: AssistantMessage) -> AssistantMessage:
    unique = {call.id: call for call in reversed(message.tool_calls)}
    if len(unique) == len(message.tool_calls):
        return message
    return replace(message, tool_calls=tuple(call for call in message.tool_calls if unique.get(call.id) is call))
