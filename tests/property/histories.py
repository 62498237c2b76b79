"""Random histories for the passes: ours, imported, broken.

``logged`` are histories as our own log may hold them; ``any_history`` also has orphan, late and second results, repeated and
missing ids, empty answers, images, runtime rows, summaries and rows without an entry, in any order.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from hypothesis import strategies as st

from nanobot.agent.passes import Boundaries
from nanobot.messages import (
    AssistantMessage,
    ImagePart,
    JsonObject,
    Message,
    Origin,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    user_text,
)

CHATTY = frozenset({"read_file", "exec"})
NAMES = st.sampled_from(["read_file", "exec", "remember"])
TEXTS = st.sampled_from(["", "  ", "ok", "line\n" * 40, "x" * 900, "漢字" * 300, "😀" * 200, "a b c " * 2_000])
IMAGE = ImagePart("/q.png", "image/png", "01", "plot.png")
SHOWN: st.SearchStrategy[tuple[Part, ...]] = st.sampled_from([(), (), (), (IMAGE,), (IMAGE, TextPart("[1 more]"))])
ORIGINS: st.SearchStrategy[Origin] = st.sampled_from(["user", "user", "user", "runtime"])
Draw: TypeAlias = Callable[..., object]


@st.composite
def any_history(draw: st.DrawFn) -> list[Message]:
    """Return a history in any state."""
    ids = st.sampled_from(["c1", "c2", "c3", "", "e3.0"])
    out: list[Message] = []
    for index in range(draw(st.integers(0, 14))):
        entry = draw(st.sampled_from([f"e{index + 1}", f"e{index + 1}", f"e{index + 1}", ""]))
        match draw(st.sampled_from(["user", "assistant", "calls", "result", "result", "image", "summary"])):
            case "user":
                out.append(user_text(draw(TEXTS), origin=draw(ORIGINS), entry=entry))
            case "assistant":
                out.append(AssistantMessage(draw(TEXTS), entry=entry))
            case "calls":
                calls = draw(st.lists(st.builds(_call, ids, NAMES), min_size=1, max_size=4))
                out.append(AssistantMessage(draw(TEXTS), tuple(calls), entry=entry))
            case "result":
                result = ToolMessage(draw(ids), draw(NAMES), draw(TEXTS), draw(st.booleans()), entry=entry)
                out.append(replace(result, shown=draw(SHOWN)))
            case "image":
                out.append(UserMessage((ImagePart("/p.png", "image/png", "00"),), entry=entry))
            case _:
                if not out:
                    out.append(user_text("what was said before", origin="summary", entry="e99"))
    return out


def _call(call_id: str, name: str) -> ToolCall:
    arguments: JsonObject = {"path": "a.txt"}
    return ToolCall(call_id, name, arguments)


@st.composite
def logged(draw: st.DrawFn, *, least_turns: int = 0, most_turns: int = 8) -> list[Message]:
    """Return a history of Turns as our log holds them, ending where a model would be asked."""
    out: list[Message] = []
    count = 0

    def entry() -> str:
        nonlocal count
        count += 1
        return f"e{count}"

    turns = draw(st.integers(least_turns, most_turns))
    for turn in range(turns + 1):
        out.append(user_text(draw(TEXTS), entry=entry()))
        for _ in range(draw(st.integers(0, 5))):
            _round(draw, out, entry)
        if turn < turns and draw(st.sampled_from([True, True, True, False])):
            out.append(AssistantMessage(draw(TEXTS.filter(str.strip)), entry=entry()))
    return out


def _round(draw: st.DrawFn, out: list[Message], entry: Callable[[], str]) -> None:
    name = entry()
    calls = tuple(_call(f"{name}.{i}", draw(NAMES)) for i in range(draw(st.integers(1, 4))))
    out.append(AssistantMessage(draw(TEXTS), calls, entry=name))
    out += [
        ToolMessage(call.id, call.name, draw(TEXTS), draw(st.booleans()), entry=entry(), shown=draw(SHOWN))
        for call in calls
    ]
    if draw(st.integers(0, 5)) == 0:
        out.append(user_text("and in French, please", entry=entry()))  # sent while the Turn ran
    elif draw(st.integers(0, 5)) == 0:
        out.append(user_text("[a note]", origin="runtime", entry=entry()))


def _boundaries(compact: int, limit: int, chars: int, images: int, snip: int, bare: int) -> Boundaries:
    limits = ((chars, limit),) if limit else ()
    return Boundaries(
        compact_before=compact, limits=limits, images_before=images, snip_before=snip, bare_before=bare, chatty=CHATTY
    )


AT = st.integers(0, 40)
BOUNDARIES = st.builds(_boundaries, AT, AT, st.sampled_from([100, 300, 4_000]), AT, AT, AT)
