"""What every ``LLMProvider`` that asks a server promises, against a server that is as strict as the vendors."""

import asyncio
import base64
import hashlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from pydantic import SecretStr

from nanobot.bus.runtime_events import TextDelta
from nanobot.errors import (
    AuthFailed,
    BadRequest,
    ContextOverflow,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    StreamStalled,
    Unavailable,
)
from nanobot.messages import AssistantMessage, ImagePart, TextPart, ToolCall, ToolMessage, UserMessage, user_text
from nanobot.providers.anthropic import anthropic_provider
from nanobot.providers.base import LLMProvider, ToolCallRequest, counted_tokens
from nanobot.providers.faults import refuses_images
from nanobot.providers.settings import AnthropicSettings
from tests.contract.provider_cases import ALL, QUICK, WIRES, Seen, ask, follow, serving
from tests.fakes.llm_server import Call, Oddity, Reply, Tokens

Make = Callable[..., LLMProvider]
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL.keys())
wires = pytest.mark.parametrize("make", WIRES.values(), ids=WIRES.keys())

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@every
async def test_text_arrives_in_pieces_and_whole(make: Make) -> None:
    """The deltas shown add up to the answer's text, and the answer says what it cost and who gave it."""
    async with serving(make, Reply("Hello, wörld 😀", usage=Tokens(prompt=30, completion=7, cached=10))) as (
        server,
        provider,
    ):
        seen = Seen()
        response = await provider.stream(ask(), seen)

    assert response.text == seen.text == "Hello, wörld 😀"
    assert len([e for e in seen.events if isinstance(e, TextDelta)]) > 1
    assert response.finish == "stop"
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cached_tokens) == (30, 7, 10)
    assert (response.provider, response.model) == ("one", "test-model")
    assert server.refusals == []


@every
@pytest.mark.parametrize("count", [1, 5])
async def test_tool_calls_and_their_results(make: Make, count: int) -> None:
    """Calls come whole and in order, and the conversation with their results is one the vendor accepts."""
    calls = [Call("exec", {"command": f'echo {i} "ü" \\ 😀'}) for i in range(count)]
    async with serving(make, Reply("Let me see.", tool_calls=calls), Reply("done")) as (server, provider):
        first = await provider.stream(ask(), Seen())
        last = await provider.stream(follow(ask(), first, "e2"), Seen())

    assert first.finish == "tool_calls"
    assert first.tool_calls == tuple(
        ToolCallRequest("exec", dict(call.arguments)) for call in calls if not isinstance(call.arguments, str)
    )
    assert last.text == "done"
    assert server.refusals == []


@wires
async def test_thirty_iterations_keep_the_prefix(make: Make) -> None:
    """Each request begins with the whole of the one before it, byte for byte, so the vendor's cache stays warm."""
    replies = [
        Reply(tool_calls=[Call("exec", {"command": f"step {i}"})], reasoning="hm" if i % 2 else "") for i in range(30)
    ]
    async with serving(make, *replies, Reply("done")) as (server, provider):
        request = ask()
        before: list[bytes] = []
        for i in range(30):
            elements = await provider.encoded(request)
            assert elements[: len(before)] == before
            before = elements
            request = follow(request, await provider.stream(request, Seen()), f"e{2 + 2 * i}")
        await provider.stream(request, Seen())

    assert server.refusals == []
    chats = server.chats
    assert all(b.elements[: len(a.elements)] == a.elements for a, b in pairwise(chats))


ODDITIES: list[tuple[str, Oddity]] = [
    *(("openai", oddity) for oddity in (
        "missing_ids", "empty_ids", "duplicate_ids", "no_index", "interleaved", "null_continuation", "empty_continuation",
        "repeat_id_name", "fragmented_names", "empty_name_first", "args_before_name", "args_object", "split_escapes",
        "stop_with_calls", "null_content", "think_tags", "reasoning_field", "usage_in_finish", "usage_every_chunk", "no_done",
    )),
    *(("anthropic", oddity) for oddity in ("redacted_thinking", "empty_thinking", "pings", "input_in_start", "no_done")),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "oddity"), ODDITIES, ids=[f"{wire}-{oddity}" for wire, oddity in ODDITIES])
async def test_e07_oddities_of_servers(wire: str, oddity: Oddity) -> None:
    """However badly a server says it, text, reasoning and calls arrive as they were meant, and can be sent back."""
    calls = [Call("exec", {"command": "ls 😀"}), Call("exec", {"command": "pwd"}), Call("read_file", {"path": "a"})]
    reply = Reply("Look:", tool_calls=calls, reasoning="think hard", oddities=[oddity])
    async with serving(WIRES[wire], reply, Reply("done")) as (server, provider):
        seen = Seen()
        first = await provider.stream(ask(), seen)
        last = await provider.stream(follow(ask(), first, "e2"), Seen())

    assert first.tool_calls == tuple(
        ToolCallRequest(c.name, dict(c.arguments)) for c in calls if not isinstance(c.arguments, str)
    )
    assert first.finish == "tool_calls"
    assert (first.text, seen.text) == ("Look:", "Look:")
    assert first.reasoning == seen.reasoning == ("" if oddity == "empty_thinking" else "think hard")
    assert last.text == "done"
    assert server.refusals == []


@wires
@pytest.mark.parametrize("chop", [1, 7])
async def test_bytes_may_be_cut_anywhere(make: Make, chop: int) -> None:
    """An answer that arrives in writes of a few bytes, cut through characters and lines, is the same answer."""
    async with serving(make, Reply("ä😀ö", tool_calls=[Call("exec", {"command": "ü"})], chop=chop)) as (_, provider):
        response = await provider.stream(ask(), Seen())

    assert (response.text, response.tool_calls) == ("ä😀ö", (ToolCallRequest("exec", {"command": "ü"}),))


@every
@pytest.mark.parametrize("text", ["", "   "])
async def test_e01_an_empty_answer_never_poisons_the_next_request(make: Make, text: str) -> None:
    """An answer without text is a normal response, and leaves nothing in later requests that a vendor refuses."""
    async with serving(make, Reply(text, oddities=["null_content"] if not text else []), Reply("fine")) as (
        server,
        provider,
    ):
        response = await provider.stream(ask(), Seen())
        last = await provider.stream(follow(ask(), response, "e2"), Seen())

    assert (response.tool_calls, response.finish) == ((), "stop")
    assert last.text == "fine"
    assert server.refusals == []


@wires
async def test_a01_calls_with_the_same_id_are_told_apart(make: Make) -> None:
    """Vendors' ids are not used: ours are unique, so two calls with one id stay two calls with two results."""
    calls = [Call("exec", {"command": "a"}, id="same"), Call("exec", {"command": "b"}, id="same")]
    async with serving(make, Reply(tool_calls=calls), Reply("done")) as (server, provider):
        first = await provider.stream(ask(), Seen())
        await provider.stream(follow(ask(), first, "e2"), Seen())

    assert len(first.tool_calls) == 2
    assert server.refusals == []


@wires
async def test_e04_broken_arguments_stay_text_and_go_back_legally(make: Make) -> None:
    """Cut-off arguments are handed over as written, never run as something else, and the next request is legal."""
    async with serving(make, Reply(tool_calls=[Call("exec", '{"command": "rm -rf /tmp/a')]), Reply("sorry")) as (
        server,
        provider,
    ):
        first = await provider.stream(ask(), Seen())
        await provider.stream(follow(ask(), first, "e2", "error: not JSON"), Seen())

    assert first.tool_calls == (ToolCallRequest("exec", '{"command": "rm -rf /tmp/a'),)
    assert server.refusals == []
    assert b"_unparsed" in server.chats[-1].raw


@wires
@pytest.mark.parametrize("given", ["", '{"command": "ec'])
async def test_e05_a_call_cut_off_by_length_says_so(make: Make, given: str) -> None:
    """A call that ran out of room is marked by its finish and its unparsed arguments, also when none had come yet."""
    async with serving(make, Reply(tool_calls=[Call("exec", given)], finish="length")) as (_, provider):
        response = await provider.stream(ask(), Seen())

    assert response.finish == "length"
    assert response.tool_calls == (ToolCallRequest("exec", given),)


@wires
async def test_lone_surrogates_and_nuls_are_replaced(make: Make) -> None:
    """Text no vendor takes, wherever it hides, does not make a request fail."""
    bad = "bad \ud83d and \0"
    messages = (
        user_text(bad, entry="e1"),
        AssistantMessage(bad, (ToolCall("e2.0", f"ex{bad}", {bad: [bad]}), ToolCall("e2.1", "exec", bad)), entry="e2"),
        ToolMessage("e2.0", "exec", bad, entry="e3"),
        ToolMessage("e2.1", "exec", "", is_error=True, entry="e4"),
        UserMessage((TextPart(""), TextPart(bad)), entry="e5"),
    )
    async with serving(make, Reply("ok")) as (server, provider):
        response = await provider.stream(ask(*messages, system=bad), Seen())

    assert response.text == "ok"
    assert server.refusals == []
    assert b"\\u0000" not in server.chats[0].raw


@wires
async def test_a07_neighbouring_user_rows_are_merged(make: Make) -> None:
    """Two things said in a row reach strict templates as one row, in order."""
    async with serving(make, Reply("ok")) as (server, provider):
        await provider.stream(ask(user_text("first"), user_text("second")), Seen())

    assert server.refusals == []
    raw = server.chats[0].raw
    assert raw.count(b'"role":"user"') == 1
    assert raw.index(b"first") < raw.index(b"second")


@wires
async def test_forbidding_tools_keeps_them_in_the_prompt(make: Make) -> None:
    """``tool_choice="none"`` changes no element of the prefix, and tools go on as they were."""
    async with serving(make, Reply("ok"), Reply("ok")) as (server, provider):
        await provider.stream(ask(), Seen())
        await provider.stream(ask(tool_choice="none"), Seen())

    assert server.chats[0].elements == server.chats[1].elements
    assert server.chats[1].body["tool_choice"] in ("none", {"type": "none"})


@wires
async def test_images_are_sent_or_replaced_by_a_reason(make: Make, tmp_path: Path) -> None:
    """A good image goes as one; a missing, damaged or changed one becomes a text, and never an error."""
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(PNG)
    bad.write_bytes(b"\x89PNG\r\n\x1a\njunk")
    sha = hashlib.sha256(PNG).hexdigest()
    parts = (
        TextPart("look"),
        ImagePart(str(good), "image/jpeg", sha),
        ImagePart(str(bad), "image/png", hashlib.sha256(bad.read_bytes()).hexdigest()),
        ImagePart(str(good), "image/png", "0" * 64),
        ImagePart(str(tmp_path / "gone.png"), "image/png", sha),
    )
    async with serving(make, Reply("ok")) as (server, provider):
        await provider.stream(ask(UserMessage(parts)), Seen())

    raw = server.chats[0].raw
    assert server.refusals == []
    assert raw.count(base64.b64encode(PNG)) == 1
    assert b"image/png" in raw
    assert all(reason in raw for reason in (b"damaged", b"changed since", b"gone"))


@wires
async def test_e13_a_refusal_of_images_is_known_as_one(make: Make, tmp_path: Path) -> None:
    """The caller can tell that leaving images out may help, and is the one to do it: the log must know."""
    (tmp_path / "a.png").write_bytes(PNG)
    seen = UserMessage((TextPart("look"), ImagePart(str(tmp_path / "a.png"), "image/png", "")))
    refusal = Reply(
        status=400,
        error={"type": "error", "error": {"type": "invalid_request_error", "message": "image input is not supported"}},
    )
    async with serving(make, refusal) as (server, provider):
        with pytest.raises(BadRequest) as caught:
            await provider.stream(ask(seen), Seen())

    assert refuses_images(caught.value)
    assert len(server.chats) == 1


@wires
async def test_thinking_is_sent_back_verbatim(make: Make) -> None:
    """Signed thinking and reasoning return to their model as they came, in a request the strict server accepts."""
    replies = (
        Reply("Hm.", tool_calls=[Call("exec", {"command": "ls"})], reasoning="let me think"),
        Reply("done", reasoning="ok"),
    )
    async with serving(make, *replies) as (server, provider):
        request = ask(reasoning_effort="medium", max_tokens=20_000)
        first = await provider.stream(request, Seen())
        last = await provider.stream(follow(request, first, "e2"), Seen())

    assert first.reasoning == "let me think"
    assert first.extra is not None
    assert b"let me think" in server.chats[1].raw
    assert last.text == "done"
    assert server.refusals == []


@pytest.mark.parametrize(("start", "end"), [("openai", "anthropic"), ("anthropic", "openai")])
async def test_a_conversation_changes_wires(start: str, end: str) -> None:
    """What began on one wire goes on at the other: calls keep their results, reasoning of strangers stays out."""
    replies = (
        Reply(
            "See:",
            tool_calls=[Call("exec", {"command": "a"}), Call("exec", {"command": "b"})],
            reasoning="secret thought",
        ),
    )
    async with serving(WIRES[start], *replies) as (_, provider):
        first = await provider.stream(ask(), Seen())
    async with serving(WIRES[end], Reply(tool_calls=[Call("exec", {"command": "c"})]), Reply("done")) as (
        server,
        provider,
    ):
        request = follow(ask(), first, "e2")
        second = await provider.stream(request, Seen())
        last = await provider.stream(follow(request, second, "e6"), Seen())

    assert last.text == "done"
    assert server.refusals == []
    assert all(b"secret thought" not in chat.raw for chat in server.chats)


STATUSES: list[tuple[int, str, type[ProviderError]]] = [
    (400, "bad thing", BadRequest),
    (401, "no such key", AuthFailed),
    (403, "not yours", AuthFailed),
    (402, "pay first", QuotaExhausted),
    (404, "no such model", BadRequest),
    (413, "too big", ContextOverflow),
    (400, "prompt is too long: 250000 tokens > 200000 maximum", ContextOverflow),
    (429, "slow down", RateLimited),
    (500, "oops", Unavailable),
    (503, "down", Unavailable),
    (529, "Overloaded", Unavailable),
]


@every
@pytest.mark.parametrize(("status", "said", "kind"), STATUSES, ids=[f"{s}-{k.__name__}" for s, _, k in STATUSES])
async def test_errors_are_mapped_and_hold_no_key(make: Make, status: int, said: str, kind: type[ProviderError]) -> None:
    """Each refusal becomes its own kind of error, with the vendor's words, the status, and never the key."""
    body = {"type": "error", "error": {"type": "some_error", "message": f"{said} (sk-test-key)"}}
    async with serving(make, Reply(status=status, error=body)) as (_, provider):
        with pytest.raises(ProviderError) as caught:
            await provider.stream(ask(), Seen())

    assert type(caught.value) is kind
    assert caught.value.status == status
    assert said in str(caught.value)
    assert "sk-test-key" not in str(caught.value)


@every
async def test_the_server_says_when_to_come_back(make: Make) -> None:
    """Retry-After reaches the error as seconds."""
    async with serving(make, Reply(status=429, headers={"Retry-After": "7"})) as (_, provider):
        with pytest.raises(RateLimited) as caught:
            await provider.stream(ask(), Seen())

    assert caught.value.retry_after_s == 7


@every
async def test_e29_an_error_inside_a_good_stream_is_an_error(make: Make) -> None:
    """A 200 that turns into an error in the middle is a failure that can be tried again, not half an answer."""
    error = {"type": "overloaded_error", "message": "Overloaded"}
    async with serving(make, Reply("half of an answer", stream_error=error, after=1)) as (_, provider):
        seen = Seen()
        with pytest.raises(Unavailable, match="Overloaded"):
            await provider.stream(ask(), seen)

    assert seen.text


@every
async def test_e29_a_stream_that_just_ends_is_no_answer(make: Make) -> None:
    """A clean end without the event that finishes an answer is a stall."""
    async with serving(make, Reply("half of an answer", end_early=True, after=2)) as (_, provider):
        with pytest.raises(StreamStalled):
            await provider.stream(ask(), Seen())


@every
async def test_a_broken_socket_is_unavailable(make: Make) -> None:
    """A connection that breaks in the middle can be tried again."""
    async with serving(make, Reply("half of an answer", break_after=3, delay_s=0)) as (_, provider):
        with pytest.raises((Unavailable, StreamStalled)):
            await provider.stream(ask(), Seen())


@every
@pytest.mark.parametrize("hang", ["accept", "headers", "after_delta"])
async def test_e17_silence_ends_in_time(make: Make, hang: Literal["accept", "headers", "after_delta"]) -> None:
    """A server that says nothing, at whatever point, is given up after its limit, and keep-alives do not change that."""
    reply = Reply("some answer", hang=hang, after=1, keepalive_every_s=None if hang == "accept" else 0.02)
    async with serving(make, reply, timeouts=QUICK) as (_, provider):
        began = asyncio.get_running_loop().time()
        with pytest.raises(StreamStalled, match=r"providers\.one\.timeouts"):
            await provider.stream(ask(), Seen())
        took_s = asyncio.get_running_loop().time() - began

    assert took_s < 2


@every
async def test_e31_cancelling_closes_the_stream(make: Make) -> None:
    """A cancelled request lets go of its connection, and the next one works."""
    async with serving(make, *(Reply("slow answer", hang="after_delta", after=1) for _ in range(20)), Reply("ok")) as (
        server,
        provider,
    ):
        for _ in range(20):
            started = asyncio.Event()
            task = asyncio.create_task(provider.stream(ask(), lambda event, started=started: started.set()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        response = await provider.stream(ask(), Seen())
        gone = [chat.is_gone for chat in server.chats[:-1]]

    assert response.text == "ok"
    assert all(gone)


@every
async def test_e08_a_server_that_does_not_stream(make: Make) -> None:
    """A whole JSON answer to a request for a stream is an answer."""
    body = (
        b'{"id":"x","model":"test-model","choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],'
        b'"type":"message","content":[{"type":"text","text":"whole"}],"stop_reason":"end_turn"}'
    )
    async with serving(make, Reply(raw_body=body, headers={"Content-Type": "application/json"})) as (_, provider):
        seen = Seen()
        response = await provider.stream(ask(), seen)

    assert response.text == seen.text == "whole"


@every
@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"rate limited","code":429,"type":"rate_limit_error"}}',
        b'{"choices":null}',
        b"[]",
        b"no JSON",
    ],
)
async def test_e08_an_error_that_calls_itself_a_success(make: Make, body: bytes) -> None:
    """A 200 whose body is an error, or nothing we know, is an error that can be tried again."""
    async with serving(make, Reply(raw_body=body, headers={"Content-Type": "application/json"})) as (_, provider):
        with pytest.raises(ProviderError) as caught:
            await provider.stream(ask(), Seen())

    assert caught.value.retryable


@every
async def test_closing_twice_is_harmless(make: Make) -> None:
    """A provider may be closed again."""
    async with serving(make, Reply("ok")) as (_, provider):
        await provider.stream(ask(), Seen())
        await provider.close()


async def test_anthropic_counts_a_request_as_it_would_charge_it() -> None:
    """The counting endpoint gets the prompt and nothing else, and its number is the one that is reported afterwards."""
    async with serving(WIRES["anthropic"], Reply("ok")) as (server, provider):
        request = ask(max_tokens=1_000, temperature=0.5)
        counted = await counted_tokens(provider, request)
        answered = await provider.stream(request, Seen())

    assert answered.usage is not None
    assert counted == answered.usage.input_tokens
    assert server.refusals == []


async def test_a_server_that_cannot_count_costs_nothing_but_the_question() -> None:
    """OpenAI's wire is not asked; an error or a silence of the other means that the estimate counts."""
    async with serving(WIRES["openai"], Reply("ok")) as (server, provider):
        assert await counted_tokens(provider, ask()) is None
        assert server.requests == []
    nowhere = AnthropicSettings(type="anthropic", base_url="http://127.0.0.1:9", api_key=SecretStr("k"))
    provider = anthropic_provider("gone", nowhere, environ={})
    assert await counted_tokens(provider, ask()) is None
    await provider.close()
