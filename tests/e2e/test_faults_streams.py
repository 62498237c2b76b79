"""Field faults of the way to the model: silence, breaks, errors in mid-stream, blips and outages.  Whole Turns over both wires."""

import asyncio
import os
from pathlib import Path
from time import monotonic

import pytest

from nanobot.app import Nanobot
from nanobot.bus.runtime_events import ProviderSwitched, Retrying, RuntimeEvent, TextDelta, TextReset
from nanobot.session.entries import Step
from tests.e2e.bots import KEY, QUICK, WIRES, Wire, bot_on, chain, entries_of, impatient, log_faults
from tests.fakes.llm_server import Call, Hang, LLMServer, Reply

BOTH = pytest.mark.parametrize("wire", WIRES)
OVERLOADED = {
    "openai": {"message": "The server had an error", "type": "server_error", "code": None},
    "anthropic": {"type": "overloaded_error", "message": "Overloaded"},
}


def shown(events: list[RuntimeEvent]) -> str:
    """Return the text that a screen holds after these events."""
    text = ""
    for event in events:
        if isinstance(event, TextReset):
            text = ""
        elif isinstance(event, TextDelta):
            text += event.text
    return text


def watched(bot: Nanobot) -> list[RuntimeEvent]:
    """Return a list that fills with the bot's events."""
    seen: list[RuntimeEvent] = []
    bot.events.observe(seen.append)
    return seen


@BOTH
@pytest.mark.parametrize(
    ("hang", "named"), [("accept", "first_token_s"), ("headers", "first_token_s"), ("after_delta", "idle_s")]
)
async def test_e17_silence_ends_in_time_and_is_named(wire: Wire, hang: Hang, named: str, tmp_path: Path) -> None:
    """A server that accepts and says nothing, sends headers only, or falls silent ends the Turn with the limit's name."""
    silent = Reply("Never to be finished.", hang=hang, after=1)
    async with LLMServer([silent] * 5) as server:
        model = impatient(server, wire, first_token_s=0.05, idle_s=0.05)
        async with bot_on(server, wire, tmp_path, provider=model) as bot:
            began = monotonic()
            result = await bot.process_direct("hi", session_key=KEY)

        assert monotonic() - began < 5
        assert result.stop_reason == "error"
        assert named in (result.error or "")
        assert len(server.chats) == 2
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e26_all_tries_together_are_bounded(wire: Wire, tmp_path: Path) -> None:
    """The SDK's own retries are off: what we count is what the server sees."""
    async with LLMServer([Reply(status=500)] * 20) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            result = await bot.process_direct("hi", session_key=KEY)

        assert result.stop_reason == "error"
        assert len(server.chats) == QUICK.attempts


@BOTH
async def test_e17_keep_alives_are_no_answer(wire: Wire, tmp_path: Path) -> None:
    """A proxy that keeps the connection warm does not keep the Turn waiting."""
    warm = Reply("Never.", hang="after_delta", after=1, keepalive_every_s=0.01)
    async with LLMServer([warm] * 5) as server:
        model = impatient(server, wire, first_token_s=0.1, idle_s=0.1)
        async with bot_on(server, wire, tmp_path, provider=model) as bot:
            result = await bot.process_direct("hi", session_key=KEY)

        assert "idle_s" in (result.error or "")


def broken(what: str, wire: Wire) -> Reply:
    """Return an answer that breaks in this way."""
    match what:
        case "e19_an_error_event_after_text":
            return Reply("Hello wor", after=2, stream_error=OVERLOADED[wire])
        case "e29_an_error_event_before_text":
            return Reply("Hello wor", after=0, stream_error=OVERLOADED[wire])
        case "e29_a_stream_that_just_ends":
            return Reply("Hello wor", after=2, end_early=True)
        case _:
            return Reply("Hello world", delay_s=0, break_after=4)


BREAKS = [
    "e19_an_error_event_after_text",
    "e29_an_error_event_before_text",
    "e29_a_stream_that_just_ends",
    "c16_a_connection_that_breaks",
]


@BOTH
@pytest.mark.parametrize("what", BREAKS)
async def test_a_broken_answer_is_replaced_and_seen_once(wire: Wire, what: str, tmp_path: Path) -> None:
    """What was shown of it is taken back, the model is asked again, and one answer is shown, told and logged."""
    async with LLMServer([broken(what, wire), Reply("Hello world")]) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            seen = watched(bot)
            result = await bot.process_direct("hi", session_key=KEY)

        assert (result.content, result.error, len(server.chats)) == ("Hello world", None, 2)
        assert shown(seen) == "Hello world"
        assert sum(isinstance(event, Retrying) for event in seen) == 1
        logged = [entry.message.text for entry in await entries_of(tmp_path) if isinstance(entry, Step)]
        assert logged == ["Hello world"]


@BOTH
async def test_e19_an_answer_that_breaks_for_good_is_kept_as_cut_off(wire: Wire, tmp_path: Path) -> None:
    """When no try succeeds, the person keeps what was shown, marked; the next request is legal and tells the model."""
    half = Reply("The answer is for", after=3, stream_error=OVERLOADED[wire])
    async with LLMServer([half] * QUICK.attempts) as server:
        async with bot_on(server, wire, tmp_path, provider=impatient(server, wire)) as bot:
            seen = watched(bot)
            failed = await bot.process_direct("hi", session_key=KEY)
            server.queue(Reply("Forty-two."))
            after = await bot.process_direct("go on", session_key=KEY)

        assert (failed.stop_reason, after.content) == ("error", "Forty-two.")
        assert shown(seen).startswith("The answer is for")
        assert server.chats[-1].raw.decode().count("The answer is for") == 1
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e19_a_tool_round_before_the_break_is_not_repeated(wire: Wire, tmp_path: Path) -> None:
    """Only the broken request is sent again; the tool ran once."""
    ran: list[str] = []

    def note(word: str) -> str:
        """Note it."""
        ran.append(word)
        return "noted"

    replies = [
        Reply("", [Call("note", {"word": "x"})]),
        Reply("Hello wor", after=2, stream_error=OVERLOADED[wire]),
        Reply("Hello world"),
    ]
    async with LLMServer(replies) as server:
        async with bot_on(server, wire, tmp_path, tools=[note], provider=impatient(server, wire)) as bot:
            result = await bot.process_direct("hi", session_key=KEY)

        assert (result.content, ran) == ("Hello world", ["x"])
        assert server.refusals == []


@BOTH
async def test_e16_one_blip_stays_with_the_model(wire: Wire, tmp_path: Path) -> None:
    """A single 503 is tried again there; nobody else is asked and nobody is told of a switch."""
    other: Wire = "anthropic" if wire == "openai" else "openai"
    async with LLMServer([Reply(status=503), Reply("Here.")]) as server:
        model = chain(impatient(server, wire), impatient(server, other))
        async with bot_on(server, wire, tmp_path, provider=model) as bot:
            seen = watched(bot)
            result = await bot.process_direct("hi", session_key=KEY)

        assert result.content == "Here."
        assert [request.wire for request in server.chats] == [wire, wire]
        assert not any(isinstance(event, ProviderSwitched) for event in seen)


@BOTH
@pytest.mark.parametrize("fault", [Reply(hang="accept"), Reply(status=401)])
async def test_e16_the_next_model_answers_for_one_that_is_out(wire: Wire, fault: Reply, tmp_path: Path) -> None:
    """A hang beyond its limit, or a refused key, brings in the next model; events and log say who answered."""
    other: Wire = "anthropic" if wire == "openai" else "openai"
    tries = 2 if fault.hang else 1
    async with LLMServer([*[fault] * tries, Reply("From the other.")]) as server:
        model = chain(impatient(server, wire, first_token_s=0.05), impatient(server, other))
        async with bot_on(server, wire, tmp_path, provider=model) as bot:
            seen = watched(bot)
            result = await bot.process_direct("hi", session_key=KEY)

        assert (result.content, result.error) == ("From the other.", None)
        assert [event.to_model for event in seen if isinstance(event, ProviderSwitched)] == [f"{other}/test-model"]
        answered = [entry.model for entry in await entries_of(tmp_path) if isinstance(entry, Step)]
        assert answered == [f"{other}/test-model"]


@BOTH
async def test_e16_the_end_of_the_chain_is_told_once(wire: Wire, tmp_path: Path) -> None:
    """When nobody answers the person gets one sentence, and the session goes on."""
    other: Wire = "anthropic" if wire == "openai" else "openai"
    async with LLMServer([Reply(status=503)] * (2 * QUICK.attempts)) as server:
        model = chain(impatient(server, wire), impatient(server, other))
        async with bot_on(server, wire, tmp_path, provider=model) as bot:
            failed = await bot.process_direct("hi", session_key=KEY)
            server.queue(Reply("Back."))
            after = await bot.process_direct("again", session_key=KEY)

        assert failed.stop_reason == "error"
        assert failed.error
        assert "\n" not in failed.error
        assert (after.content, after.error) == ("Back.", None)
        assert server.refusals == []
    assert await log_faults(tmp_path) == []


@BOTH
async def test_e31_two_hundred_cancelled_streams_leave_a_client_that_works(wire: Wire, tmp_path: Path) -> None:
    """Callers that leave in mid-answer give connection and descriptor back; the next call works."""
    async with LLMServer() as server, bot_on(server, wire, tmp_path) as bot:
        server.responder = lambda _: Reply("One delta, then silence.", hang="after_delta", after=1)
        open_after: list[int] = []
        for _ in range(10):
            await asyncio.gather(*(_leave_in_mid_answer(bot, number) for number in range(20)))
            open_after.append(len(os.listdir("/proc/self/fd")))
        async with asyncio.timeout(5):
            while server.in_flight:  # noqa: ASYNC110  # the server has no event for it; it notices when it reads
                await asyncio.sleep(0.005)
        server.responder = lambda _: Reply("Works.")
        result = await bot.process_direct("still there?", session_key="script:0")

        assert result.content == "Works."
        assert len(server.chats) == 201
        assert open_after[-1] <= open_after[0] + 5
        assert server.refusals == []
    for number in range(20):
        assert await log_faults(tmp_path, f"script:{number}") == []


async def _leave_in_mid_answer(bot: Nanobot, number: int) -> None:
    """Ask, wait for the first text, and leave."""
    async for event in bot.stream("hi", session_key=f"script:{number}"):
        if isinstance(event, TextDelta):
            break
