"""Random conversations through the whole loop: events follow their grammar, requests are legal, memory and disk agree."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent.settings import AgentSettings
from nanobot.bus.runtime_events import RuntimeEvent, TurnFinished, TurnStarted, Usage
from nanobot.errors import AuthFailed, ProviderError, Unavailable
from nanobot.messages import JsonObject
from nanobot.providers.base import Finish, LLMRequest, LLMResponse, ToolCallRequest
from nanobot.session.log import SessionLog
from tests.fakes.agent import KEY, Agent, Echo
from tests.fakes.legality import illegal

USAGE = st.sampled_from([None, Usage(input_tokens=50, output_tokens=5)])
TEXTS = st.sampled_from(["", "  ", "An answer.", "😀 done", "x" * 500])
FINISHES: st.SearchStrategy[Finish] = st.sampled_from(["stop", "length", "refusal"])


def _call(name: str, arguments: JsonObject | str) -> ToolCallRequest:
    return ToolCallRequest(name, arguments)


def _text_answer(text: str, finish: Finish, usage: Usage | None) -> LLMResponse:
    return LLMResponse(text=text, finish=finish, usage=usage)


def _call_answer(text: str, wanted: list[ToolCallRequest], finish: Finish) -> LLMResponse:
    return LLMResponse(text=text, tool_calls=tuple(wanted), finish=finish)


ARGUMENTS: list[JsonObject | str] = [{"text": "a"}, {"text": "b" * 3_000}, {}, {"txt": 1}, '{"text": "cut', ""]
CALLS = st.builds(_call, st.sampled_from(["echo", "ehco", ""]), st.sampled_from(ARGUMENTS))
CALL_FINISHES: st.SearchStrategy[Finish] = st.sampled_from(["tool_calls", "tool_calls", "length", "refusal"])
ANSWERS = st.one_of(
    st.builds(_text_answer, TEXTS, FINISHES, USAGE),
    st.builds(_call_answer, TEXTS, st.lists(CALLS, min_size=1, max_size=4), CALL_FINISHES),
)
FAILURES: st.SearchStrategy[ProviderError] = st.sampled_from([Unavailable("down"), AuthFailed("no key")])
STEPS = st.lists(st.one_of(ANSWERS, ANSWERS, ANSWERS, FAILURES), max_size=12)
SAYINGS = st.lists(
    st.sampled_from(["hi", "more", "/undo", "/retry", "/new", "/status", "/nope", "/model fake/other", ""]),
    min_size=1,
    max_size=6,
)


async def _converse(sayings: list[str], steps: list[LLMResponse | ProviderError]) -> Agent:
    """Talk until the sayings are used up; a script that runs dry answers "end"."""
    agent = Agent(
        [*steps, *[LLMResponse(text="end")] * 200],
        tools=[Echo()],
        settings=AgentSettings(max_iterations=5, max_tool_result_chars=1_000),
        window=20_000,
    )
    async with agent:
        for saying in sayings:
            await agent.ask(saying)
    return agent


def _grammar_fault(events: list[RuntimeEvent]) -> str | None:
    """Check each turn id: one start, first; one finish, last."""
    by_turn: dict[str, list[RuntimeEvent]] = {}
    for event in events:
        if turn := getattr(event, "turn", ""):
            by_turn.setdefault(turn, []).append(event)
    for turn, of_turn in by_turn.items():
        starts = [i for i, event in enumerate(of_turn) if isinstance(event, TurnStarted)]
        ends = [i for i, event in enumerate(of_turn) if isinstance(event, TurnFinished)]
        if starts != [0] and not turn.startswith("direct:"):
            return f"{turn} starts at {starts}"
        if ends != [len(of_turn) - 1]:
            return f"{turn} ends at {ends} of {len(of_turn)}"
    return None


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SAYINGS, STEPS)
def test_random_conversations_are_legal_and_kept(sayings: list[str], steps: list[LLMResponse | ProviderError]) -> None:
    """Whatever a model answers and a person types, promises 5 and the event grammar hold, and the log says what memory says."""

    async def run() -> tuple[Agent, SessionLog]:
        agent = await _converse(sayings, steps)
        return agent, await agent.log()

    agent, log = asyncio.run(run())

    assert [fault for request in agent.provider.requests if (fault := illegal(request))] == []
    assert _grammar_fault(agent.events) is None
    assert log.open is None
    assert not log.pending
    assert log.key == KEY


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SAYINGS, STEPS)
def test_a_restart_changes_nothing_the_model_sees(sayings: list[str], steps: list[LLMResponse | ProviderError]) -> None:
    """The next request is the same whether the process was restarted before it or not."""

    async def run() -> tuple[LLMRequest, LLMRequest]:
        lasting = await _converse(sayings, steps)
        so_far = len(lasting.provider.requests)
        restarted = lasting.after_restart([LLMResponse(text="last")])
        async with restarted:
            await restarted.ask("and now?")
        undisturbed = await _converse([*sayings, "and now?"], steps)
        return restarted.provider.requests[0], undisturbed.provider.requests[so_far]

    after_restart, undisturbed = asyncio.run(run())

    assert after_restart == undisturbed
