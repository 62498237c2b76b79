"""Context governance, as pure passes over messages.

Each pass takes a sequence of messages and returns a list: no I/O, clock, log or randomness; deterministic and idempotent; the
input is untouched and unchanged messages are the same objects.  Where to cut is not decided here (``agent.plan`` decides, and the
log remembers what it said); passes take their boundaries as an argument.  So what the model saw is a pure function of the log.

``govern`` runs them in the one order that works:

1. ``repair``         pairs calls and results, so that every later pass may rely on the pairs
2. ``microcompact``   old results of chatty tools become one line each: they can be had again
3. ``limit_results``  results that are still too long are cut; after 2, which made most of them small
4. ``drop_images``    images a provider refused, or that do not fit
5. ``drop_extras``    what a vendor wanted back with its own answers and then refused
6. ``snip_history``   the last resort, so it comes after everything that saves room more gently
7. ``repair`` again   the snip may have cut between a call and its result
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nanobot.agent.frames import framed, unframed
from nanobot.agent.repair import derived, repair
from nanobot.agent.snip import snip_history
from nanobot.agent.tools.results import safe_cut
from nanobot.messages import AssistantMessage, ImagePart, Message, Part, TextPart, ToolMessage, UserMessage, images_of
from nanobot.session.entries import Cut
from nanobot.session.log import number
from nanobot.values import frozen

_ROUND = 4  # limited results of one answer may together take this many times the limit of one
_SMALLEST = 120  # characters: no result is cut below this, the marker needs as much


@frozen(kw_only=True)
class Boundaries:
    """Where the passes cut: entry numbers, exclusive (0: nothing is cut).

    ``chatty`` names the tools whose old results may be compacted (see ``is_chatty``).  ``limits`` are pairs of characters and the
    entry number before which a result may have no more.  ``bare_before`` leaves out what a snip would keep besides the request
    itself.
    """

    compact_before: int = 0
    limits: tuple[tuple[int, int], ...] = ()
    images_before: int = 0
    extras_before: int = 0
    snip_before: int = 0
    bare_before: int = 0
    chatty: frozenset[str] = frozenset()

    def as_cuts(self) -> dict[str, int]:
        """Return the boundaries by the names under which the log keeps them, those at 0 left out."""
        at = {
            "microcompact": self.compact_before,
            "images": self.images_before,
            "extras": self.extras_before,
            "snip": self.snip_before,
            "bare": self.bare_before,
            **{f"limit:{chars}": before for chars, before in self.limits},
        }
        return {name: before for name, before in at.items() if before}


def at_cuts(boundaries: Boundaries, cuts: Mapping[str, Cut]) -> Boundaries:
    """Return the boundaries where a log's cuts put them."""
    at = {name: max(0, number(cut.at)) for name, cut in cuts.items()}
    limits = [(int(name[6:]), before) for name, before in at.items() if name[:6] == "limit:" and name[6:].isdigit()]
    return replace(
        boundaries,
        compact_before=at.get("microcompact", 0),
        limits=tuple(sorted(limits, reverse=True)),
        images_before=at.get("images", 0),
        extras_before=at.get("extras", 0),
        snip_before=at.get("snip", 0),
        bare_before=at.get("bare", 0),
    )


def govern(messages: Sequence[Message], boundaries: Boundaries) -> list[Message]:
    """Return the messages for the model: legal, and cut at the boundaries."""
    out = repair(messages)
    out = microcompact(out, before=boundaries.compact_before, chatty=boundaries.chatty)
    for chars, before in boundaries.limits:
        out = limit_results(out, max_chars=chars, before=before)
    out = drop_images(out, before=boundaries.images_before)
    out = drop_extras(out, before=boundaries.extras_before)
    if boundaries.snip_before:
        out = repair(snip_history(out, before=boundaries.snip_before, bare_before=boundaries.bare_before))
    return out


def is_chatty(name: str, chatty: frozenset[str]) -> bool:
    """Whether a tool is among the chatty ones; ``mcp_*`` among them means all whose names begin with ``mcp_``."""
    return name in chatty or f"{name.partition('_')[0]}_*" in chatty


def microcompact(messages: Sequence[Message], *, before: int, chatty: frozenset[str]) -> list[Message]:
    """Replace the results of chatty tools in entries before the boundary by one line each, unless they are shorter.

    Pictures go with their result, however short that is.
    """
    if not before:
        return list(messages)
    return [
        _placeholder(message)
        if isinstance(message, ToolMessage) and is_chatty(message.name, chatty) and _is_before(message, before)
        else message
        for message in messages
    ]


def limit_results(messages: Sequence[Message], *, max_chars: int, before: int) -> list[Message]:
    """Cut results in entries before the boundary that are too long, alone or together with others of the same answer.

    Our own tools' results were cut before they were logged; this catches imported text, and windows smaller than expected.
    """
    if not before:
        return list(messages)
    out: list[Message] = []
    room = 0
    for message in messages:
        if not isinstance(message, ToolMessage):
            room = max_chars * _ROUND
        elif _is_before(message, before):
            message = _shortened(message, max(_SMALLEST, min(max_chars, room)))
            room -= len(message.text)
        out.append(message)
    return out


def drop_images(messages: Sequence[Message], *, before: int) -> list[Message]:
    """Replace images in entries before the boundary by a line each."""
    if not before:
        return list(messages)
    return [_without_images(message) if _is_before(message, before) else message for message in messages]


def drop_extras(messages: Sequence[Message], *, before: int) -> list[Message]:
    """Leave out what goes back to a vendor with its own answers (signed thinking, reasoning) in entries before the boundary."""
    if not before:
        return list(messages)
    return [_without_extra(message) if _is_before(message, before) else message for message in messages]


def _is_before(message: Message, before: int) -> bool:
    return 0 <= number(message.entry) < before


def _placeholder(message: ToolMessage) -> Message:
    prefix = f"[{message.name} {'ended with an error' if message.is_error else 'was completed'}; its result of "
    suffix = f'was left out afterwards to save room; read_result("{message.entry}") shows it again]'
    pictures = _pictures(images_of(message))
    line = f"{prefix}{len(message.text):,} characters{pictures} {suffix}"
    is_one = message.text.startswith(prefix) and message.text.endswith(suffix) and "\n" not in message.text
    if not pictures and (len(message.text) <= len(line) or is_one):
        return message
    return derived(message, "placeholder", lambda: replace(message, text=line, shown=()))


def _pictures(images: Sequence[ImagePart]) -> str:
    if not images:
        return ""
    some = "1 image" if len(images) == 1 else f"{len(images)} images"
    return f", with {some} (read_file shows {', '.join(image.path for image in images)}),"


def _shortened(message: ToolMessage, allowed: int) -> Message:
    if len(message.text) <= allowed:
        return message
    text = unframed(message.text)
    allowed = max(0, allowed - (len(message.text) - len(text)))

    def cut() -> Message:
        how = f'; read_result("{message.entry}") shows all'
        note = f"\n[… {len(text) - allowed:,} or more of {len(text):,} characters left out{how} …]\n"
        keep = max(0, allowed - len(note))
        head = text[: safe_cut(text, keep * 2 // 3)]
        tail = text[len(text) - (keep - len(head)) :]
        return replace(message, text=framed((head + note + (tail if keep else "")).strip(), message.origin))

    return derived(message, ("limited", allowed), cut)


def _without_images(message: Message) -> Message:
    if not images_of(message):
        return message

    def without() -> Message:
        match message:
            case UserMessage():
                return replace(message, parts=tuple(map(_without_image, message.parts)))
            case ToolMessage():
                return replace(message, shown=tuple(map(_without_image, message.shown)))
            case AssistantMessage():
                return message

    return derived(message, "without images", without)


def _without_extra(message: Message) -> Message:
    if not isinstance(message, AssistantMessage) or message.extra is None:
        return message
    return derived(message, "without extra", lambda: replace(message, extra=None))


def _without_image(part: Part) -> Part:
    if isinstance(part, TextPart):
        return part
    return TextPart(f"[image left out of the request; the file is {part.path}]")
