"""Summaries are made beside the chat, judged, swapped in at a border, recorded, and can be taken back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeAlias

import pytest

from nanobot.agent import summary
from nanobot.agent.settings import AgentSettings, CompactionSettings
from nanobot.bus.runtime_events import Compacted, Usage
from nanobot.errors import ContextOverflow, ProviderError, Unavailable
from nanobot.messages import UserMessage
from nanobot.providers.base import Emit, LLMRequest, LLMResponse
from nanobot.session.entries import Cut, Summary
from tests.fakes.agent import KEY, Agent
from tests.fakes.legality import illegal
from tests.fakes.provider import says

Summarizer: TypeAlias = Callable[[LLMRequest], "LLMResponse | Awaitable[LLMResponse]"]

GOOD = "Goal: the plan for srv-42. Facts: /etc/app.conf, https://example.org/x."
LONG = "This part is about /etc/app.conf and https://example.org/x. " + "Some more words about it. " * 300
WINDOW = 20_000


def talker(summarizer: Summarizer, **compaction: object) -> Agent:
    """Return an agent whose summaries come from ``summarizer``; everything else is answered "yes"."""

    async def answer(request: LLMRequest, emit: Emit) -> LLMResponse:
        if request.system != summary.SYSTEM:
            return says("yes")
        made = summarizer(request)
        return await made if isawaitable(made) else made

    settings = AgentSettings(
        max_tokens=1_000, compaction=CompactionSettings.model_validate({"keep_tokens": 2_500, **compaction})
    )
    return Agent([answer] * 400, settings=settings, window=WINDOW)


def good(request: LLMRequest) -> LLMResponse:
    return says(GOOD, usage=Usage(input_tokens=700, output_tokens=70))


def rubbish(request: LLMRequest) -> LLMResponse:
    return says("ok")


def failing(error: ProviderError) -> Summarizer:
    def fail(request: LLMRequest) -> LLMResponse:
        raise error

    return fail


def chats(agent: Agent) -> list[LLMRequest]:
    return [request for request in agent.provider.requests if request.system != summary.SYSTEM]


def asked_for_summaries(agent: Agent) -> list[LLMRequest]:
    return [request for request in agent.provider.requests if request.system == summary.SYSTEM]


async def talk(agent: Agent, turns: int, text: str = LONG) -> None:
    for turn in range(turns):
        await agent.ask(f"#{turn}: {text}")
        await settle()


async def settle() -> None:
    """Wait until no summary is being made, or for a while if it is held up: it goes through a thread."""
    for _ in range(60):
        if not any(task.get_name().startswith("compact ") for task in asyncio.all_tasks()):
            return
        await asyncio.sleep(0.002)


async def summaries(agent: Agent) -> list[Summary]:
    return [entry for entry in await agent.entries() if isinstance(entry, Summary)]


async def test_a_long_conversation_becomes_a_summary_and_a_verbatim_tail() -> None:
    """The model sees the summary in the place of what it covers, and the newest exchanges as they were."""
    async with talker(good) as agent:
        await talk(agent, 12)

        (made,) = await summaries(agent)
        first = chats(agent)[-1].messages[0]
        assert isinstance(first, UserMessage)
        assert first.origin == "summary"
        assert GOOD in first.text
        assert any("#11: This part" in m.text for m in chats(agent)[-1].messages)
        assert not any("#0: This part" in m.text for m in chats(agent)[-1].messages[1:])
        assert made.usage == Usage(input_tokens=700, output_tokens=70)
        assert [event for event in agent.events if isinstance(event, Compacted)]


async def test_b29_a_summary_costs_its_session() -> None:
    """What the summary cost is part of the session's usage, in memory and on disk."""
    async with talker(good) as agent:
        await talk(agent, 12)
        requests = len(chats(agent))

        assert (await agent.log()).usage.input_tokens == requests * 10 + 700
        assert (await agent.log()).usage.output_tokens == requests * 5 + 70


async def test_b07_a_summary_is_there_after_a_restart() -> None:
    """B07: nothing is summarized twice, and the model sees the same."""
    async with talker(good) as agent:
        await talk(agent, 12)
        before = chats(agent)[-1].messages
    again = agent.after_restart([says("yes")])
    async with again:
        await again.ask("and now?")

        assert again.provider.requests[0].messages[: len(before)] == before


@pytest.mark.parametrize("how", ["hangs", "errors", "rubbish", "overflows"])
async def test_b08_c19_no_message_waits_for_a_summary(how: str) -> None:
    """B08, C19: with a summarizer that never answers, fails or overflows, each Turn takes as long as without one."""

    async def never(request: LLMRequest) -> LLMResponse:
        await asyncio.Event().wait()
        raise AssertionError

    summarizers: dict[str, Summarizer] = {
        "hangs": never,
        "errors": failing(Unavailable("down")),
        "rubbish": rubbish,
        "overflows": failing(ContextOverflow("too long")),
    }
    async with talker(summarizers[how]) as agent:
        async with asyncio.timeout(30):
            while not asked_for_summaries(agent):
                await agent.ask(f"before: {LONG}")
                await asyncio.sleep(0.001)  # the summary is prepared in a thread
        took: list[float] = []
        for turn in range(30):
            started = time.perf_counter()
            await agent.ask(f"#{turn}: {LONG}")
            took.append(time.perf_counter() - started)

        # A wait would be one of minutes, and if one Turn waited all would; bench/context.py looks at the slowest.
        assert min(took) < 0.5
        assert [fault for request in chats(agent) if (fault := illegal(request))] == []
        assert await summaries(agent) == []


async def test_a_summary_that_takes_too_long_is_given_up() -> None:
    """The time limit is the summary's own; a timeout is recorded and nothing else happens."""

    async def never(request: LLMRequest) -> LLMResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with talker(never, timeout_s=0.01) as agent:
        await talk(agent, 9)
        await asyncio.sleep(0.03)

        cuts = [entry for entry in await agent.entries() if isinstance(entry, Cut) and entry.pass_name == "compaction"]
        assert cuts
        assert "within 0.01 s" in cuts[0].why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("x" * 200_000, "no shorter"),
        ("We talked about this and that.", "names and numbers were missing"),
    ],
)
async def test_a_useless_summary_is_not_accepted(text: str, why: str) -> None:
    """An empty one, one as long as what it stands for, and one without the names of the span: recorded with their cost."""
    async with talker(lambda request: says(text, usage=Usage(input_tokens=9, output_tokens=1))) as agent:
        await talk(agent, 10)

        cuts = [entry for entry in await agent.entries() if isinstance(entry, Cut) and entry.pass_name == "compaction"]
        assert await summaries(agent) == []
        if text != "x" * 200_000:  # a text of that length is cut before it is judged
            assert why in cuts[0].why
        assert cuts[0].usage == Usage(input_tokens=9, output_tokens=1)


async def test_b26_after_two_useless_tries_plain_leaving_out_takes_over() -> None:
    """B26: every request fits and is legal, the rest is marked, and nobody is asked for summaries all the time."""
    async with talker(lambda request: says("")) as agent:
        await talk(agent, 40)

        assert len(asked_for_summaries(agent)) < 12
        assert all(len(request.messages) < 20 for request in chats(agent))
        assert any("were left out here to save room" in m.text for m in chats(agent)[-1].messages)
        live = agent.sessions.loaded(KEY)
        assert live is not None
        assert len(live.log.rows) < 40  # rows that nobody sees any more are let go


async def test_c20_a_summary_that_breaks_does_not_break_the_session() -> None:
    """C20: whatever is raised in the background, the next message is answered."""

    def broken(request: LLMRequest) -> LLMResponse:
        raise ZeroDivisionError

    async with talker(broken) as agent:
        await talk(agent, 12)

        assert (await agent.ask("still there?")).content == "yes"


async def test_a_reset_voids_a_summary_that_is_being_made() -> None:
    """B10: a summary of the old conversation never shows up in the new one, and /new does not wait for it."""
    gate = asyncio.Event()

    async def slow(request: LLMRequest) -> LLMResponse:
        await gate.wait()
        return says(GOOD)

    async with talker(slow) as agent:
        await talk(agent, 9)
        assert asked_for_summaries(agent)
        await agent.ask("/new")
        gate.set()
        await settle()
        await agent.ask("hello")

        assert await summaries(agent) == []
        assert len(chats(agent)[-1].messages) == 1


async def test_what_is_said_meanwhile_stays_verbatim() -> None:
    """A summary that took several Turns is swapped in all the same; what was said since stands after it."""
    gate = asyncio.Event()

    async def slow(request: LLMRequest) -> LLMResponse:
        await gate.wait()
        return says(GOOD)

    async with talker(slow) as agent:
        await talk(agent, 9)
        await agent.ask("my number is 4711")
        gate.set()
        await settle()
        await agent.ask("what was it?")

        texts = [m.text for m in chats(agent)[-1].messages]
        assert GOOD in texts[0]
        assert any("my number is 4711" in text for text in texts[1:])


async def test_b31_the_request_for_a_summary_fits_the_summarizer() -> None:
    """B31: a span of several times the summarizer's window is summarized part by part, each request within the window."""
    async with talker(good) as agent:
        await talk(agent, 14, LONG * 3)

        assert asked_for_summaries(agent)
        for request in asked_for_summaries(agent):
            size = sum(len(m.text) for m in request.messages) + len(request.system)
            assert size / 3 < WINDOW - request.max_tokens


async def test_a_summary_so_far_is_folded_in() -> None:
    """The second summary is made from the first and what came after, not from the same messages again."""
    async with talker(good) as agent:
        await talk(agent, 24)

        made = await summaries(agent)
        assert len(made) >= 2
        second = asked_for_summaries(agent)[-1].messages[0].text
        assert "Summary so far: [Summary of the conversation so far" in second
        assert "#0: This part" not in second


async def test_compact_now_and_back() -> None:
    """/compact summarizes at once; /compact undo brings back every message, also after a restart."""
    async with talker(good) as agent:
        await talk(agent, 5)
        before = [m.text for m in chats(agent)[-1].messages]

        said = await agent.ask("/compact")
        await agent.ask("between")
        between = [m.text for m in chats(agent)[-1].messages]
        undone = await agent.ask("/compact undo")
    again = agent.after_restart([says("yes"), says("yes")])
    async with again:
        await again.ask("after")
        after = [m.text for m in again.provider.requests[0].messages]

        assert said.content.startswith("Compacted: ")
        assert GOOD in between[0]
        assert undone.content.startswith("The summary was taken back")
        assert after[: len(before)] == before
        assert any(text.startswith("between") for text in after)
        assert (await again.ask("/compact undo")).content == "There is no summary to take back."


async def test_compact_undo_works_after_a_restart() -> None:
    """The log holds what a summary stands for, so it can be taken back by another process too."""
    async with talker(good) as agent:
        await talk(agent, 5)
        before = [m.text for m in chats(agent)[-1].messages]
        await agent.ask("/compact")
    again = agent.after_restart([says("yes")])
    async with again:
        assert (await again.ask("/compact undo")).content.startswith("The summary was taken back")
        await again.ask("after")

        assert [m.text for m in again.provider.requests[0].messages][: len(before)] == before


async def test_a_summary_under_taken_back_messages_stays() -> None:
    """/undo of a later message voids /compact undo, which says so instead of bringing the message back."""
    async with talker(good) as agent:
        await talk(agent, 5)
        await agent.ask("/compact")
        await agent.ask("a secret")
        await agent.ask("/undo")

        assert "cannot be taken back" in (await agent.ask("/compact undo")).content


async def test_undo_of_everything_after_a_summary_points_to_the_summary() -> None:
    """Undoing into a summarized span is not pretended: the answer says what to do."""
    async with talker(good) as agent:
        await talk(agent, 5)
        await agent.ask("/compact")
        answers = [(await agent.ask("/undo")).content for _ in range(3)]

        assert "/compact undo" in answers[-1]


async def test_compact_says_when_there_is_nothing_to_do_or_nothing_came_of_it() -> None:
    """A person who asks gets one sentence, whatever happens."""
    async with talker(failing(Unavailable("the model is down"))) as agent:
        assert (await agent.ask("/compact")).content == "There is nothing to compact yet."
        await talk(agent, 4)

        assert (await agent.ask("/compact")).content == "Nothing was compacted: the model is down."


async def test_b13_the_next_prompt_after_a_summary_is_small() -> None:
    """B13: the tail is measured in tokens, so the next request is well within the window."""
    async with talker(good) as agent:
        await talk(agent, 14)

        compacted = next(event for event in agent.events if isinstance(event, Compacted))
        assert compacted.tokens_after < 0.6 * WINDOW
        assert compacted.tokens_after < compacted.tokens_before


async def test_names_that_a_summary_left_out_are_added() -> None:
    """A summary that misses a few of the span's names is mended, so that they are still there."""
    told = LONG + " The order is ABC-17, the file notes.txt, the branch fix_login and the limit 4711."

    def forgetful(request: LLMRequest) -> LLMResponse:
        return says("Facts: /etc/app.conf, https://example.org/x, ABC-17, notes.txt, 4711.")

    async with talker(forgetful) as agent:
        await talk(agent, 10, told)

        (made, *_) = await summaries(agent)
        assert "fix_login" in made.text
