"""What a summary is made from, and how it is judged."""

import time
from datetime import date

import pytest

from nanobot.agent.repair import repair
from nanobot.agent.summary import (
    MAX_CHUNKS,
    choose_cut,
    chunks,
    dated,
    fault,
    identifiers,
    mended,
    missing,
    plain,
    transcript,
)
from nanobot.agent.tokens import estimate_text
from nanobot.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
    from_dict,
    user_text,
)
from nanobot.session.rows import Row


def rows_of(*turns: list[Message]) -> list[Row]:
    rows: list[Row] = []
    for index, messages in enumerate(turns):
        rows += [
            Row(message, f"e{len(rows) + i + 1}", f"t{index + 1}", len(rows) + i) for i, message in enumerate(messages)
        ]
    return rows


def turn(text: str, *, calls: int = 0, result: str = "ok") -> list[Message]:
    out: list[Message] = [user_text(text)]
    for i in range(calls):
        out.append(AssistantMessage("", (ToolCall(f"c{i}", "exec", {"command": "ls"}),)))
        out.append(ToolMessage(f"c{i}", "exec", result))
    return [*out, AssistantMessage(f"answer to {text[:20]}")]


LONG = "some words to talk about " * 100


@pytest.mark.parametrize("keep_tokens", [0, 100, 1_000, 5_000, 100_000])
def test_the_cut_begins_a_turn_and_keeps_the_newest(keep_tokens: int) -> None:
    """No call loses its result, and the newest exchange, which may hold an open question, is kept whatever its size."""
    rows = rows_of(*(turn(f"{i} {LONG}", calls=i % 3) for i in range(8)))

    cut = choose_cut(rows, keep_tokens=keep_tokens)

    assert cut is not None
    assert rows[cut].turn != rows[cut - 1].turn
    assert rows[cut].turn <= "t8"
    kept = [row.message for row in rows[cut:]]
    assert repair(kept)[: len(kept)] == kept


def test_more_tokens_keep_more_turns() -> None:
    """What stays is measured in tokens, not in rows."""
    rows = rows_of(*(turn(f"{i} {LONG}") for i in range(8)))

    cuts = [choose_cut(rows, keep_tokens=tokens) or 0 for tokens in (0, 1_500, 3_000, 100_000)]

    assert cuts == sorted(cuts, reverse=True)
    assert len(set(cuts)) == len(cuts)


def test_one_turn_cannot_be_cut() -> None:
    """There is nothing to summarize before the first Turn, and a Turn is never cut in two."""
    assert choose_cut([], keep_tokens=10) is None
    assert choose_cut(rows_of(turn(LONG, calls=20)), keep_tokens=10) is None


def test_e25_content_that_is_no_text_is_flattened() -> None:
    """E25: images, lists and dicts in old rows become text, and nothing raises."""
    image = UserMessage((ImagePart("/p/a.png", "image/png", "00"),))
    imported = from_dict(
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}
    )
    odd = from_dict({"role": "tool", "tool_call_id": "x", "name": "f", "content": {"data": [1, 2]}})

    lines = list(transcript([image, imported, AssistantMessage("", (ToolCall("x", "f", '{"cut'),)), odd]))

    assert lines[0] == "Person: [image /p/a.png]"
    assert "a" in lines[1]
    assert '[calls f {"cut]' in lines[2]
    assert len(lines) == 4


def test_k04_relative_days_get_their_dates() -> None:
    """K04: "tomorrow" in a message of 2026-03-01 is written down with 2026-03-02, and so is what the agent says about it."""
    asked = user_text("see the dentist tomorrow\n\n[2026-03-01 09:00 +01:00 · telegram]")

    lines = list(transcript([asked, AssistantMessage("Noted for Tomorrow.")]))

    assert "tomorrow (2026-03-02)" in lines[0]
    assert "Tomorrow (2026-03-02)" in lines[1]
    assert dated("yesterday", date(2026, 3, 1)) == "yesterday (2026-02-28)"
    assert dated(dated("today", date(2026, 3, 1)), date(2026, 3, 5)) == "today (2026-03-01)"


@pytest.mark.parametrize("room", [200, 1_000, 5_000])
@pytest.mark.parametrize("size", [1, 300, 40_000])
def test_b31_every_part_is_within_the_room(room: int, size: int) -> None:
    """B31: however long a span is and however small the model, each part fits and there are few of them."""
    messages: list[Message] = [user_text(f"{i} " + "word " * size) for i in range(60)]

    parts = chunks(messages, room_tokens=room)

    assert len(parts) <= MAX_CHUNKS
    assert all(estimate_text(part) <= room for part in parts)
    assert parts[0].startswith("Person: 0 ")


def test_identifiers_are_what_must_not_get_lost() -> None:
    """Paths, addresses, numbers and code names of people and model count, stamps and tool results do not."""
    messages: list[Message] = [
        user_text(
            "Fix /srv/app/main.py and https://example.org/a?b=1, ticket ABC-123\n\n[2026-03-01 09:00 +01:00 · x]"
        ),
        AssistantMessage(
            "I call it loadConfig, set MAX_ITEMS=4711 in config.yaml and mail ann@example.org (deadbeef01)."
        ),
        AssistantMessage("", (ToolCall("c", "read_file", {"path": "notes/todo.md"}),)),
        ToolMessage("c", "read_file", "/not/this/one"),
    ]

    found = identifiers(messages)

    expected = {"/srv/app/main.py", "https://example.org/a?b=1", "ABC-123", "loadConfig", "MAX_ITEMS", "4711"}
    assert (expected | {"config.yaml", "ann@example.org", "deadbeef01", "notes/todo.md"}) <= set(found)
    assert "/not/this/one" not in found
    assert not any("2026" in name for name in found)


def test_few_missing_names_are_added_and_many_refuse_the_summary() -> None:
    """A share may be missing from what the model wrote, and is put back; beyond that its summary is not believed."""
    required = ["/a/b.py", "4711", "loadConfig", "x_y", "ABC-1"]
    span: list[Message] = [user_text(" ".join(required) * 20)]

    assert fault("/a/b.py 4711 loadConfig", span, required) is None
    assert mended("/a/b.py 4711 loadConfig", required).endswith("Also named: x_y, ABC-1")
    assert missing(mended("nothing", required), required) == []
    assert "names and numbers were missing" in (fault("/a/b.py", span, required) or "")


def test_a_summary_must_be_shorter_than_what_it_stands_for() -> None:
    """Nothing is gained by one that is as long."""
    span: list[Message] = [user_text("short")]

    assert fault("as long as that", span, []) == "it was no shorter than what it stands for"
    assert fault(" \n", span, []) == "it was empty"
    assert plain(span[0]) == "short"


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a." * 500_000, "/x" * 500_000, "1," * 500_000, "aB" * 500_000])
def test_b01_a_million_characters_are_searched_in_a_moment(text: str) -> None:
    """One giant word must not keep a process busy for hours, nor hide the names around it."""
    began = time.perf_counter()

    found = identifiers([user_text(f"see docs/plan.md {text}")])

    assert found == ["docs/plan.md"]
    assert time.perf_counter() - began < 2
